//go:build !unix

package sender

// silent cannot look at the socket here; a receiver that closed the connection is noticed when the request is
// written.
func (c *conn) silent() bool { return true }
