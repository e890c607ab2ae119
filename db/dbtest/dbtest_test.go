package dbtest_test

import (
	"sync"
	"testing"

	"waybill/db/dbtest"
)

func TestNew(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	if _, err := pool.Exec(t.Context(), "insert into tenants (id, uid, name) values ('tnt_1', 'one', 'One')"); err != nil {
		t.Fatal(err)
	}
	var count int
	if err := dbtest.New(t).QueryRow(t.Context(), "select count(*) from tenants").Scan(&count); err != nil {
		t.Fatal(err)
	}
	if count != 0 {
		t.Errorf("a new database has %d tenants", count)
	}
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	var clones sync.WaitGroup
	for range 30 {
		clones.Go(func() { dbtest.NewURL(t) })
	}
	clones.Wait()
}
