package alert

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/notice"
	"waybill/app/outbox"
)

// LimitReached is the type of the operational event of a limit that a tenant has reached.
const LimitReached = "tenant.limit_reached"

// reached is its data.
type reached struct {
	Tenant  string `json:"tenant"`
	Limit   string `json:"limit"`
	Level   string `json:"level"`
	Used    int64  `json:"used"`
	Allowed int64  `json:"allowed"`
}

// Reached tells that tenants have reached limits of their day: their people by mail, the platform by an event. It is outbox.Dispatcher's hook of this name.
func (s *Service) Reached(ctx context.Context, tx pgx.Tx, all []outbox.Reached) error {
	var events []outbox.Event
	for _, r := range all {
		level := "soft"
		if r.Hard {
			level = "hard"
		}
		readers, err := s.Accounts.NoticeReaders(ctx, tx, r.TenantID, account.TopicDisabled)
		if err != nil {
			return err
		}
		for _, reader := range readers {
			if err := s.Mails.Put(ctx, tx, notice.Letter{
				Kind: notice.KindLimit, Key: fmt.Sprintf("limit:%s:%s:%s:%s", r.TenantID, r.Day.Format(time.DateOnly), level, reader.ID), TenantID: r.TenantID, To: reader.Email,
				Life: 24 * time.Hour, Notice: notice.LimitReached(r.Name, r.Used, r.Allowed, r.Hard),
			}); err != nil {
				return err
			}
		}
		if s.Operations == "" || r.UID == s.Operations {
			continue
		}
		data, err := json.Marshal(reached{Tenant: r.UID, Limit: "events_per_day", Level: level, Used: r.Used, Allowed: r.Allowed})
		if err != nil {
			return fmt.Errorf("write an operational event: %w", err)
		}
		events = append(events, outbox.Event{Tenant: s.Operations, Type: LimitReached, ResourceType: "tenant", ResourceID: r.UID, Data: data})
	}
	if len(events) == 0 {
		return nil
	}
	_, err := outbox.Publish(ctx, tx, events...)
	return err
}
