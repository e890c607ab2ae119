package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/db"
	"waybill/db/queries"
)

var (
	sqlRecoveryLook     = queries.SQL("RecoveryLook")
	sqlRecoveryEnd      = queries.SQL("RecoveryEnd")
	sqlRecoveryHold     = queries.SQL("RecoveryHold")
	sqlRecoveryNext     = queries.SQL("RecoveryNext")
	sqlRecoveryNextPick = queries.SQL("RecoveryNextPick")
	sqlRecoveryMove     = queries.SQL("RecoveryMove")
	sqlRecoveryStep     = queries.SQL("RecoveryStep")
	sqlRecoverySettle   = queries.SQL("RecoverySettle")
	sqlRecoveryTakeBack = queries.SQL("RecoveryTakeBack")
	sqlRecoveryFinish   = queries.SQL("RecoveryFinish")
	sqlRecoverySweep    = queries.SQL("RecoverySweep")
	sqlRecoveryPrune    = queries.SQL("RecoveryPrune")
)

const (
	// recoverWindow is how many deliveries of a catch-up are due at once: enough to keep any endpoint busy between two looks, few enough to be put back
	// within a second when it is cancelled, and to keep the queue small.
	recoverWindow = 2000
	recoverBatch  = 250 // in one transaction, which holds the lane's row for that long
	settleMost    = 1000
	recoverTick   = 200 * time.Millisecond
	// endingPatience is how long the end of a cancelled catch-up waits for answers that are on their way.
	endingPatience = 30 * time.Second
	// lostAfter is how long a catch-up's job may be silent before another takes over. It shows itself at every tick.
	lostAfter   = 10 * time.Second
	keptReports = 90 * 24 * time.Hour
)

// RecoverRun works on a catch-up for as long as slice, and says whether it is finished, or another job has taken it over: then nothing is left to do. All
// it knows is in the database: a run that is cut off anywhere is taken up by the next where its last transaction left it.
func (s *Service) RecoverRun(ctx context.Context, t RecoveryTicket, slice time.Duration) (over bool, err error) {
	begun := time.Now()
	moved := 0
	for {
		full, n, over, err := s.recoverTick(ctx, t, time.Since(begun), moved)
		if err != nil || over {
			return over, err
		}
		moved += n
		if time.Since(begun) > slice {
			return false, nil
		}
		if full {
			continue
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(recoverTick):
		}
	}
}

// recoveryLook is what RecoveryLook says.
type recoveryLook struct {
	endpointID, ending string
	overdue, exhausted bool
	perSecond          int
	requestedBy, shut  string
	underWay           int
	unsettled          bool
}

// recoverTick makes one step. full says that another may follow at once. elapsed and moved are those of this run: its pace.
func (s *Service) recoverTick(ctx context.Context, t RecoveryTicket, elapsed time.Duration, moved int) (full bool, n int, over bool, err error) {
	args := pgx.NamedArgs{"tenant": t.TenantID, "id": t.ID, "gen": t.Gen, "window": recoverWindow, "patience": endingPatience, "limit": settleMost, "ending": ""}
	var l recoveryLook
	err = s.DB.QueryRow(ctx, sqlRecoveryLook, args).Scan(&l.endpointID, &l.ending, &l.overdue, &l.exhausted, &l.perSecond, &l.requestedBy, &l.shut, &l.underWay,
		&l.unsettled)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, 0, true, nil
	}
	if err != nil {
		return false, 0, false, fmt.Errorf("look at recovery: %w", err)
	}
	if l.unsettled {
		if _, err := s.DB.Exec(ctx, sqlRecoverySettle, args); err != nil {
			return false, 0, false, fmt.Errorf("settle recovery: %w", err)
		}
	}
	switch {
	case l.ending == "" && l.shut != "":
		args["ending"] = l.shut
		if _, err := s.DB.Exec(ctx, sqlRecoveryEnd, args); err != nil {
			return false, 0, false, fmt.Errorf("end recovery: %w", err)
		}
		return true, 0, false, nil
	case l.ending != "":
		return s.recoverBack(ctx, t, l)
	case l.exhausted && !l.unsettled:
		return false, 0, true, s.recoverFinish(ctx, t)
	case l.exhausted:
		return false, 0, false, nil
	}
	left := room(l, elapsed, moved)
	if left <= 0 {
		return false, 0, false, nil
	}
	seen, n, err := s.recoverMove(ctx, t, l, min(left, recoverBatch))
	return seen == recoverBatch, n, false, err
}

// room is how many may be made due now: as many as the window has room for, and not more than the pace allows since this run began.
func room(l recoveryLook, elapsed time.Duration, moved int) int {
	window := recoverWindow
	if l.perSecond > 0 {
		// What waits for an endpoint that is slow must not make up for lost time at once.
		window = min(window, max(1, 2*l.perSecond))
	}
	left := window - l.underWay
	if l.perSecond > 0 {
		left = min(left, 1+int(elapsed.Seconds()*float64(l.perSecond))-moved)
	}
	return left
}

// recoverMove makes the next deliveries due, and returns how many it has looked at and how many it has moved.
func (s *Service) recoverMove(ctx context.Context, t RecoveryTicket, l recoveryLook, limit int) (seen, n int, err error) {
	err = db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		seen, n = 0, 0
		if err := s.Lanes.Lock(ctx, tx, l.endpointID); err != nil {
			return err
		}
		args := pgx.NamedArgs{"tenant": t.TenantID, "id": t.ID, "gen": t.Gen, "endpoint": l.endpointID, "limit": limit, "by": l.requestedBy, "recovery": t.ID}
		var passed, fromID, untilID string
		var statuses []string
		var newest bool
		var asOf time.Time
		err := tx.QueryRow(ctx, sqlRecoveryHold, args).Scan(&passed, &fromID, &untilID, &statuses, &newest, &asOf)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // the next look says why
		}
		if err != nil {
			return fmt.Errorf("hold recovery: %w", err)
		}
		args["passed"], args["from_id"], args["until_id"], args["statuses"], args["as_of"] = passed, fromID, untilID, statuses, asOf
		next := sqlRecoveryNext
		if newest {
			next = sqlRecoveryNextPick
		}
		rows, err := tx.Query(ctx, next, args)
		if err != nil {
			return fmt.Errorf("find what to recover: %w", err)
		}
		keys, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p place, err error) { return p, row.Scan(&p.id, &p.day) })
		if err != nil {
			return fmt.Errorf("find what to recover: %w", err)
		}
		seen = len(keys)
		args["exhausted"] = seen < limit
		if seen > 0 {
			if n, err = s.makeRecover(ctx, tx, args, keys); err != nil {
				return err
			}
			args["passed"] = keys[seen-1].id
		}
		args["moved"] = n
		if _, err := tx.Exec(ctx, sqlRecoveryStep, args); err != nil {
			return fmt.Errorf("note the progress of a recovery: %w", err)
		}
		if n == 0 {
			return nil
		}
		return s.Lanes.Wake(ctx, tx, []string{l.endpointID}, nil)
	})
	return seen, n, err
}

func (s *Service) makeRecover(ctx context.Context, tx pgx.Tx, args pgx.NamedArgs, keys []place) (int, error) {
	ids, days := make([]string, len(keys)), make([]time.Time, len(keys))
	for i, key := range keys {
		ids[i], days[i] = key.id, key.day
	}
	args["ids"], args["from_day"], args["to_day"] = ids, earliest(days), latest(days)
	// Planned each time, for these days: a plan that was made while a partition was empty would be remembered.
	tag, err := tx.Exec(ctx, sqlRecoveryMove, pgx.QueryExecModeCacheDescribe, args)
	if err != nil {
		return 0, fmt.Errorf("make parked deliveries due: %w", err)
	}
	return int(tag.RowsAffected()), nil
}

// recoverBack puts back what no sender has, and ends the catch-up once the answers that are on their way have come.
func (s *Service) recoverBack(ctx context.Context, t RecoveryTicket, l recoveryLook) (full bool, n int, over bool, err error) {
	var back int
	err = db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		if err := s.Lanes.Lock(ctx, tx, l.endpointID); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, sqlRecoveryTakeBack, pgx.NamedArgs{"tenant": t.TenantID, "id": t.ID, "limit": recoverBatch}).Scan(&back)
		if err != nil {
			return fmt.Errorf("take back what a recovery has made due: %w", err)
		}
		return nil
	})
	switch {
	case err != nil:
		return false, 0, false, err
	case back == recoverBatch:
		return true, 0, false, nil
	case back == 0 && !l.unsettled || l.overdue:
		return false, 0, true, s.recoverFinish(ctx, t)
	}
	return false, 0, false, nil
}

func (s *Service) recoverFinish(ctx context.Context, t RecoveryTicket) error {
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		var endpointID, state string
		var total, moved, delivered, failed int64
		err := tx.QueryRow(ctx, sqlRecoveryFinish, pgx.NamedArgs{"tenant": t.TenantID, "id": t.ID, "gen": t.Gen}).
			Scan(&endpointID, &state, &total, &moved, &delivered, &failed)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // another job was faster
		}
		if err != nil {
			return fmt.Errorf("finish recovery: %w", err)
		}
		return s.Audit.Record(ctx, tx, account.Waybill("recovery", t.TenantID), "recovery.ended", t.ID, map[string]any{"endpoint_id": endpointID, "state": state,
			"total": total, "sent": moved, "delivered": delivered, "failed": failed})
	})
}

// RecoverSweep gives a new job to each catch-up whose own has been silent for lostAfter, and says how many there were.
func (s *Service) RecoverSweep(ctx context.Context) (int, error) {
	var lost []RecoveryTicket
	err := db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sqlRecoverySweep, lostAfter)
		if err != nil {
			return fmt.Errorf("look for lost recoveries: %w", err)
		}
		if lost, err = pgx.CollectRows(rows, pgx.RowToStructByPos[RecoveryTicket]); err != nil {
			return fmt.Errorf("look for lost recoveries: %w", err)
		}
		for _, t := range lost {
			if err := s.Recoveries.InsertRecovery(ctx, tx, t); err != nil {
				return err
			}
		}
		return nil
	})
	return len(lost), err
}

// PruneRecoveries forgets the reports of catch-ups that ended long ago, and says how many.
func (s *Service) PruneRecoveries(ctx context.Context) (int, error) {
	tag, err := s.DB.Exec(ctx, sqlRecoveryPrune, keptReports, 1000)
	if err != nil {
		return 0, fmt.Errorf("forget old recoveries: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
