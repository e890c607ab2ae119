package dbtest_test

import (
	"testing"

	"waybill/db/dbtest"
)

func BenchmarkNewURL(b *testing.B) {
	dbtest.NewURL(b)
	for b.Loop() {
		dbtest.NewURL(b)
	}
}
func BenchmarkNewURLParallel(b *testing.B) {
	dbtest.NewURL(b)
	b.SetParallelism(4)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			dbtest.NewURL(b)
		}
	})
}
