package notice

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/jackc/pgx/v5"

	"waybill/app/fault"
	"waybill/app/id"
	"waybill/app/seal"
	"waybill/db"
	"waybill/db/dbtest"
)

// post is a real mail server, which keeps what it took.
type post struct {
	addr   string
	mu     sync.Mutex
	taken  []*mail.Message
	bodies []string
	to     []string
	rcpt   func(to string) error // what it says to a recipient
	data   func(n int) error     // what it says to the nth mail, after it was taken
}

type visit struct {
	*post
	to string
}

func (p *post) NewSession(*smtp.Conn) (smtp.Session, error) { return &visit{post: p}, nil }
func (v *visit) Reset()                                     {}
func (v *visit) Logout() error                              { return nil }
func (v *visit) Mail(string, *smtp.MailOptions) error       { return nil }
func (v *visit) Rcpt(to string, _ *smtp.RcptOptions) error {
	v.to = to
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.rcpt != nil {
		return v.rcpt(to)
	}
	return nil
}
func (v *visit) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	message, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.taken, v.bodies = append(v.taken, message), append(v.bodies, string(raw))
	v.post.to = append(v.post.to, v.to)
	if v.data != nil {
		return v.data(len(v.taken))
	}
	return nil
}

func (p *post) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.taken)
}

func newPost(t *testing.T) *post {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &post{addr: listener.Addr().String()}
	server := smtp.NewServer(p)
	server.Domain = "post.test"
	server.ErrorLog = quiet{}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return p
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}
func (quiet) Println(...any)        {}

func (p *post) smtp(t *testing.T) *SMTP {
	t.Helper()
	s, err := ParseSMTP(seal.Secret("smtp://"+p.addr+"?from=Waybill+<hooks@freight.example>"), base)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newOutbox(t *testing.T) *Outbox {
	t.Helper()
	ring, err := seal.NewRing(bytes.Repeat([]byte{7}, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return &Outbox{DB: dbtest.New(t), Ring: ring, URL: base, Now: time.Now}
}

func (o *Outbox) put(t *testing.T, letters ...Letter) {
	t.Helper()
	err := db.Tx(t.Context(), o.DB, func(tx pgx.Tx) error {
		for _, letter := range letters {
			if err := o.Put(t.Context(), tx, letter); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (o *Outbox) send(t *testing.T, carrier Carrier) {
	t.Helper()
	if err := o.Send(t.Context(), carrier, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
}

func (o *Outbox) run(t *testing.T, sql string) {
	t.Helper()
	if _, err := o.DB.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// states is each mail's recipient and what became of it.
func (o *Outbox) states(t *testing.T) string {
	t.Helper()
	rows, err := o.DB.Query(t.Context(), `select recipient || ' ' || case when sent_at is not null then 'sent' when dropped_at is not null then 'dropped' else 'waits' end || ' ' || tries from mails order by recipient`)
	if err != nil {
		t.Fatal(err)
	}
	states, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(states, ", ")
}

func reset(to string) Letter {
	return Letter{Kind: KindReset, Key: "reset:" + to, To: to, Notice: Reset("wbr_secret", time.Hour)}
}

func TestMailsAreSentOnce(t *testing.T) {
	t.Parallel()
	o, p := newOutbox(t), newPost(t)
	o.put(t, reset("b@example.com"), reset("a@example.com"), reset("a@example.com"))
	o.put(t, reset("a@example.com"), Letter{Kind: KindInvitation, Key: "i", To: "c@example.com", Notice: Invitation("Zoë & <Söhne>", "ई", "Owner", "wbi_x", at)})
	// Several processes at once.
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { o.send(t, p.smtp(t)) })
	}
	all.Wait()
	o.send(t, p.smtp(t))
	if got, want := o.states(t), "a@example.com sent 1, b@example.com sent 1, c@example.com sent 1"; got != want || p.count() != 3 {
		t.Errorf("%s; the server took %d", got, p.count())
	}
	for i, message := range p.taken {
		if message.Header.Get("From") != `"Waybill" <hooks@freight.example>` || message.Header.Get("Auto-Submitted") != "auto-generated" || message.Header.Get("User-Agent") != "Waybill" || message.Header.Get("To") != "<"+p.to[i]+">" ||
			!strings.HasPrefix(message.Header.Get("Message-Id"), "<eml_") || !strings.HasSuffix(message.Header.Get("Message-Id"), "@waybill.test>") {
			t.Errorf("headers %v", message.Header)
		}
		if kind := message.Header.Get("Content-Type"); !strings.HasPrefix(kind, "multipart/alternative") || !strings.Contains(p.bodies[i], "text/plain") || !strings.Contains(p.bodies[i], "text/html") {
			t.Errorf("content type %q of %s", kind, p.bodies[i])
		}
		if p.to[i] == "c@example.com" {
			subject, err := new(mime.WordDecoder).DecodeHeader(message.Header.Get("Subject"))
			if err != nil || subject != "ई invites you to Zoë & <Söhne>" {
				t.Errorf("subject %q, %v", subject, err)
			}
		}
	}
	if at, err := o.Next(t.Context()); err != nil || !at.IsZero() {
		t.Errorf("due next at %s, %v", at, err)
	}
}

func TestNothingIsSentOfWhatDidNotHappen(t *testing.T) {
	t.Parallel()
	o, p := newOutbox(t), newPost(t)
	woken := 0
	o.Wake = func(context.Context, pgx.Tx) error { woken++; return nil }
	broken := errors.New("broken on purpose")
	err := db.Tx(t.Context(), o.DB, func(tx pgx.Tx) error {
		if err := o.Put(t.Context(), tx, reset("a@example.com")); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) || woken != 1 {
		t.Fatalf("%v, woken %d times", err, woken)
	}
	o.send(t, p.smtp(t))
	if p.count() != 0 || o.states(t) != "" {
		t.Errorf("%s; the server took %d", o.states(t), p.count())
	}
	o.put(t, reset("a@example.com"), reset("a@example.com"))
	if woken != 2 {
		t.Errorf("woken %d times; a second mail with the same key is none", woken)
	}
}

func TestAServerThatIsDown(t *testing.T) {
	t.Parallel()
	o, p := newOutbox(t), newPost(t)
	down, err := ParseSMTP("smtp://127.0.0.1:1", base)
	if err != nil {
		t.Fatal(err)
	}
	o.put(t, reset("a@example.com"))
	for try := 1; try <= 3; try++ {
		o.send(t, down)
		o.send(t, down) // not due yet: not tried
		var wait time.Duration
		var tries int
		if err := o.DB.QueryRow(t.Context(), "select next_at - statement_timestamp(), tries from mails").Scan(&wait, &tries); err != nil {
			t.Fatal(err)
		}
		if want := doubled(downFirst, downMost, try); tries != try || wait > want || wait < want-5*time.Second {
			t.Errorf("after try %d of %d it waits %s, want %s", tries, try, wait, want)
		}
		o.run(t, "update mails set next_at = statement_timestamp()")
	}
	o.send(t, p.smtp(t))
	if got := o.states(t); got != "a@example.com sent 4" || p.count() != 1 {
		t.Errorf("%s; the server took %d", got, p.count())
	}
}

func TestWhatTheServerRefuses(t *testing.T) {
	t.Parallel()
	o, p := newOutbox(t), newPost(t)
	p.rcpt = func(to string) error {
		switch to {
		case "gone@example.com":
			return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such user"}
		case "grey@example.com":
			return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 7, 1}, Message: "come back later"}
		}
		return nil
	}
	o.put(t, reset("gone@example.com"), reset("grey@example.com"), reset("well@example.com"))
	logs := &bytes.Buffer{}
	if err := o.Send(t.Context(), p.smtp(t), slog.New(slog.NewTextHandler(logs, nil))); err != nil {
		t.Fatal(err)
	}
	if got, want := o.states(t), "gone@example.com dropped 1, grey@example.com waits 1, well@example.com sent 1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if mails, err := o.List(t.Context()); err != nil || !mails[2].Dropped || mails[1].Dropped || !strings.Contains(mails[2].Problem, "no such user") || mails[0].SentAt == nil {
		t.Errorf("listed %+v, %v", mails, err)
	}
	if strings.Contains(logs.String(), "gone@") || !strings.Contains(logs.String(), "550") {
		t.Errorf("logged %s", logs)
	}
	p.mu.Lock()
	p.rcpt = nil
	p.mu.Unlock()
	o.run(t, "update mails set next_at = statement_timestamp()")
	o.send(t, p.smtp(t))
	if got, want := o.states(t), "gone@example.com dropped 1, grey@example.com sent 2, well@example.com sent 1"; got != want || p.count() != 2 {
		t.Errorf("%s, want %s; the server took %d", got, want, p.count())
	}
}

// A server that breaks after the hand-over was answered, at its own RSET or QUIT, has the mail.
func TestAfterTheHandOver(t *testing.T) {
	t.Parallel()
	o := newOutbox(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	taken := make(chan struct{}, 10)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go rude(conn, taken)
		}
	}()
	carrier, err := ParseSMTP(seal.Secret("smtp://"+listener.Addr().String()+"?starttls=never"), base)
	if err != nil {
		t.Fatal(err)
	}
	o.put(t, reset("a@example.com"), reset("b@example.com"))
	o.send(t, carrier)
	if got := o.states(t); !strings.Contains(got, "a@example.com sent 1") {
		t.Errorf("%s", got)
	}
	o.run(t, "update mails set next_at = statement_timestamp()")
	o.send(t, carrier)
	if got := o.states(t); got != "a@example.com sent 1, b@example.com sent 2" || len(taken) != 2 {
		t.Errorf("%s; taken %d", got, len(taken))
	}
}

// rude takes one mail, says so, and hangs up.
func rude(conn net.Conn, taken chan<- struct{}) {
	defer conn.Close()
	say := func(line string) { io.WriteString(conn, line+"\r\n") }
	say("220 rude.test")
	buffer, text := make([]byte, 4096), ""
	inData := false
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return
		}
		text += string(buffer[:n])
		for {
			if inData {
				end := strings.Index(text, "\r\n.\r\n")
				if end < 0 {
					break
				}
				taken <- struct{}{}
				say("250 taken")
				return
			}
			line, rest, whole := strings.Cut(text, "\r\n")
			if !whole {
				break
			}
			text = rest
			switch strings.ToUpper(line[:min(4, len(line))]) {
			case "DATA":
				inData = true
				say("354 go on")
			default:
				say("250 yes")
			}
		}
	}
}

func TestWhatIsOldIsNotSent(t *testing.T) {
	t.Parallel()
	o, p := newOutbox(t), newPost(t)
	letter := reset("late@example.com")
	letter.Life = time.Hour
	o.put(t, letter, reset("a@example.com"), reset("unreadable@example.com"))
	o.run(t, "update mails set good_until = statement_timestamp() where recipient = 'late@example.com'")
	o.run(t, "update mails set body = '\\x00' where recipient = 'unreadable@example.com'")
	o.send(t, p.smtp(t))
	if got, want := o.states(t), "a@example.com sent 1, late@example.com dropped 1, unreadable@example.com dropped 1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	o.run(t, "update mails set created_at = created_at - interval '31 days'")
	if n, err := o.Prune(t.Context()); err != nil || n != 3 {
		t.Errorf("pruned %d, %v", n, err)
	}
}

// A process that died between sending and noting leaves the mail to others, after the lease.
func TestALeaseEnds(t *testing.T) {
	t.Parallel()
	o, p := newOutbox(t), newPost(t)
	o.put(t, reset("a@example.com"))
	m, try, dead, err := o.claim(t.Context())
	if err != nil || dead != "" || try != 1 || !strings.Contains(m.Text, "wbr_secret") {
		t.Fatalf("claimed %+v, %d, %q, %v", m, try, dead, err)
	}
	o.send(t, p.smtp(t))
	if p.count() != 0 {
		t.Error("another process sends what this one is sending")
	}
	o.run(t, "update mails set next_at = statement_timestamp()")
	o.send(t, p.smtp(t))
	if got := o.states(t); got != "a@example.com sent 2" || p.count() != 1 {
		t.Errorf("%s; the server took %d", got, p.count())
	}
	// The one that was away changes nothing of what the other has noted.
	if _, err := o.settle(t.Context(), m, try, errors.New("too late"), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if got := o.states(t); got != "a@example.com sent 2" {
		t.Errorf("%s", got)
	}
}

func TestTheMailbox(t *testing.T) {
	t.Parallel()
	o := newOutbox(t)
	o.put(t, reset("a@example.com"))
	mails, err := o.List(t.Context())
	if err != nil || len(mails) != 1 || mails[0].Text != "" || mails[0].SentAt != nil {
		t.Fatalf("listed %+v, %v", mails, err)
	}
	full, err := o.Read(t.Context(), mails[0].ID)
	if err != nil || !strings.Contains(full.Text, base+"/password/wbr_secret") || !strings.Contains(full.HTML, "<!DOCTYPE html>") {
		t.Errorf("read %+v, %v", full, err)
	}
	for _, missing := range []string{"x", id.New(id.Mail, time.Now())} {
		if _, err := o.Read(t.Context(), missing); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s: %v", missing, err)
		}
	}
	var plain int
	if err := o.DB.QueryRow(t.Context(), `select count(*) from mails where position('wbr_secret' in encode(body, 'escape')) > 0`).Scan(&plain); err != nil || plain != 0 {
		t.Errorf("the link lies there in plain text: %v", err)
	}
}

func TestParseSMTP(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"smtp://mail.example":                                      "",
		"smtp://user:p%40ss@mail.example:2525":                     "",
		"smtps://user:pass@mail.example":                           "",
		"smtp://mail.example?from=Hooks+%3Ch%40freight.example%3E": "",
		"smtp://mail.example?starttls=never":                       "",
		"smtp://mail.example?starttls=sometimes":                   "required, optional, never",
		"smtp://mail.example?from=nonsense":                        "no mail address",
		"smtp://mail.example?form=x@example.com":                   `the parameter "form"`,
		"smtp://mail.example:0":                                    "port",
		"http://mail.example":                                      "must be smtp://",
		"mail.example:25":                                          "must be smtp://",
		"smtp://user:secret@":                                      "must be smtp://",
		"smtp://user:sec%ret@mail.example":                         "must be smtp://",
	} {
		s, err := ParseSMTP(seal.Secret(url), base)
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", url, err, want)
		case err != nil && strings.Contains(err.Error(), "sec"):
			t.Errorf("%s: the error quotes the password: %v", url, err)
		case err == nil && !strings.Contains(url, "from") && s.From() != `"Waybill" <waybill@waybill.test>`:
			t.Errorf("%s: from %s", url, s.From())
		}
	}
}
