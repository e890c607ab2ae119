package db

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Times of Listen: a connection that has been silent for listenQuiet is asked whether it lives and must answer within listenAnswer; after a
// failure the next connection is made listenRetry later.
const (
	listenQuiet  = 15 * time.Second
	listenAnswer = 5 * time.Second
	listenRetry  = 500 * time.Millisecond
)

// Listen calls handle for each notification on channels until ctx ends, over one connection of its own made with the settings of pool. A
// connection that breaks, or goes silent without saying so (a stalled path, a proxy in between), is replaced. After each (re)connection
// connected is called, because what was notified in between is lost: the listener must look for itself then. Notifications are a
// hint; nothing may depend on one arriving.
func Listen(ctx context.Context, pool *pgxpool.Pool, logger *slog.Logger, channels []string, connected func(), handle func(channel, payload string)) {
	for ctx.Err() == nil {
		err := listenOnce(ctx, pool, channels, connected, handle)
		if ctx.Err() != nil {
			return
		}
		logger.Warn("the listening connection was lost; a new one is made", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(listenRetry):
		}
	}
}

func listenOnce(ctx context.Context, pool *pgxpool.Pool, channels []string, connected func(), handle func(channel, payload string)) error {
	config := pool.Config().ConnConfig.Copy()
	dialling, cancel := context.WithTimeout(ctx, listenAnswer)
	conn, err := pgx.ConnectConfig(dialling, config)
	cancel()
	if err != nil {
		return fmt.Errorf("connect to listen: %w", err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing) // it is broken or we stop: nothing follows from this error
	}()
	for _, channel := range channels {
		if _, err := conn.Exec(ctx, "listen "+pgx.Identifier{channel}.Sanitize()); err != nil {
			return fmt.Errorf("listen to %s: %w", channel, err)
		}
	}
	connected()
	for {
		waiting, cancel := context.WithTimeout(ctx, listenQuiet)
		note, err := conn.WaitForNotification(waiting)
		quiet := waiting.Err() != nil
		cancel()
		switch {
		case err == nil:
			handle(note.Channel, note.Payload)
		case ctx.Err() != nil:
			return ctx.Err()
		case quiet && !conn.IsClosed():
			answering, cancel := context.WithTimeout(ctx, listenAnswer)
			err := conn.Ping(answering)
			cancel()
			if err != nil {
				return fmt.Errorf("the listening connection is silent: %w", err)
			}
		default:
			return fmt.Errorf("wait for notifications: %w", err)
		}
	}
}
