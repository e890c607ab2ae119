package alert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/lane"
	"waybill/app/notice"
	"waybill/db"
	"waybill/db/queries"
)

var (
	digestAdd  = queries.SQL("DigestAdd")
	digestNext = queries.SQL("DigestNext")
	digestTake = queries.SQL("DigestTake")
)

// addDigests counts what became undelivered, for the mail of this hour.
func addDigests(ctx context.Context, tx pgx.Tx, news []lane.News) error {
	type row struct {
		n     *lane.News // the latest
		count int32
	}
	rows := map[string]*row{}
	var ids []string
	for i := range news {
		n := &news[i]
		if n.Kind != lane.DeliveryExhausted || !n.Mail {
			continue
		}
		r := rows[n.EndpointID]
		if r == nil {
			r = &row{}
			rows[n.EndpointID] = r
			ids = append(ids, n.EndpointID)
		}
		r.n = n
		r.count++
	}
	if len(ids) == 0 {
		return nil
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(cmp.Compare(rows[a].n.TenantID, rows[b].n.TenantID), cmp.Compare(a, b))
	})
	var tenants, deliveries, classes, excerpts []string
	var counts, codes []int32
	for _, id := range ids {
		r := rows[id]
		tenants, deliveries, classes = append(tenants, r.n.TenantID), append(deliveries, r.n.DeliveryID), append(classes, r.n.Class)
		counts, codes, excerpts = append(counts, r.count), append(codes, int32(r.n.Code)), append(excerpts, notice.Excerpt(r.n.Body))
	}
	if _, err := tx.Exec(ctx, digestAdd, tenants, ids, counts, deliveries, classes, codes, excerpts); err != nil {
		return fmt.Errorf("count what is undelivered: %w", err)
	}
	return nil
}

// Digest mails what became undelivered in hours that are over, one tenant and hour a transaction, and says how many it has dealt with.
func (s *Service) Digest(ctx context.Context) (int, error) {
	for done := 0; ; done++ {
		var tenantID, tenantName string
		var hour time.Time
		err := s.Mails.DB.QueryRow(ctx, digestNext).Scan(&tenantID, &tenantName, &hour)
		if errors.Is(err, pgx.ErrNoRows) {
			return done, nil
		}
		if err != nil {
			return done, fmt.Errorf("look for what is undelivered: %w", err)
		}
		if err := db.Tx(ctx, s.Mails.DB, func(tx pgx.Tx) error { return s.digest(ctx, tx, tenantID, tenantName, hour) }); err != nil {
			return done, err
		}
	}
}

// digest writes the mails of one tenant and hour. Of two that try, one gets the rows.
func (s *Service) digest(ctx context.Context, tx pgx.Tx, tenantID, tenantName string, hour time.Time) error {
	rows, err := tx.Query(ctx, digestTake, tenantID, hour)
	if err != nil {
		return fmt.Errorf("take what is undelivered: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (u notice.Undone, err error) {
		var class, address string
		var code int
		err = row.Scan(&u.EndpointID, &u.Count, &u.DeliveryID, &class, &code, &u.Excerpt, &u.Name, &address)
		v := explain(class, "", code, address)
		u.Tenant, u.URL, u.Title, u.Short = tenantName, shown(address), v.Title, v.Short
		return u, err
	})
	if err != nil || len(list) == 0 {
		return err
	}
	slices.SortFunc(list, func(a, b notice.Undone) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.EndpointID, b.EndpointID))
	})
	readers, err := s.Accounts.NoticeReaders(ctx, tx, tenantID, account.TopicUndelivered)
	if err != nil {
		return err
	}
	for _, reader := range readers {
		err := s.Mails.Put(ctx, tx, notice.Letter{
			Kind: notice.KindUndelivered, Key: fmt.Sprintf("undelivered:%s:%d:%s", tenantID, hour.Unix(), reader.ID), TenantID: tenantID, To: reader.Email,
			Notice: notice.Undelivered(tenantName, hour, s.Window, list),
		})
		if err != nil {
			return err
		}
	}
	return nil
}
