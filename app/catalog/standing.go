package catalog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/cursor"
	"waybill/app/id"
	"waybill/db/queries"
)

// Standing is a consumer with how far it has come.
type Standing struct {
	Consumer
	EventID string // the last event that is acknowledged, or passed over; empty: none is
	Lag     int    // events behind it that it wants, of the next maxLag; at least so many when LagCut
	LagCut  bool
}

// maxLag is how many events behind a consumer are looked at to say how far it is behind.
const maxLag = 10_000

var sqlConsumerLags = queries.SQL("ConsumerLags")

// Standings is a page of at most limit consumers of the caller's tenant by name, with how far each has come, and the cursor of the next page or "". It
// needs catalog:read.
func (c *Consumers) Standings(ctx context.Context, caller account.Caller, after string, limit int) ([]Standing, string, error) {
	found, next, err := c.List(ctx, caller, after, limit)
	if err != nil || len(found) == 0 {
		return nil, next, err
	}
	all, places, names := make([]Standing, len(found)), map[string]*Standing{}, make([]string, len(found))
	for i, consumer := range found {
		all[i] = Standing{Consumer: consumer, EventID: standsBehind(consumer.Cursor)}
		names[i], places[consumer.Name] = consumer.Name, &all[i]
	}
	rows, err := c.Events.DB.Query(ctx, sqlConsumerLags, caller.Tenant(), names, maxLag)
	if err != nil {
		return nil, "", fmt.Errorf("read how far consumers are: %w", err)
	}
	var name string
	var lag, seen int
	_, err = pgx.ForEachRow(rows, []any{&name, &lag, &seen}, func() error {
		places[name].Lag, places[name].LagCut = lag, seen >= maxLag
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("read how far consumers are: %w", err)
	}
	return all, next, nil
}

// standsBehind is the event that a cursor stands behind; empty for the beginning.
func standsBehind(text string) string {
	keys, err := cursor.Decode(cursorOfEvents, text, 3)
	if err != nil || !id.ValidEvent(keys[1]) || keys[1] == nothing {
		return ""
	}
	return keys[1]
}
