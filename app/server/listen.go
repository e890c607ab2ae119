package server

import (
	"context"
	"net"
	"time"
)

// listen is a listener whose connections notice within half a minute that their other side is gone, also when nothing was closed: a live page
// holds one for as long as somebody looks.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	config := net.ListenConfig{
		Control:         limitUnacknowledged,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
	}
	return config.Listen(ctx, "tcp", addr)
}
