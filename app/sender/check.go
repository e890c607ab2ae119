package sender

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
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

	Status   int    // of StepHTTP: what the HEAD was answered; 0 over HTTP/2, where none is made
	Location string // of a redirect: where it leads, as the receiver wrote it, cleaned
}

// The steps, in their order. A check ends with the first that fails; an address in the URL needs no StepName,
// http:// no StepTLS.
const (
	StepName    = "name"    // the name resolves
	StepConnect = "connect" // the address is allowed and the connection accepted
	StepTLS     = "tls"     // the certificate is valid
	StepHTTP    = "http"    // something answers in HTTP; any status will do but a redirect, which leads an event elsewhere as well
)

// CheckConnection tries an endpoint's URL without sending an event: it connects through the proxy as an attempt
// would and asks with HEAD and without a signature. It uses and keeps none of an endpoint's connections.
func (s *Sender) CheckConnection(ctx context.Context, url string, timeout time.Duration) []Step {
	t, ok := parseTarget(url)
	if !ok {
		return failedStep(nil, StepConnect, fail(BadConfig), 0)
	}
	deadline := time.Now().Add(cmp.Or(max(timeout, 0), DefaultTimeout))
	p := view{pool: &pool{s: s, offer: s.http2}, target: t}
	var steps []Step
	named := net.ParseIP(t.name) == nil

	c, f := s.connectOffering(ctx, p, deadline)
	if f != nil && f.class == DNS {
		return failedStep(nil, StepName, f, f.connected)
	}
	if named && (f == nil || f.class != Proxy) {
		steps = append(steps, Step{Name: StepName, OK: true, Detail: "the name resolves"})
	}
	if f != nil && f.remote == "" {
		return failedStep(steps, StepConnect, f, f.connected)
	}
	if f != nil {
		steps = append(steps, Step{Name: StepConnect, OK: true, Detail: "connected to " + f.remote, Took: f.connected})
		return failedStep(steps, StepTLS, f, f.shook)
	}
	defer c.abort()
	steps = append(steps, Step{Name: StepConnect, OK: true, Detail: "connected to " + c.remote, Took: c.connected})
	if t.https {
		steps = append(steps, Step{Name: StepTLS, OK: true, Took: c.shook,
			Detail: fmt.Sprintf("%s, the certificate is valid until %s", c.tls.Version, c.tls.NotAfter.UTC().Format("2 January 2006"))})
	}
	if c.h2 {
		return append(steps, Step{Name: StepHTTP, OK: true, Detail: "it speaks HTTP/2"})
	}
	out, took, f := s.askHEAD(ctx, p, c)
	if f != nil {
		return failedStep(steps, StepHTTP, f, took)
	}
	last := Step{Name: StepHTTP, OK: true, Detail: fmt.Sprintf("it answers, with status %d", out.Status), Took: took, Status: out.Status}
	if out.classify(); out.Class == Redirect {
		last.OK, last.Class, last.Detail = false, Redirect, out.Err
		for _, h := range out.Header {
			if strings.EqualFold(h.Name, "location") {
				last.Location = h.Value
			}
		}
	}
	return append(steps, last)
}

// askHEAD is the last step: something answers in HTTP.
func (s *Sender) askHEAD(ctx context.Context, p view, c *conn) (out Outcome, took time.Duration, f *failure) {
	defer context.AfterFunc(ctx, func() { c.raw.SetDeadline(longAgo) })()
	start := time.Now()
	ask := "HEAD " + p.target.path + " HTTP/1.1\r\nHost: " + p.target.host + "\r\nUser-Agent: Waybill-Check/1\r\n"
	if p.target.auth != "" {
		ask += "Authorization: " + p.target.auth + "\r\n"
	}
	io.WriteString(c.rw, ask+"Connection: close\r\n\r\n") // an error shows in the reading
	a := attempt{s: s, p: p, out: &out, ctx: ctx}
	if _, f = a.readHead(c, nil); f != nil && ctx.Err() != nil {
		f = fail(Canceled)
	}
	return out, time.Since(start), f
}

// failedStep ends steps with a failure.
func failedStep(steps []Step, name string, f *failure, took time.Duration) []Step {
	var o Outcome
	o.fail(f)
	if o.Class.Public() == NoAnswer {
		// Which step it was would tell what listens where.
		name, steps = StepConnect, slices.DeleteFunc(steps, func(s Step) bool { return s.Name != StepName })
	}
	return append(steps, Step{Name: name, Class: o.Class.Public(), Cause: o.Cause(), Detail: o.Err, Took: took})
}
