// Package reseal moves what is sealed to the newest key of the ring, so that the key before it can be taken off.
//
// It promises that a row is sealed again only as it was read, so that whoever changes it meanwhile wins; that it can be ended and begun again at any
// moment, by any process; that nothing is lost with a key that the ring does not have: such rows stay as they are until it has it; and to
// say how far it is.
package reseal

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/lane"
	"waybill/app/notice"
	"waybill/app/seal"
	"waybill/db"
	"waybill/db/queries"
)

// batch is how many rows are sealed again in one transaction.
const batch = 200

var sqlCount = queries.SQL("SealedCount")

// columns are what holds sealed bytes for longer than some days.
var columns = []struct {
	name, next, save string
	place            func(key string) []byte
}{
	{"signing secrets", queries.SQL("ResealSecrets"), queries.SQL("ResealSecret"), lane.SecretAAD},
	{"static headers", queries.SQL("ResealHeaders"), queries.SQL("ResealHeader"), lane.HeadersAAD},
	{"second factors", queries.SQL("ResealSecondFactors"), queries.SQL("ResealSecondFactor"), account.SealedSecondFactor},
	{"mails", queries.SQL("ResealMails"), queries.SQL("ResealMail"), notice.SealedMail},
}

// Standing says with which keys everything is sealed.
type Standing struct {
	Total, Newest int
	Older         map[string]int // by the ids of the ring's other keys
	Missing       map[string]int // by the ids of keys that the ring does not have: these rows cannot be opened
	Kinds         map[string]int // what is missing is, by its name: "signing secrets"
}

// Look counts what is sealed.
func Look(ctx context.Context, conn db.Conn, ring *seal.Ring) (Standing, error) {
	s := Standing{Older: map[string]int{}, Missing: map[string]int{}, Kinds: map[string]int{}}
	rows, err := conn.Query(ctx, sqlCount)
	if err != nil {
		return s, fmt.Errorf("count what is sealed: %w", err)
	}
	ids := ring.KeyIDs()
	var what, key string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&what, &key, &n}, func() error {
		s.Total += n
		switch slices.Index(ids, key) {
		case 0:
			s.Newest += n
		case -1:
			s.Missing[key] += n
			s.Kinds[what] += n
		default:
			s.Older[key] += n
		}
		return nil
	})
	if err != nil {
		return s, fmt.Errorf("count what is sealed: %w", err)
	}
	return s, nil
}

// Lost says in words what cannot be opened and what to do about it; empty when nothing is lost.
func (s Standing) Lost() string {
	if len(s.Missing) == 0 {
		return ""
	}
	var keys, kinds []string
	for _, key := range slices.Sorted(maps.Keys(s.Missing)) {
		keys = append(keys, fmt.Sprintf("%d with key %s", s.Missing[key], key))
	}
	for _, kind := range slices.Sorted(maps.Keys(s.Kinds)) {
		kinds = append(kinds, fmt.Sprintf("%d %s", s.Kinds[kind], kind))
	}
	return fmt.Sprintf("%s are sealed with keys that the ring does not have (%s). Put the key back into WAYBILL_SECRET_KEYS, behind the newest one. Until then "+
		"nothing is sent to the endpoints concerned and their deliveries wait; without it they need new secrets and headers, and people new second factors",
		strings.Join(kinds, ", "), strings.Join(keys, ", "))
}

// Progress says in words how far a change of keys is.
func (s Standing) Progress() string {
	switch {
	case s.Total == 0:
		return "nothing is sealed yet"
	case s.Newest == s.Total:
		return fmt.Sprintf("all %d sealed secrets, headers and mails are sealed with the newest key; other keys may be taken off the ring", s.Total)
	}
	return fmt.Sprintf("%d of %d sealed secrets, headers and mails are sealed with the newest key; another key may be taken off the ring when it says all", s.Newest, s.Total)
}

// Run seals with the newest key what is sealed with another one of the ring, for as long as slice, and says whether it got to the end. Rows that do not open are
// left as they are, and logged.
func Run(ctx context.Context, pool db.Pool, ring *seal.Ring, log *slog.Logger, slice time.Duration) (over bool, err error) {
	older, err := olderKeys(ring)
	if err != nil || len(older) == 0 {
		return true, err
	}
	end := time.Now().Add(slice)
	moved := 0
	for _, c := range columns {
		for passed := ""; ; {
			rows, err := pool.Query(ctx, c.next, passed, older, batch)
			if err != nil {
				return false, fmt.Errorf("look for old %s: %w", c.name, err)
			}
			found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
			if err != nil {
				return false, fmt.Errorf("look for old %s: %w", c.name, err)
			}
			n, err := again(ctx, pool, ring, log, c.name, c.save, c.place, found)
			if err != nil {
				return false, err
			}
			moved += n
			if len(found) < batch {
				break
			}
			if passed = found[len(found)-1].Key; time.Now().After(end) {
				return false, tell(ctx, pool, ring, log, moved)
			}
		}
	}
	return true, tell(ctx, pool, ring, log, moved)
}

type row struct {
	Key    string
	Sealed []byte
}

// again seals some rows anew, each as long as nobody has changed it.
func again(ctx context.Context, pool db.Pool, ring *seal.Ring, log *slog.Logger, name, save string, place func(string) []byte, rows []row) (n int, err error) {
	if len(rows) == 0 {
		return 0, nil
	}
	changes := &pgx.Batch{}
	for _, r := range rows {
		plain, err := ring.Open(r.Sealed, place(r.Key))
		if err != nil {
			log.ErrorContext(ctx, "sealed bytes do not open, and are left as they are", "what", name, "id", r.Key, "error", err)
			continue
		}
		changes.Queue(save, r.Key, r.Sealed, ring.Seal(plain, place(r.Key)))
	}
	err = db.Tx(ctx, pool, func(tx pgx.Tx) error {
		n = 0
		results := tx.SendBatch(ctx, changes)
		for range changes.Len() {
			tag, err := results.Exec()
			if err != nil {
				return errors.Join(err, results.Close())
			}
			n += int(tag.RowsAffected())
		}
		return results.Close()
	})
	if err != nil {
		return 0, fmt.Errorf("seal %s again: %w", name, err)
	}
	return n, nil
}

func tell(ctx context.Context, conn db.Conn, ring *seal.Ring, log *slog.Logger, moved int) error {
	if moved == 0 {
		return nil
	}
	s, err := Look(ctx, conn, ring)
	if err != nil {
		return err
	}
	log.InfoContext(ctx, "sealed again: "+s.Progress(), "rows", moved, "newest", s.Newest, "total", s.Total)
	return nil
}

func olderKeys(ring *seal.Ring) ([][]byte, error) {
	var older [][]byte
	for _, id := range ring.KeyIDs()[1:] {
		key, err := hex.DecodeString(id)
		if err != nil {
			return nil, fmt.Errorf("key id %s: %w", id, err)
		}
		older = append(older, key)
	}
	return older, nil
}
