package lane

import (
	"context"
	"log/slog"
	"time"

	"waybill/app/logline"
)

// say writes the one line of a batch of attempts that was recorded.
func (e *Engine) say(ctx context.Context, batch []*result, took time.Duration) {
	if !e.Logger.Enabled(ctx, slog.LevelInfo) {
		return
	}
	line := logline.Batch{Attempts: len(batch), Classes: make(map[string]int, 2), Took: took, Worker: batch[0].worker}
	endpoints, tenants := make(map[string]struct{}, 1), make(map[string]struct{}, 1)
	for _, r := range batch {
		line.Classes[r.class()]++
		switch r.verdict.action {
		case actionDone:
			line.Delivered++
		case actionExhausted:
			line.Undelivered++
		case actionRetry:
			line.Retried++
		}
		line.Slowest = max(line.Slowest, r.out.Total)
		if r.to.endpointID == "" {
			continue // it was recorded before, by a commit whose answer was lost
		}
		endpoints[r.to.endpointID], tenants[r.to.tenantID] = struct{}{}, struct{}{}
		line.Endpoint, line.Tenant = r.to.endpointID, r.to.tenantID
	}
	if line.Endpoints = len(endpoints); line.Endpoints != 1 {
		line.Endpoint = ""
	}
	if len(tenants) != 1 {
		line.Tenant = ""
	}
	line.Write(ctx, e.Logger)
}
