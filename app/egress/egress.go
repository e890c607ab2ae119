// Package egress is the one way out of the house: smokescreen, configured, started, checked.
//
// It promises that
//   - every connection is judged by the address that is then dialled, after the name was resolved, once: a name
//     that points somewhere else a moment later gains nothing;
//   - no address outside the public ones is reached, in either family or in any form that hides an IPv4 address
//     in an IPv6 one, except what Config.Allow names; and no port but 80, 443 and those above 1023;
//   - it answers CONNECT only (for http:// endpoints too), so that what the proxy says and what an endpoint says
//     can never be mixed up, and says in VerdictHeader why it refused;
//   - an answer to CONNECT comes within AnswerWithin, and a tunnel lives no longer than Config.TunnelLife, after
//     which the name has to be judged again.
//
// SelfTest asks a running proxy, ours or another one, to do what it must refuse. CheckURL is the courtesy check
// of an endpoint's URL when it is saved; the proxy decides when it connects.
package egress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/stripe/goproxy"
	"github.com/stripe/smokescreen/pkg/smokescreen"
	"github.com/stripe/smokescreen/pkg/smokescreen/conntrack"
)

// The limits of one CONNECT: resolving and connecting both end before a sender with a timeout of 10 s, the
// shortest of the presets, gives up, so that it hears the reason.
const (
	lookupTimeout  = 4 * time.Second
	connectTimeout = 5 * time.Second
	// AnswerWithin is the longest the proxy takes to answer a CONNECT. Longer silence means that it is stuck.
	AnswerWithin = lookupTimeout + connectTimeout + 500*time.Millisecond
)

// Config is what Start needs. The zero value listens on a free port of loopback and allows public addresses.
type Config struct {
	Addr           string         // listening address, host:port; empty: 127.0.0.1:0
	Allow          []netip.Prefix // reachable beside the public addresses; wins over every denied range
	Resolver       *net.Resolver  // nil: the system's
	LookupTimeout  time.Duration  // 0, or longer than 4 s: 4 s
	ConnectTimeout time.Duration  // 0, or longer than 5 s: 5 s
	IdleTimeout    time.Duration  // a tunnel without a byte for so long is closed; 0: 90 s
	TunnelLife     time.Duration  // a tunnel is closed at this age, busy or not; 0: 6 min
	MaxTunnels     int            // more are refused as overloaded; 0: 20,000
	Logger         *slog.Logger   // one debug record a CONNECT; nil: slog.Default()
}

// Proxy is a running egress proxy. Its methods may be called from many goroutines.
type Proxy struct {
	cfg     Config
	dialer  dialFunc
	ln      net.Listener
	server  *http.Server
	proxy   *goproxy.ProxyHttpServer
	tunnels tunnels
	counts  counts
	served  chan error
}

// Start listens and serves until Close. ctx bounds the start only.
func Start(ctx context.Context, cfg Config) (*Proxy, error) {
	return start(ctx, cfg, func(ctx context.Context, network, address string, timeout time.Duration) (net.Conn, error) {
		// The sender's idle time is shorter than any keep-alive probe would be.
		return (&net.Dialer{Timeout: timeout, KeepAlive: -1}).DialContext(ctx, network, address)
	})
}

// dialFunc connects to an address that was judged; tests put their own in.
type dialFunc func(ctx context.Context, network, address string, timeout time.Duration) (net.Conn, error)

func start(ctx context.Context, cfg Config, dial dialFunc) (*Proxy, error) {
	cfg.Addr = cmp.Or(cfg.Addr, "127.0.0.1:0")
	cfg.IdleTimeout = cmp.Or(cfg.IdleTimeout, 90*time.Second)
	cfg.TunnelLife = cmp.Or(cfg.TunnelLife, 6*time.Minute)
	cfg.MaxTunnels = cmp.Or(cfg.MaxTunnels, 20_000)
	cfg.LookupTimeout = min(cmp.Or(cfg.LookupTimeout, lookupTimeout), lookupTimeout)
	cfg.ConnectTimeout = min(cmp.Or(cfg.ConnectTimeout, connectTimeout), connectTimeout)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	cfg.Resolver = cmp.Or(cfg.Resolver, net.DefaultResolver)
	for _, p := range cfg.Allow {
		if err := checkAllow(p); err != nil {
			return nil, fmt.Errorf("egress: %w", err)
		}
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("egress: listen: %w", err)
	}
	p := &Proxy{cfg: cfg, dialer: dial, ln: ln, served: make(chan error, 1)}
	p.tunnels.start(cfg.IdleTimeout, cfg.TunnelLife)
	if err := p.build(ln.Addr().(*net.TCPAddr)); err != nil {
		p.tunnels.stop()
		return nil, errors.Join(fmt.Errorf("egress: %w", err), ln.Close())
	}
	p.server = &http.Server{
		Handler:           p,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       cfg.IdleTimeout,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	go func() { p.served <- p.server.Serve(ln) }()
	return p, nil
}

// build makes smokescreen's proxy. Its StartWithConfig is not for us: it takes the process's signals and may
// end the process.
func (p *Proxy) build(addr *net.TCPAddr) error {
	c := smokescreen.NewConfig()
	c.Log.SetOutput(io.Discard)
	c.Log.SetLevel(0) // panics only: the entries are built for nobody otherwise
	c.Ip, c.Port = addr.IP.String(), uint16(addr.Port)
	c.Resolver = p.resolver()
	c.DNSTimeout = p.cfg.LookupTimeout
	c.ConnectTimeout = p.cfg.ConnectTimeout
	c.AddServerIpHeader = true // the address reached, for the history
	if err := c.SetDenyRanges(prefixTexts(denied)); err != nil {
		return fmt.Errorf("deny ranges: %w", err)
	}
	if err := c.SetAllowRanges(prefixTexts(p.cfg.Allow)); err != nil {
		return fmt.Errorf("allowed ranges: %w", err)
	}
	if err := c.InitializeSelfConnectionDetection(); err != nil {
		return fmt.Errorf("own addresses: %w", err)
	}
	c.ShuttingDown.Store(false)
	// Idle and old tunnels are closed by ours (tunnels), which costs no deadline a read; hence the zero.
	c.ConnTracker = conntrack.NewTracker(0, c.MetricsClient, c.Log, c.ShuttingDown, nil)
	c.TunnelLimiter = smokescreen.NewTunnelLimiter(p.cfg.MaxTunnels, c)
	c.ProxyDialTimeout = p.dial
	c.RejectResponseHandlerWithCtx = p.rejected

	p.proxy = smokescreen.BuildProxy(c)
	p.proxy.Logger = log.New(io.Discard, "", 0)
	p.proxy.Tr.Proxy = nil
	// goproxy reads HTTPS_PROXY at each CONNECT and would send us through that proxy, whose address
	// smokescreen then judges in place of the endpoint's. A value that is no URL means: none.
	p.proxy.HttpsProxyAddr = "%"
	p.proxy.ConnectCopyHandler = p.connected
	return nil
}

// resolver asks for whole names, so that a name which does not exist is not looked for in the search domains
// of our own network. Development setups (anything allowed) need those.
func (p *Proxy) resolver() smokescreen.Resolver {
	if len(p.cfg.Allow) > 0 {
		return p.cfg.Resolver
	}
	return wholeNames{p.cfg.Resolver}
}

type wholeNames struct{ *net.Resolver }

func (r wholeNames) LookupIP(ctx context.Context, network, host string) ([]net.IP, error) {
	if net.ParseIP(host) == nil && strings.Contains(host, ".") && !strings.HasSuffix(host, ".") {
		host += "."
	}
	return r.Resolver.LookupIP(ctx, network, host)
}

// ServeHTTP answers CONNECT, and GET /healthz for a platform's health check. All else is refused.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet && r.URL.Host == "" && r.URL.Path == "/healthz":
		io.WriteString(w, "ok\n")
	case r.Method != http.MethodConnect:
		w.Header().Set("Allow", http.MethodConnect)
		refuse(w, http.StatusMethodNotAllowed, Failed, "This proxy answers CONNECT only.")
	default:
		p.connect(w, r)
	}
}

func (p *Proxy) connect(w http.ResponseWriter, r *http.Request) {
	// goproxy obeys this header, and would reach the endpoint through whatever proxy it names.
	r.Header.Del("X-Upstream-Https-Proxy")
	_, port, err := net.SplitHostPort(r.Host)
	if n, bad := strconv.Atoi(port); err != nil || bad != nil || !PortAllowed(n) {
		p.counts.add(Blocked)
		refuse(w, http.StatusProxyAuthRequired, Blocked, "This port is not allowed.")
		return
	}
	asked := &request{start: time.Now()}
	asked.direct, _ = r.Context().Value(directKey{}).(chan net.Conn)
	p.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, asked)))
	p.counts.add(cmp.Or(asked.verdict, Connected))
	if p.cfg.Logger.Enabled(r.Context(), slog.LevelDebug) {
		p.cfg.Logger.LogAttrs(r.Context(), slog.LevelDebug, "egress connect",
			slog.String("host", r.Host), slog.String("verdict", string(cmp.Or(asked.verdict, Connected))),
			slog.Int64("took_ms", time.Since(asked.start).Milliseconds()))
	}
}

// Addr is the address it listens on, host:port.
func (p *Proxy) Addr() string { return p.ln.Addr().String() }

// URL is the proxy's address as a URL for a client on this machine, "http://127.0.0.1:4750".
func (p *Proxy) URL() string {
	addr := p.ln.Addr().(*net.TCPAddr).AddrPort()
	if addr.Addr().Unmap().IsUnspecified() {
		addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), addr.Port())
	}
	return "http://" + addr.String()
}

// Counts is how many CONNECTs ended with each verdict since the start; every verdict is in it.
func (p *Proxy) Counts() map[Verdict]int64 { return p.counts.all() }

// Tunnels is the number of tunnels open now.
func (p *Proxy) Tunnels() int { return p.tunnels.count() }

// Close stops listening, waits until the tunnels are gone or ctx is over, and then closes those left. Close
// the senders first: they hold idle tunnels.
func (p *Proxy) Close(ctx context.Context) error {
	err := p.server.Shutdown(ctx)
	p.tunnels.wait(ctx)
	p.tunnels.stop()
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = p.server.Close()
	}
	if served := <-p.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
