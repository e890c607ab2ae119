package main

import (
	"encoding/json"
	"flag"
	"io"
	"log"
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
	_ = flags.Parse(os.Args[2:])
	ln, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	r := &receiver{}
	_, _ = os.Stdout.WriteString(ln.Addr().String() + "\n")
	go func() { // ends with the bench
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	log.Fatal(http.Serve(ln, r))
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
