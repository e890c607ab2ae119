package outbox

import "context"

// Step moves one batch, as Run does.
func (d *Dispatcher) Step(ctx context.Context) (moved int, mine bool, err error) { return d.step(ctx) }
