package dashboard

import (
	"context"
	"sync"
)

// together runs reads that need nothing of each other at the same time, so that a page waits for the slowest and not for the sum. The first error ends the
// others and is returned; a panic goes on in the caller, who knows what to do with it.
func together(ctx context.Context, reads ...func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	var first sync.Once
	var err error
	var caught any
	end := func(failed error, panicked any) {
		first.Do(func() { err, caught = failed, panicked })
		cancel()
	}
	for _, read := range reads {
		all.Go(func() {
			defer func() {
				if panicked := recover(); panicked != nil {
					end(nil, panicked)
				}
			}()
			if failed := read(ctx); failed != nil {
				end(failed, nil)
			}
		})
	}
	all.Wait()
	if caught != nil {
		panic(caught)
	}
	return err
}
