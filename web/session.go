package web

import (
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/sessions"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/seal"
	"waybill/web/dashboard"
	"waybill/web/ui"
)

// The names of our cookies, before the prefix that they have over https. A __Host- cookie is taken only over https, from this very host and for
// all of it (RFC 6265bis, section 4.1.3.2), so that no neighbouring host can plant one.
const (
	sessionCookie = "waybill"
	noteCookie    = "waybill-note"
	halfCookie    = "waybill-half" // between password and code
	hostPrefix    = "__Host-"
)

// noteLife is how long a note waits for the page that it was left for.
const noteLife = time.Minute

// callerKey is where a session's values keep who it is.
const callerKey = "caller"

// Store keeps sessions in Postgres, as package account has them: the cookie carries the token alone, the table its hash, and each request
// asks anew, so that a session that was ended is over everywhere. It is a sessions.Store.
type Store struct {
	Accounts *account.Service
	Options  sessions.Options // of the cookie
}

// Get is the session of a request, asked for once.
func (s *Store) Get(r *http.Request, name string) (*sessions.Session, error) {
	return sessions.GetRegistry(r).Get(s, name)
}

// New finds the session that the request's cookie names. Without one it is new, and so is one whose token is worth nothing any more; then the
// error is an Unauthenticated fault.
func (s *Store) New(r *http.Request, name string) (*sessions.Session, error) {
	session := sessions.NewSession(s, name)
	options := s.Options
	session.Options, session.IsNew = &options, true
	cookie, err := r.Cookie(name)
	if err != nil {
		return session, fault.New(fault.Unauthenticated, "You are not signed in.")
	}
	caller, err := s.Accounts.SessionCaller(r.Context(), cookie.Value)
	if err != nil {
		return session, err
	}
	session.ID, session.Values[callerKey], session.IsNew = cookie.Value, caller, false
	return session, nil
}

// Save sends the cookie: the token, which is the session's ID, or with a negative MaxAge nothing, for good. The row was made, and is ended, by
// the operation of package account.
func (s *Store) Save(_ *http.Request, w http.ResponseWriter, session *sessions.Session) error {
	http.SetCookie(w, sessions.NewCookie(session.Name(), session.ID, session.Options))
	return nil
}

// people is dashboard.Sessions in cookies.
type people struct {
	store  *Store
	notes  *sessions.CookieStore
	prefix string
}

// newPeople signs people in with cookies for url; ring seals what travels in them.
func newPeople(accounts *account.Service, ring *seal.Ring, url string) *people {
	secure := strings.HasPrefix(url, "https://")
	options := sessions.Options{Path: "/", HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode}
	var pairs [][]byte
	encrypt := ring.Derive("cookie: encrypt")
	for i, key := range ring.Derive("cookie: authenticate") {
		pairs = append(pairs, key, encrypt[i])
	}
	p := &people{store: &Store{Accounts: accounts, Options: options}, notes: sessions.NewCookieStore(pairs...)}
	p.notes.Options = &options
	p.notes.MaxAge(int(noteLife.Seconds()))
	if secure {
		p.prefix = hostPrefix
	}
	return p
}

// Caller is who the request's session belongs to.
func (p *people) Caller(r *http.Request) (account.Caller, error) {
	session, err := p.store.Get(r, p.prefix+sessionCookie)
	if err != nil {
		return account.Caller{}, err
	}
	caller, _ := session.Values[callerKey].(account.Caller) // New has put it there
	return caller, nil
}

// Start sends the token of a session that was started.
func (p *people) Start(w http.ResponseWriter, r *http.Request, token seal.Secret, life time.Duration) error {
	session := sessions.NewSession(p.store, p.prefix+sessionCookie)
	options := p.store.Options
	options.MaxAge = int(life.Seconds())
	session.ID, session.Options = token.Reveal(), &options
	p.drop(w, r, halfCookie)
	return p.store.Save(r, w, session)
}

// Half sends the token of a sign-in that a code has yet to follow.
func (p *people) Half(w http.ResponseWriter, token seal.Secret, life time.Duration) {
	options := p.store.Options
	options.MaxAge = int(life.Seconds())
	http.SetCookie(w, sessions.NewCookie(p.prefix+halfCookie, token.Reveal(), &options))
}

// Halfway is that token, or empty.
func (p *people) Halfway(r *http.Request) string {
	cookie, err := r.Cookie(p.prefix + halfCookie)
	if err != nil {
		return ""
	}
	return cookie.Value
}

// drop takes a cookie back that the request brought.
func (p *people) drop(w http.ResponseWriter, r *http.Request, name string) {
	if _, err := r.Cookie(p.prefix + name); err != nil {
		return
	}
	options := p.store.Options
	options.MaxAge = -1
	http.SetCookie(w, sessions.NewCookie(p.prefix+name, "", &options))
}

// End takes the cookies of a session back that the request brought; what was begun to sign in with stays.
func (p *people) End(w http.ResponseWriter, r *http.Request) error {
	for _, name := range []string{sessionCookie, noteCookie} {
		p.drop(w, r, name)
	}
	return nil
}

// The values of a note, as its cookie has them.
const (
	noteSession = "session"
	noteTone    = "tone"
	noteText    = "text"
	noteWords   = "words"
	noteHref    = "href"
	noteAbout   = "about"
	noteSecret  = "secret"
)

// Say seals a note into a cookie that is good for this session alone.
func (p *people) Say(w http.ResponseWriter, r *http.Request, sessionID string, note dashboard.Note) error {
	session := sessions.NewSession(p.notes, p.prefix+noteCookie)
	options := *p.notes.Options
	session.Options = &options
	session.Values = map[any]any{
		noteSession: sessionID, noteTone: string(note.Tone), noteText: note.Text, noteWords: note.Link.Text, noteHref: note.Link.Href,
		noteAbout: note.About, noteSecret: note.Secret,
	}
	return p.notes.Save(r, w, session)
}

// Said opens the note and takes its cookie back. What was sealed with a key that is gone, or for another session, was never said.
func (p *people) Said(w http.ResponseWriter, r *http.Request, sessionID string) (dashboard.Note, bool) {
	name := p.prefix + noteCookie
	if _, err := r.Cookie(name); err != nil {
		return dashboard.Note{}, false
	}
	options := *p.notes.Options
	options.MaxAge = -1
	http.SetCookie(w, sessions.NewCookie(name, "", &options))
	session, err := p.notes.New(r, name)
	if err != nil || session.Values[noteSession] != sessionID {
		return dashboard.Note{}, false
	}
	value := func(name string) string {
		text, _ := session.Values[name].(string)
		return text
	}
	return dashboard.Note{
		Tone: ui.Tone(value(noteTone)), Text: value(noteText), Link: ui.Link{Text: value(noteWords), Href: value(noteHref)},
		About: value(noteAbout), Secret: value(noteSecret),
	}, true
}
