package e2e

import (
	"bytes"
	"compress/gzip"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// bomb is 512 MB of zeros, compressed: a megabyte as one member of a gzip file, which may have any number of them.
var bomb = sync.OnceValue(func() string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(make([]byte, 1<<20)) // a bytes.Buffer takes everything
	_ = z.Close()
	return strings.Repeat(b.String(), 512)
})

// raw answers without net/http's help, which would not let us.
func (r *Receiver) raw(w http.ResponseWriter, it *Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		r.ledger.leave(it)
		return
	}
	defer conn.Close()
	gone := make(chan struct{}) // closed when the sender has closed the connection
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, conn)
		r.ledger.leave(it) // unless it has ended
	}()
	once := func(text string) {
		r.ledger.end(it)
		_, _ = io.WriteString(conn, text)
	}
	switch it.Answer.Kind {
	case Cut:
		r.ledger.end(it)
	case CutHead:
		once("HTTP/1.1 200 OK\r\nContent-Ty")
	case CutBody:
		once("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of")
	case NULs:
		once("HTTP/1.1 500 No\x00pe\r\nX-Zero: a\x00b\r\nContent-Type: text/\x00plain\r\nContent-Length: 6\r\nConnection: close\r\n\r\n\x00a\x00b\x00\xff")
	case Garbage:
		once("SSH-2.0-OpenSSH_9.9\r\nnot what you think\r\n")
	case Lies:
		once("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Type: application/json\r\n\r\n{\"and\":\"much more than three bytes, HTTP/1.1 500 among them\"}")
	case Reset:
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		once("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 100\r\n\r\nhalf of")
	case BigHead:
		r.stream(it, conn, gone, "HTTP/1.1 200 OK\r\n", strings.Repeat("Set-Cookie: "+strings.Repeat("x", 1000)+"\r\n", 1000)+"\r\n", 0)
	case Bomb:
		r.stream(it, conn, gone, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n", bomb(), 0)
	case Endless:
		r.stream(it, conn, gone, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n", strings.Repeat("more and ", 4000), time.Millisecond)
	case Storm:
		r.stream(it, conn, gone, "", "HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n", time.Millisecond)
	case SlowBody:
		r.stream(it, conn, gone, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", ".", 50*time.Millisecond)
	case Trickle:
		r.trickle(it, conn, gone)
	}
}

// stream sends head, and then part again and again with a pause in between, or once without a pause, until the sender has had enough.
func (r *Receiver) stream(it *Request, conn net.Conn, gone <-chan struct{}, head, part string, pause time.Duration) {
	defer r.ledger.leave(it)
	if _, err := io.WriteString(conn, head); err != nil {
		return
	}
	if pause == 0 {
		if _, err := io.WriteString(conn, part); err != nil {
			return
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
		select {
		case <-gone:
		case <-r.done:
		}
		return
	}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		if _, err := io.WriteString(conn, part); err != nil {
			return
		}
		select {
		case <-gone:
			return
		case <-r.done:
			return
		case <-tick.C:
		}
	}
}

func (r *Receiver) trickle(it *Request, conn net.Conn, gone <-chan struct{}) {
	defer r.ledger.leave(it)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		const head = "HTTP/1.1 200 OK\r\nX-Slow: "
		b := byte('.')
		if i < len(head) {
			b = head[i]
		}
		if _, err := conn.Write([]byte{b}); err != nil {
			return
		}
		select {
		case <-gone:
			return
		case <-r.done:
			return
		case <-tick.C:
		}
	}
}
