package sender

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"time"
)

// Step is one line of a connection check.
type Step struct {
	Name   string // one of the Step words
	OK     bool
	Class  Class  // why not, a public one; empty when OK
	Cause  string // Outcome.Cause's word: of a TLS failure, the phase of a time-out
	Detail string // a phrase: what was found, or Outcome.Err's
	Took   time.Duration
}

// The steps, in their order. A check ends with the first that fails; an address in the URL needs no StepName,
// http:// no StepTLS.
const (
	StepName    = "name"    // the name resolves
	StepConnect = "connect" // the address is allowed and the connection accepted
	StepTLS     = "tls"     // the certificate is valid
	StepHTTP    = "http"    // something answers in HTTP; any status will do
)

// CheckConnection tries an endpoint's URL without sending an event: it connects through the proxy as an attempt
// would and asks with HEAD and without a signature. It uses and keeps none of an endpoint's connections.
func (s *Sender) CheckConnection(ctx context.Context, url string, timeout time.Duration) []Step {
	var steps []Step
	failed := func(name string, f *failure, took time.Duration) []Step {
		var o Outcome
		o.fail(f)
		if o.Class.Public() == NoAnswer {
			// Which step it was would tell what listens where.
			name, steps = StepConnect, slices.DeleteFunc(steps, func(s Step) bool { return s.Name != StepName })
		}
		return append(steps, Step{Name: name, Class: o.Class.Public(), Cause: o.Cause(), Detail: o.Err, Took: took})
	}
	t, ok := parseTarget(url)
	if !ok {
		return failed(StepConnect, fail(BadConfig), 0)
	}
	start := time.Now()
	deadline := start.Add(cmp.Or(max(timeout, 0), DefaultTimeout))
	named := net.ParseIP(t.name) == nil
	var wants view
	wants.pool = &pool{s: s}
	config := s.tlsConfig(t.name, &wants.wantsCert)
	config.NextProtos = []string{"http/1.1"}

	c, f := s.tunnel(ctx, t, deadline)
	took := time.Since(start)
	if f != nil && f.class == DNS {
		return failed(StepName, f, took)
	}
	if named && (f == nil || f.class != Proxy) {
		steps = append(steps, Step{Name: StepName, OK: true, Detail: "the name resolves"})
	}
	if f != nil {
		return failed(StepConnect, f, took)
	}
	defer c.abort()
	steps = append(steps, Step{Name: StepConnect, OK: true, Detail: "connected to " + c.remote, Took: took})
	defer context.AfterFunc(ctx, func() { c.raw.SetDeadline(longAgo) })()

	if t.https {
		start = time.Now()
		if f := c.handshake(config); f != nil {
			a := attempt{p: wants}
			return failed(StepTLS, a.explain(f), time.Since(start))
		}
		steps = append(steps, Step{Name: StepTLS, OK: true, Took: time.Since(start),
			Detail: fmt.Sprintf("%s, the certificate is valid until %s", c.tls.Version, c.tls.NotAfter.UTC().Format("2 January 2006"))})
	}

	start = time.Now()
	ask := "HEAD " + t.path + " HTTP/1.1\r\nHost: " + t.host + "\r\nUser-Agent: Waybill-Check/1\r\n"
	if t.auth != "" {
		ask += "Authorization: " + t.auth + "\r\n"
	}
	io.WriteString(c.rw, ask+"Connection: close\r\n\r\n") // an error shows in the reading
	out := Outcome{}
	a := attempt{s: s, p: wants, out: &out, ctx: ctx}
	if _, f := a.readHead(c, nil); f != nil {
		if ctx.Err() != nil {
			f = fail(Canceled)
		}
		return failed(StepHTTP, f, time.Since(start))
	}
	return append(steps, Step{Name: StepHTTP, OK: true, Took: time.Since(start),
		Detail: fmt.Sprintf("it answers, with status %d", out.Status)})
}
