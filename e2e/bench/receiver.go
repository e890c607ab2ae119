package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"flag"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"waybill/app/signing"
)

// The receiver is a process of its own, so that its CPU is not the sender's. Paths say what it does:
//
//	/ok/KEY      checks the signature with the secret registered under KEY and answers 200
//	/hang/KEY    never answers
//	/control/…   for the bench: put a secret, read what arrived, forget it
type receiver struct {
	secrets sync.Map // key → signing.Key
	count   atomic.Int64
	bad     atomic.Int64
	mu      sync.Mutex
	keep    bool
	arrived []arrival
}

// arrival is one request as the receiver saw it.
type arrival struct {
	ID   string `json:"id"`
	At   int64  `json:"at"` // Unix nanoseconds
	Path string `json:"path"`
}

// tally is what the receiver answers to /control/tally.
type tally struct {
	Count int64 `json:"count"`
	Bad   int64 `json:"bad"`
}

func receiverMain() {
	flags := flag.NewFlagSet("receiver", flag.ExitOnError)
	addr := flags.String("addr", "127.0.0.2:0", "listening address")
	authority := flags.String("authority", "", "write the certificate of the authority that https is signed with to this file")
	_ = flags.Parse(os.Args[2:])
	ln, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	r := &receiver{}
	secured := ""
	if *authority != "" {
		if secured, err = r.serveTLS(*addr, *authority); err != nil {
			log.Fatal(err)
		}
	}
	_, _ = os.Stdout.WriteString(ln.Addr().String() + " " + secured + "\n")
	go func() { // ends with the bench
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	log.Fatal(http.Serve(ln, r))
}

// serveTLS also serves https, with a certificate for the address that an authority of its own has signed.
func (r *receiver) serveTLS(addr, authority string) (string, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	now := time.Now()
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Bench Authority"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, IPAddresses: []net.IP{net.ParseIP(host)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		return "", err
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, key)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}), 0o644); err != nil {
		return "", err
	}
	ln, err := tls.Listen("tcp", addr, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{leafDER}, PrivateKey: key}}})
	if err != nil {
		return "", err
	}
	go func() { log.Fatal(http.Serve(ln, r)) }()
	return ln.Addr().String(), nil
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	kind, key, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	at := time.Now()
	switch kind {
	case "control":
		r.control(w, key, body)
	case "hang":
		<-req.Context().Done()
	default:
		secret, ok := r.secrets.Load(key)
		if !ok {
			http.Error(w, "no secret of this key", http.StatusNotFound)
			return
		}
		if _, err := signing.Verify(req.Header, body, []signing.Key{secret.(signing.Key)}, at, signing.Tolerance); err != nil {
			r.bad.Add(1)
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		r.count.Add(1)
		r.mu.Lock()
		if r.keep {
			r.arrived = append(r.arrived, arrival{ID: req.Header.Get("webhook-id"), At: at.UnixNano(), Path: req.URL.Path})
		}
		r.mu.Unlock()
	}
}

func (r *receiver) control(w http.ResponseWriter, what string, body []byte) {
	switch what {
	case "secrets":
		var secrets map[string]string
		if err := json.Unmarshal(body, &secrets); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for key, text := range secrets {
			secret, err := signing.ParseKey(text)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			r.secrets.Store(key, secret)
		}
	case "forget":
		r.mu.Lock()
		r.arrived, r.keep = nil, string(body) == "keep"
		r.mu.Unlock()
		r.count.Store(0)
		r.bad.Store(0)
	case "tally":
		_ = json.NewEncoder(w).Encode(tally{Count: r.count.Load(), Bad: r.bad.Load()})
	case "arrived":
		r.mu.Lock()
		defer r.mu.Unlock()
		_ = json.NewEncoder(w).Encode(r.arrived)
	}
}
