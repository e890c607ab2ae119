//go:build !linux

package db

import "syscall"

// limitUnacknowledged does nothing where there is no TCP_USER_TIMEOUT; keepalives and time-outs of statements remain.
func limitUnacknowledged(string, string, syscall.RawConn) error { return nil }
