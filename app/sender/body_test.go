package sender

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestBodies(t *testing.T) {
	t.Parallel()
	kb16 := strings.Repeat("x", KeptBody)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	io.CopyN(z, zeros{}, 64<<20)
	z.Close()
	const ok = "HTTP/1.1 200 OK\r\n"
	for name, c := range map[string]struct {
		answer string
		body   string
		size   int
		note   string
		keeps  bool // the connection is good for another request
	}{
		"empty":                    {ok + "Content-Length: 0\r\n\r\n", "", 0, "", true},
		"a length":                 {ok + "Content-Length: 2\r\n\r\nok", "ok", 2, "", true},
		"the same length twice":    {ok + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nok", "ok", 2, "", true},
		"to the end":               {ok + "\r\nok", "ok", 2, "", false},
		"short of its length":      {ok + "Content-Length: 10\r\n\r\nabc", "abc", 3, NoteBroken, false},
		"short of a long length":   {ok + "Content-Length: 100000\r\n\r\nabc", "abc", 3, NoteBroken, false},
		"more than its length":     {ok + "Content-Length: 2\r\n\r\nokHTTP/1.1 500 x\r\n\r\n", "ok", 2, "", false},
		"at the cap":               {ok + "Content-Length: 16384\r\n\r\n" + kb16, kb16, KeptBody, "", true},
		"over the cap":             {ok + "Content-Length: 16385\r\n\r\n" + kb16 + "x", kb16, KeptBody + 1, NoteCut, false},
		"over the cap, to the end": {ok + "\r\n" + strings.Repeat("x", 1<<20), kb16, KeptBody + 1, NoteCut, false},
		"two lengths":              {ok + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nabcd", "abcd", 4, "", false},
		"three lengths":            {ok + "Content-Length: 2\r\nContent-Length: 3\r\nContent-Length: 2\r\n\r\nabcd", "abcd", 4, "", false},
		"a negative length":        {ok + "Content-Length: -1\r\n\r\nabcd", "abcd", 4, "", false},
		"a length of letters":      {ok + "Content-Length: two\r\n\r\nabcd", "abcd", 4, "", false},
		"a length beyond all":      {ok + "Content-Length: 99999999999999999999\r\n\r\nabcd", "abcd", 4, "", false},
		"chunks":                   {ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n3;x=y\r\nabc\r\n0\r\n\r\n", "okabc", 5, "", true},
		"chunks, a trailer":        {ok + "Transfer-Encoding: Chunked\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\n\r\n", "ok", 2, "", true},
		"chunks, bare line ends":   {ok + "Transfer-Encoding: chunked\r\n\r\n2\nok\n0\n\n", "ok", 2, "", true},
		"chunks at the cap":        {ok + "Transfer-Encoding: chunked\r\n\r\n4000\r\n" + kb16 + "\r\n0\r\n\r\n", kb16, KeptBody, "", true},
		"chunks over the cap":      {ok + "Transfer-Encoding: chunked\r\n\r\nffffffff\r\n" + kb16 + "xy", kb16, KeptBody + 1, NoteCut, false},
		"chunks of one byte":       {ok + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1\r\nx\r\n", KeptBody+1), kb16, KeptBody + 1, NoteCut, false},
		"chunks that stop":         {ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nab", "ab", 2, NoteBroken, false},
		"chunks without an end":    {ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", "ok", 2, NoteBroken, false},
		"a chunk without a size":   {ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\nxyz\r\n", "ok", 2, NoteChunks, false},
		"a chunk of -1":            {ok + "Transfer-Encoding: chunked\r\n\r\n-1\r\nok\r\n", "", 0, NoteChunks, false},
		"a chunk of 0x2":           {ok + "Transfer-Encoding: chunked\r\n\r\n0x2\r\nok\r\n", "", 0, NoteChunks, false},
		"a chunk beyond all":       {ok + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nok\r\n", "", 0, NoteChunks, false},
		"a chunk's end missing":    {ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nokX\r\n0\r\n\r\n", "ok", 2, NoteChunks, false},
		"a size line without end":  {ok + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("0", 10_000), "", 0, NoteChunks, false},
		"a trailer without end":    {ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n" + strings.Repeat("A: b\r\n", 5000), "ok", 2, NoteChunks, false},
		"chunks and a length":      {ok + "Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "ok", 2, "", false},
		"chunked twice":            {ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\nabc", "abc", 3, "", false},
		"an unknown coding":        {ok + "Transfer-Encoding: gzip, chunked\r\n\r\nabc", "abc", 3, "", false},
		"gzip that is not":         {ok + "Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", "abc", 3, "", true},
		"gzip of 64 MB":            {ok + "Content-Encoding: gzip\r\n\r\n" + zipped.String(), zipped.String()[:KeptBody], KeptBody + 1, NoteCut, false},
		"204":                      {"HTTP/1.1 204 x\r\n\r\n", "", 0, "", true},
		"204 with a body":          {"HTTP/1.1 204 x\r\n\r\nsurprise", "", 0, "", false},
		"204 with a length":        {"HTTP/1.1 204 x\r\nContent-Length: 3\r\n\r\nabc", "", 0, "", false},
		"204 with chunks":          {"HTTP/1.1 204 x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", 0, "", false},
		"told to close":            {ok + "Connection: foo, Close\r\nContent-Length: 2\r\n\r\nok", "ok", 2, "", false},
		"HTTP/1.0":                 {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", 2, "", false},
		"HTTP/1.0 that keeps":      {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", "ok", 2, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, kept := memory(t, c.answer)
			want(t, out, Delivered, "")
			if string(out.Body) != c.body || out.BodySize != int64(c.size) || out.BodyNote != c.note || out.BodyTruncated != (c.size > KeptBody) {
				t.Errorf("body %.40q of %d, note %q, truncated %v", out.Body, out.BodySize, out.BodyNote, out.BodyTruncated)
			}
			if kept != c.keeps {
				t.Errorf("the connection was kept: %v", kept)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// A receiver that hangs up after the body must not look like more than it is, whatever the status.
func TestABodyThatBreaksDoesNotChangeTheStatus(t *testing.T) {
	t.Parallel()
	for _, code := range []int{200, 500, 410, 302} {
		out, _ := memory(t, fmt.Sprintf("HTTP/1.1 %d x\r\nContent-Length: 10\r\n\r\nabc", code))
		if out.Status != code || out.BodyNote != NoteBroken || string(out.Body) != "abc" {
			t.Errorf("%d: %+v", code, out)
		}
	}
}

// The bytes held for an attempt are bounded, whatever a receiver sends. Not parallel: it measures.
func TestMemoryIsBounded(t *testing.T) {
	for name, stream := range map[string]io.Reader{
		"an endless body":        io.MultiReader(strings.NewReader("HTTP/1.1 200 OK\r\n\r\n"), zeros{}),
		"endless chunks":         io.MultiReader(strings.NewReader("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), repeat("1000\r\n"+strings.Repeat("x", 0x1000)+"\r\n")),
		"endless small chunks":   io.MultiReader(strings.NewReader("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), repeat("1\r\nx\r\n")),
		"an endless header":      io.MultiReader(strings.NewReader("HTTP/1.1 200 OK\r\nA: "), zeros{}),
		"endless headers":        io.MultiReader(strings.NewReader("HTTP/1.1 200 OK\r\n"), repeat("A: b\r\n")),
		"endless tiny headers":   io.MultiReader(strings.NewReader("HTTP/1.1 200 OK\r\n"), repeat("A:\n")),
		"endless interim":        repeat("HTTP/1.1 103 Early Hints\r\n\r\n"),
		"an endless status line": io.MultiReader(strings.NewReader("HTTP/1.1 200 "), zeros{}),
	} {
		conn := &memoryConn{in: stream}
		s := memorySender(t, conn)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out := post(t, s, "http://r.t.test/")
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
			t.Errorf("%s: %d bytes", name, used)
		}
		if conn.read > 128<<10 || !conn.closed {
			t.Errorf("%s: %d bytes were read, closed: %v (%s)", name, conn.read, conn.closed, out.Class)
		}
	}
}

type repeat string

func (r repeat) Read(b []byte) (n int, err error) {
	for n < len(b) {
		n += copy(b[n:], r)
	}
	return n, nil
}

// A body that trickles past the deadline still leaves a delivered attempt, with what came.
func TestABodyThatTricklesIsDelivered(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]string{
		"a length":      "Content-Length: 1000\r\n\r\n",
		"a long length": "Content-Length: 100000\r\n\r\n",
		"to the end":    "\r\n",
		"chunks":        "Transfer-Encoding: chunked\r\n\r\n64\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := serve(t, nil, func(c net.Conn) {
				io.WriteString(c, "HTTP/1.1 200 OK\r\n"+head)
				trickle(c, strings.Repeat("x", 1000))
			})
			out := postWithin(t, newSender(t, "tcp", nil), "http://"+addr, nil)
			want(t, out, Delivered, "")
			if out.BodyNote != NoteDeadline || len(out.Body) == 0 || out.Read < within/2 {
				t.Errorf("body %q, note %q, read for %v", out.Body, out.BodyNote, out.Read)
			}
		})
	}
}

// trickle writes a byte at a time until the other side hangs up.
func trickle(c net.Conn, text string) {
	for i := range text {
		if _, err := io.WriteString(c, text[i:i+1]); err != nil {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
}
