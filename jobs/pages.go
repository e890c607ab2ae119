package jobs

import (
	"fmt"
	"log/slog"
	"net/http"

	"riverqueue.com/riverui"
)

// Pages is River's own pages on jobs and queues, to be served below prefix behind a sign-in: they ask nobody who they are. They are not started: what they would
// count in the background, whether anybody looks or not, is counted when somebody does, up to ten thousand of a state, and estimated beyond that.
func (i *Inserter) Pages(prefix string, logger *slog.Logger) (http.Handler, error) {
	handler, err := riverui.NewHandler(&riverui.HandlerOpts{Endpoints: riverui.NewEndpoints(i.client, nil), Logger: logger, Prefix: prefix})
	if err != nil {
		return nil, fmt.Errorf("make the pages on jobs: %w", err)
	}
	return handler, nil
}
