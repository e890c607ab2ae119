package egress

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stripe/goproxy"
	"github.com/stripe/smokescreen/pkg/smokescreen"
)

// Verdict is what became of one CONNECT.
type Verdict string

// The verdicts, with the status a CONNECT is answered with. Beside them the answer keeps smokescreen's own
// X-Smokescreen-Error, whose text loses the reason of a failed dial.
const (
	Connected   Verdict = "connected"   // 200
	Blocked     Verdict = "blocked"     // 407: the address or the port is not allowed, or the name is malformed
	Unresolved  Verdict = "dns"         // 502, 504 or 500: the name has no address, or nobody answered in time
	Refused     Verdict = "refused"     // 502: nothing listens there
	Unreachable Verdict = "unreachable" // 502: no route, or another network error
	TimedOut    Verdict = "timeout"     // 504: no answer to the connection within Config.ConnectTimeout
	Overloaded  Verdict = "overloaded"  // 429 or 503: Config.MaxTunnels, or the machine is out of sockets
	Failed      Verdict = "failed"      // anything else: our mistake
)

// Verdicts lists them all.
func Verdicts() []Verdict {
	return []Verdict{Connected, Blocked, Unresolved, Refused, Unreachable, TimedOut, Overloaded, Failed}
}

// counts counts verdicts, in the order of Verdicts.
type counts [8]atomic.Int64

func (c *counts) add(v Verdict) {
	if i := slices.Index(Verdicts(), v); i >= 0 {
		c[i].Add(1)
	}
}

func (c *counts) all() map[Verdict]int64 {
	all := make(map[Verdict]int64, len(c))
	for i, v := range Verdicts() {
		all[v] = c[i].Load()
	}
	return all
}

// VerdictHeader carries the Verdict in the answer to a CONNECT. It means nothing in a response that came
// through a tunnel: there an endpoint may write what it likes.
const VerdictHeader = "X-Waybill-Verdict"

const errorHeader = "X-Smokescreen-Error"

// request follows one CONNECT through smokescreen, whose hooks know too little of each other.
type request struct {
	start   time.Time
	dialled error // what the dial failed with
	verdict Verdict
	direct  chan<- net.Conn // where the connection goes when the client is in this process; else nil
}

type requestKey struct{}

func requestOf(r *http.Request) *request {
	asked, _ := r.Context().Value(requestKey{}).(*request)
	return asked
}

// dial connects to address, which smokescreen has judged, and remembers why it could not.
func (p *Proxy) dial(ctx context.Context, network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := p.dialer(ctx, network, address, timeout)
	if err != nil {
		if pctx, ok := ctx.Value(goproxy.ProxyContextKey).(*goproxy.ProxyCtx); ok {
			if asked := requestOf(pctx.Req); asked != nil {
				asked.dialled = err
			}
		}
		return nil, err
	}
	return conn, nil
}

// rejected completes smokescreen's refusal with the verdict.
func (p *Proxy) rejected(sctx *smokescreen.SmokescreenContext, resp *http.Response) {
	asked := requestOf(resp.Request)
	if asked == nil {
		return
	}
	switch d := sctx.Decision; {
	case resp.StatusCode == http.StatusProxyAuthRequired:
		asked.verdict = Blocked
	case resp.StatusCode == http.StatusTooManyRequests:
		asked.verdict = Overloaded
	case asked.dialled != nil:
		asked.verdict = dialVerdict(asked.dialled)
	case d != nil && d.ResolvedAddr == nil:
		asked.verdict = Unresolved
	default:
		asked.verdict = Failed
	}
	if asked.verdict == Overloaded && resp.StatusCode != http.StatusTooManyRequests {
		resp.StatusCode, resp.Status = http.StatusServiceUnavailable, ""
	}
	resp.Header.Set(VerdictHeader, string(asked.verdict))
}

func dialVerdict(err error) Verdict {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT), isTimeout(err):
		return TimedOut
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOBUFS),
		errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EADDRNOTAVAIL):
		return Overloaded
	default:
		return Unreachable
	}
}

func isTimeout(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}

// refuse answers what smokescreen is not asked about.
func refuse(w http.ResponseWriter, status int, v Verdict, why string) {
	w.Header().Set(VerdictHeader, string(v))
	w.Header().Set(errorHeader, why)
	http.Error(w, why, status)
}
