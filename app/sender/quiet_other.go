//go:build !unix

package sender

// quiet says that nothing was buffered while the connection was kept. Without a way to look at the socket, a
// receiver that closed it meanwhile is noticed when the request is written.
func (c *conn) quiet() bool { return c.br.Buffered() == 0 }
