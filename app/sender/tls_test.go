package sender

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func ok(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	io.WriteString(w, "ok")
}

// intermediate is an authority under the test's.
func intermediate(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "Between"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, world.ca.cert, key.Public(), world.ca.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert: cert, key: key}
}

// rsaLeaf is a certificate with an RSA key of this length.
func rsaLeaf(t *testing.T, bits int) tls.Certificate {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(3), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"r.t.test"}}
	der, err := x509.CreateCertificate(rand.Reader, template, world.ca.cert, key.Public(), world.ca.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestTLSFailures(t *testing.T) {
	t.Parallel()
	between := intermediate(t)
	past := time.Now().Add(-time.Minute)
	for name, c := range map[string]struct {
		config *tls.Config
		cert   tls.Certificate
		cause  string
	}{
		"expired":             {cert: world.ca.issue(t, func(c *x509.Certificate) { c.NotAfter = past }), cause: Expired},
		"not valid yet":       {cert: world.ca.issue(t, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }), cause: Expired},
		"another name":        {cert: world.ca.issue(t, func(c *x509.Certificate) { c.DNSNames = []string{"other.t.test"} }), cause: WrongName},
		"an address, no name": {cert: world.ca.issue(t, func(c *x509.Certificate) { c.DNSNames = nil }), cause: WrongName},
		"another authority":   {cert: newCA().issue(t, nil), cause: UnknownIssuer},
		"self-signed":         {cert: selfSigned(t), cause: UnknownIssuer},
		"no intermediate":     {cert: between.issue(t, nil), cause: UnknownIssuer},
		"RSA of 1,024 bits":   {cert: rsaLeaf(t, 1024), cause: OtherTLS},
		"not for servers": {cert: world.ca.issue(t, func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		}), cause: OtherTLS},
		"TLS 1.1 only":             {config: &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, cert: world.ca.issue(t, nil), cause: Protocol},
		"wants ours, TLS 1.3":      {config: &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13}, cert: world.ca.issue(t, nil), cause: ClientCertificate},
		"wants ours, TLS 1.2":      {config: &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, MaxVersion: tls.VersionTLS12}, cert: world.ca.issue(t, nil), cause: ClientCertificate},
		"wants ours, over HTTP/2":  {config: &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2"}}, cert: world.ca.issue(t, nil), cause: ClientCertificate},
		"another protocol by ALPN": {config: &tls.Config{NextProtos: []string{"mqtt"}}, cert: world.ca.issue(t, nil), cause: Protocol},
	} {
		for _, way := range ways {
			t.Run(name+"/"+way, func(t *testing.T) {
				t.Parallel()
				config := &tls.Config{}
				if c.config != nil {
					config = c.config.Clone()
				}
				config.Certificates = []tls.Certificate{c.cert}
				if config.NextProtos == nil {
					config.NextProtos = []string{"http/1.1"}
				}
				// Nothing of the request is sent before the certificate has been verified.
				addr := serve(t, config, func(nc net.Conn) {
					b := make([]byte, 1000)
					if n, _ := nc.Read(b); n > 0 && c.cause != ClientCertificate {
						t.Errorf("the receiver got %q", b[:n])
					}
				})
				_, port, _ := net.SplitHostPort(addr)
				out := post(t, newSender(t, way, nil), "https://r.t.test:"+port+"/hook")
				want(t, out, TLS, c.cause)
				checkStorable(t, out)
				if out.RemoteAddr != addr || out.Connect <= 0 || out.TLSTime <= 0 {
					t.Errorf("how far it came is not told: %+v", out)
				}
				if name == "expired" && (out.TLS == nil || !out.TLS.NotAfter.Equal(past.Truncate(time.Second))) {
					t.Errorf("the certificate's end is not told: %+v", out.TLS)
				}
			})
		}
	}
}

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(4), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"r.t.test"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestWhatIsNotTLS(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		serve func(net.Conn)
		class Class
		cause string
	}{
		"plain HTTP":    {func(c net.Conn) { readSome(c); io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }, NotHTTP, ""},
		"a banner":      {func(c net.Conn) { io.WriteString(c, "SSH-2.0-x\r\n"); readSome(c) }, NotHTTP, ""},
		"hangs up":      {func(c net.Conn) { readSome(c) }, Reset, ""},
		"resets":        {func(c net.Conn) { readSome(c); c.(*net.TCPConn).SetLinger(0) }, Reset, ""},
		"an alert":      {func(c net.Conn) { readSome(c); io.WriteString(c, "\x15\x03\x03\x00\x02\x02\x28"); readSome(c) }, TLS, Protocol},
		"half a record": {func(c net.Conn) { readSome(c); io.WriteString(c, "\x16\x03\x03\x00\x40\x02") }, Reset, ""},
	} {
		for _, way := range ways {
			t.Run(name+"/"+way, func(t *testing.T) {
				t.Parallel()
				out := post(t, newSender(t, way, nil), "https://"+serve(t, nil, c.serve)+"/")
				want(t, out, c.class, c.cause)
				if out.Sent {
					t.Error("sent")
				}
			})
		}
	}
}

func readSome(c net.Conn) { c.Read(make([]byte, 4096)) }

func TestTLSIsDescribed(t *testing.T) {
	t.Parallel()
	between := intermediate(t)
	full := between.issue(t, nil)
	full.Certificate = append(full.Certificate, between.cert.Raw)
	for _, protocol := range []string{"http/1.1", "h2"} {
		for _, way := range ways {
			t.Run(protocol+"/"+way, func(t *testing.T) {
				t.Parallel()
				config := &tls.Config{Certificates: []tls.Certificate{full}, NextProtos: []string{protocol}}
				names := make(chan string, 10)
				config.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
					names <- h.ServerName
					return nil, nil
				}
				url := receiver(t, config, ok)
				s := newSender(t, way, nil)
				first, second := post(t, s, url), post(t, s, url)
				for i, out := range []Outcome{first, second} {
					want(t, out, Delivered, "")
					st := out.TLS
					if st == nil || st.Version != "TLS 1.3" || !strings.HasPrefix(st.Cipher, "TLS_") || st.ServerName != "r.t.test" || st.Issuer != "CN=Between" || time.Until(st.NotAfter) < time.Hour || st.Resumed {
						t.Errorf("%+v", st)
					}
					if reused := i == 1; out.Reused != reused || (out.TLSTime > 0) == reused || (out.Connect > 0) == reused || out.Wait <= 0 {
						t.Errorf("attempt %d: %+v", i, out)
					}
					if !strings.HasPrefix(out.RemoteAddr, "127.0.0.2:") {
						t.Errorf("RemoteAddr %q", out.RemoteAddr)
					}
				}
				if got := <-names; got != "r.t.test" {
					t.Errorf("SNI %q", got)
				}
				// An address in the URL is verified as one.
				url = strings.Replace(url, "r.t.test", "127.0.0.2", 1)
				if out := post(t, s, url); out.Class != Delivered || out.TLS.ServerName != "127.0.0.2" {
					t.Errorf("by address: %+v", out)
				}
			})
		}
	}
}

// Sessions are resumed between connections of an endpoint, within connLife, and never across endpoints.
func TestSessionsAreResumedWithinAnEndpoint(t *testing.T) {
	t.Parallel()
	url := receiver(t, tlsConfig(t, "http/1.1"), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		ok(w, r)
	})
	s := newSender(t, "tcp", nil)
	if out := post(t, s, url); out.Class != Delivered || out.TLS.Resumed {
		t.Errorf("the first: %+v", out)
	}
	if out := post(t, s, url); !out.TLS.Resumed || out.TLS.Issuer == "" || out.Reused {
		t.Errorf("the second: %+v, %+v", out, out.TLS)
	}
	other := s.Send(t.Context(), Request{EndpointID: "ep_2", URL: url, Timeout: ample})
	if other.Class != Delivered || other.TLS.Resumed {
		t.Errorf("of another endpoint: %+v", other)
	}
	age(s, connLife+time.Second)
	if out := post(t, s, url); out.TLS.Resumed {
		t.Error("resumed after connLife: a changed certificate would not show")
	}
}

// A certificate that changes is noticed at the next connection that is not a resumed one.
func TestACertificateThatChanges(t *testing.T) {
	t.Parallel()
	var current atomic.Pointer[tls.Certificate]
	good, bad := world.ca.issue(t, nil), world.ca.issue(t, func(c *x509.Certificate) { c.DNSNames = []string{"other.t.test"} })
	current.Store(&good)
	config := &tls.Config{NextProtos: []string{"http/1.1"}, SessionTicketsDisabled: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return current.Load(), nil }}
	url := receiver(t, config, ok)
	s := newSender(t, "tcp", nil)
	want(t, post(t, s, url), Delivered, "")
	current.Store(&bad)
	age(s, connLife)
	want(t, post(t, s, url), TLS, WrongName)
	current.Store(&good)
	want(t, post(t, s, url), Delivered, "")
}

func TestAServerThatAsksForACertificateButNeedsNone(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"http/1.1", "h2"} {
		config := tlsConfig(t, protocol)
		config.ClientAuth = tls.RequestClientCert
		s := newSender(t, "tcp", nil)
		url := receiver(t, config, ok)
		want(t, post(t, s, url), Delivered, "")
		want(t, post(t, s, url), Delivered, "")
	}
}

func TestTLSEndsWithAFarewell(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	addr := serve(t, tlsConfig(t, "http/1.1"), func(c net.Conn) {
		br := bufio.NewReader(c)
		if _, err := readRequest(br); err != nil {
			ended <- err
			return
		}
		io.WriteString(c, "HTTP/1.1 204 x\r\n\r\n")
		_, err := br.ReadByte()
		ended <- err
	})
	s := newSender(t, "tcp", nil)
	want(t, post(t, s, "https://"+addr), Delivered, "")
	s.Close()
	if err := <-ended; err != io.EOF {
		t.Errorf("the receiver saw %v, want a TLS end", err)
	}
}
