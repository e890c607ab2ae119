//go:build !linux

package server

import "syscall"

// limitUnacknowledged does nothing where there is no TCP_USER_TIMEOUT; keepalives and write deadlines remain.
func limitUnacknowledged(string, string, syscall.RawConn) error { return nil }
