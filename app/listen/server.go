package listen

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
)

// finalError is one that trying again does not mend.
type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }

// laterError is a refusal that says when to come back.
type laterError struct {
	err   error
	after time.Duration
}

func (e *laterError) Error() string { return e.err.Error() }

func (s Server) check() error {
	at, err := url.Parse(s.URL)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return errors.New("--url must be the address of a Waybill server, such as https://hooks.example.com")
	}
	if s.Key == "" {
		return errors.New("an API key is missing: give it by --key or in WAYBILL_KEY")
	}
	if strings.ContainsFunc(s.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the API key is not one: it has characters that no key has")
	}
	return nil
}

// client has no time-out of its own: a stream goes on for as long as it may.
func (s Server) client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: connectWithin}).DialContext,
		TLSHandshakeTimeout: connectWithin, IdleConnTimeout: time.Minute,
	}}
}

func (s Server) request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	var text io.Reader
	if body != nil {
		made, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("make a request: %w", err)
		}
		text = bytes.NewReader(made)
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(s.URL, "/")+path, text)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+s.Key)
	r.Header.Set("User-Agent", "waybill-cli/1")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, nil
}

// call sends one request and reads the answer into into, unless that is nil.
func (s Server) call(ctx context.Context, method, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	r, err := s.request(ctx, method, path, body)
	if err != nil {
		return err
	}
	client := s.client()
	defer client.CloseIdleConnections()
	answer, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("no answer from %s: %w", s.URL, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return refused(answer)
	}
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		return fmt.Errorf("the answer of %s cannot be read: %w", s.URL, err)
	}
	return nil
}

// refused is the error of an answer that is none of 2xx: a problem, in its own words.
func refused(answer *http.Response) error {
	var problem struct {
		Detail    string
		RequestID string `json:"request_id"`
		Errors    []struct{ Field, Detail string }
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if json.Unmarshal(text, &problem) != nil || problem.Detail == "" {
		problem.Detail = "the server answers " + answer.Status
	}
	said := problem.Detail
	for _, field := range problem.Errors {
		said += "\n  " + field.Field + " " + field.Detail
	}
	err := errors.New(said)
	switch answer.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout, http.StatusInternalServerError:
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		return &laterError{err, time.Duration(min(max(seconds, 0), 300)) * time.Second}
	default:
		return &finalError{err}
	}
}

// whyNoAnswer is a word or two for what became of a request without an answer.
func whyNoAnswer(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timed out"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return "cut off"
	default:
		return "no answer"
	}
}

// plain is text as a terminal may print it.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsGraphic(r) {
			return r
		}
		return '?'
	}, strings.ToValidUTF8(text, "?"))
}

// message is one of a stream of server-sent events.
type message struct {
	id    string
	data  []byte // nil: none
	retry time.Duration
}

// maxMessage bounds a line of a stream: an event has at most some 260 KiB.
const maxMessage = 4 << 20

type stream struct{ lines *bufio.Scanner }

func newStream(from io.Reader) *stream {
	s := &stream{lines: bufio.NewScanner(from)}
	s.lines.Buffer(make([]byte, 0, 64<<10), maxMessage)
	return s
}

// next is the next message, also one without data. heard is called for each line.
func (s *stream) next(heard func()) (message, error) {
	var m message
	for s.lines.Scan() {
		heard()
		line := s.lines.Bytes()
		if len(line) == 0 {
			return m, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "id":
			m.id = string(value)
		case "data":
			if m.data != nil {
				m.data = append(m.data, '\n')
			}
			m.data = append(m.data, value...)
		case "retry":
			if ms, err := strconv.Atoi(string(value)); err == nil && ms >= 0 && ms < 1_000_000 {
				m.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
	if err := s.lines.Err(); err != nil {
		return m, err
	}
	return m, io.EOF
}
