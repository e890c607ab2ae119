package embedded_test

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"waybill/db/embedded"
)

func TestTry(t *testing.T) {
	dir, _ := os.MkdirTemp("", "emb")
	os.Chmod(dir, 0o755)
	defer os.RemoveAll(dir)
	for range 2 {
		start := time.Now()
		s, err := embedded.Start(context.Background(), embedded.Config{Dir: dir + "/w", Logger: slog.Default()})
		if err != nil {
			t.Fatal(err)
		}
		t.Log(time.Since(start), s.URL())
		start = time.Now()
		t.Log(s.Restart(context.Background()), time.Since(start))
		start = time.Now()
		t.Log(s.Close(), time.Since(start))
	}
}
