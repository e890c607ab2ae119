package sender

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
)

// KeptBody is how much of an answer's body is read and kept, in bytes. What is longer is not drained: the
// connection is closed.
const KeptBody = 16 << 10

// body is what became of an answer's body.
type body struct {
	bytes []byte
	size  int64 // bytes seen
	cut   bool  // more than KeptBody came
	note  string
	ended bool // read to its very end: the connection stands before the next answer
}

var scratch = sync.Pool{New: func() any { return new([KeptBody + 1]byte) }}

// readBody reads the body that h announces. It never inflates: what the endpoint compressed is kept compressed.
func readBody(br *bufio.Reader, h *head) body {
	switch {
	case h.status == 204 || h.status == 304:
		// Neither has a body. One that announces it will not be understood by whoever reads the next answer.
		return body{ended: !h.chunked && h.length <= 0}
	case h.length == 0:
		return body{ended: true}
	case h.length > 0 && h.length <= KeptBody:
		b := make([]byte, h.length)
		n, err := io.ReadFull(br, b)
		return body{bytes: b[:n], size: int64(n), note: bodyNote(err, NoteBroken), ended: err == nil}
	}
	space := scratch.Get().(*[KeptBody + 1]byte)
	defer scratch.Put(space)
	var n int
	var err error
	if h.chunked {
		n, err = readChunks(br, space[:])
	} else {
		n, err = io.ReadFull(br, space[:])
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = io.EOF // the end of a body without a length, if h has none
		}
	}
	b := body{size: int64(n), cut: n > KeptBody, ended: h.chunked && err == io.EOF}
	b.bytes = append(make([]byte, 0, min(n, KeptBody)), space[:min(n, KeptBody)]...)
	switch {
	case b.cut:
		b.note = NoteCut
	case err == io.EOF && (h.chunked || h.length < 0):
	case err == errChunks:
		b.note = NoteChunks
	default:
		b.note = bodyNote(err, NoteBroken)
	}
	return b
}

func bodyNote(err error, otherwise string) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, os.ErrDeadlineExceeded):
		return NoteDeadline
	}
	return otherwise
}

var errChunks = errors.New("malformed chunks")

// readChunks decodes chunks into space until they end, which is io.EOF, or space is full, which is nil.
func readChunks(br *bufio.Reader, space []byte) (n int, err error) {
	for {
		size, err := chunkSize(br)
		if err != nil {
			return n, err
		}
		if size == 0 {
			return n, readTrailer(br)
		}
		part := space[n:]
		if int64(len(part)) > size {
			part = part[:size]
		}
		got, err := io.ReadFull(br, part)
		if n += got; err != nil {
			return n, brokenChunk(err)
		}
		if n == len(space) {
			return n, nil
		}
		if line, err := br.ReadSlice('\n'); err != nil {
			return n, brokenChunk(err)
		} else if s := string(line); s != "\r\n" && s != "\n" {
			return n, errChunks
		}
	}
}

func chunkSize(br *bufio.Reader) (int64, error) {
	line, err := br.ReadSlice('\n')
	if err != nil {
		return 0, brokenChunk(err)
	}
	text, _, _ := strings.Cut(strings.TrimRight(string(line), "\r\n"), ";")
	text = strings.Trim(text, " \t")
	size, err := strconv.ParseUint(text, 16, 62)
	if err != nil || strings.ContainsAny(text, "+_xX") {
		return 0, errChunks
	}
	return int64(size), nil
}

// readTrailer reads the trailer's fields, which nobody looks at, and returns io.EOF at their end.
func readTrailer(br *bufio.Reader) error {
	for budget := 8 << 10; budget > 0; {
		line, err := br.ReadSlice('\n')
		if err != nil {
			return brokenChunk(err)
		}
		if budget -= len(line); len(line) <= 2 && strings.TrimRight(string(line), "\r\n") == "" {
			return io.EOF
		}
	}
	return errChunks
}

// brokenChunk keeps an end inside a chunk apart from the end of the chunks.
func brokenChunk(err error) error {
	switch err {
	case io.EOF:
		return io.ErrUnexpectedEOF
	case bufio.ErrBufferFull:
		return errChunks
	}
	return err
}

// isEnd says that the other side closed or reset the connection, as against a deadline.
func isEnd(err error) bool { return !errors.Is(err, os.ErrDeadlineExceeded) }
