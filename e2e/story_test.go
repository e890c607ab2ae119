package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// patient is a policy whose first retry is far away: what happens before it is somebody's doing.
const patient = `
webhook_delivery:
  timeout_seconds: 5
  waits_between_attempts: [10m, 1h, 5h]
  jitter_percent: 0
`

// shop is the server of a seller who reads what we send, and answers as it is told to.
type shop struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	got    []hook
	more   chan struct{}
}

// hook is a webhook as the shop received it.
type hook struct {
	header http.Header
	body   string
	status int // what it was answered
}

func openShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{status: http.StatusOK, more: make(chan struct{})}
	listener, err := net.Listen("tcp", ReceiverHost+":0")
	if err != nil {
		t.Fatal(err)
	}
	s.Server = httptest.NewUnstartedServer(s)
	_ = s.Listener.Close()
	s.Listener = listener
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRead))
	if err != nil {
		return
	}
	s.mu.Lock()
	status := s.status
	if r.Header.Get("webhook-id") != "" {
		s.got = append(s.got, hook{r.Header.Clone(), string(body), status})
		close(s.more)
		s.more = make(chan struct{})
	}
	s.mu.Unlock()
	if status != http.StatusOK {
		http.Error(w, "The order table is locked.", status)
		return
	}
	_, _ = io.WriteString(w, "Thank you.\n")
}

func (s *shop) answers(status int) { s.mu.Lock(); defer s.mu.Unlock(); s.status = status }

// hears waits for a webhook about a resource, answered with status, and returns it.
func (s *shop) hears(ctx context.Context, resource string, status int) (hook, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		s.mu.Lock()
		more := s.more
		for _, one := range s.got {
			if one.status == status && strings.Contains(one.body, `"id":"`+resource) {
				s.mu.Unlock()
				return one, nil
			}
		}
		s.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			return hook{}, fmt.Errorf("nothing about %s came to the shop to be answered %d", resource, status)
		}
	}
}

// verifies says that a webhook carries a signature of this secret, by the Standard Webhooks library.
func (h hook) verifies(secret string) error {
	place := Place{Scheme: "v1", Secret: secret}
	return place.verify(h.header, []byte(h.body))
}

// stage is the program, running, with a tenant and a browser that knows it.
type stage struct {
	*rig
	browser *Browser
}

func newStage(t *testing.T, policy string, tenants ...string) *stage {
	t.Helper()
	r := newRig(t, policy, false)
	program := r.start(Launch{Env: map[string]string{"WAYBILL_URL": "http://" + site}})
	for _, tenant := range tenants {
		r.tenant(tenant, 0)
	}
	for name, description := range map[string]string{"consignment.loaded": "The goods are on the truck.", "consignment.delivered": "The goods were handed over and signed for."} {
		if err := r.Call(t.Context(), http.MethodPut, "/v1/event-types/"+name, map[string]any{"description": description, "example": map[string]any{"truck": "TN-09"}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	return &stage{r, openBrowser(t, map[string]string{site: program.Addr()})}
}

// link is a portal link, as the platform hands it to a seller: its path.
func (s *stage) link(tenant, body string) string {
	s.t.Helper()
	var made struct{ URL string }
	if err := s.Call(s.t.Context(), http.MethodPost, "/v1/tenants/"+tenant+"/portal-links", []byte(body), &made); err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimPrefix(made.URL, "http://"+site)
}

// happens publishes an event of a resource, as the platform does when something happens there.
func (s *stage) happens(tenant, eventType, resource string) {
	s.t.Helper()
	_, err := s.Pool.Exec(s.t.Context(), `select waybill.publish(tenant => $1, type => $2, resource_type => 'consignment', resource_id => $3, data => '{"truck":"TN-09"}')`,
		tenant, eventType, resource)
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) hears(shop *shop, resource string, status int) hook {
	s.t.Helper()
	got, err := shop.hears(s.t.Context(), resource, status)
	if err != nil {
		s.t.Fatal(err)
	}
	return got
}

// TestSellerRunsTheirWebhooks is the dashboard's promise: a seller who has read nothing adds an endpoint, gets a test event accepted, finds out why
// an order did not arrive, sends it again and changes the secret without losing anything; with a mouse, and with a keyboard alone.
func TestSellerRunsTheirWebhooks(t *testing.T) {
	t.Parallel()
	for name, hand := range map[string]hand{"mouse": mouse{}, "keyboard": keyboard{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, shop := newStage(t, patient, "sarees"), openShop(t)
			anna := newPerson(t, s.browser.Tab(), name, hand, 1440, "light")
			addsAnEndpoint(anna, s, shop)
			secret := revealsTheSecret(anna, "Signing")
			getsAnEvent(anna, s, shop, secret)
			findsOutWhy(anna, s, shop)
			rotates(anna, s, shop, secret)
			leaves(anna)
			if name == "keyboard" && anna.tab.Clicks > 0 {
				t.Errorf("%d clicks by keyboard alone", anna.tab.Clicks)
			}
		})
	}
}

// addsAnEndpoint goes from the portal link to an accepted test event.
func addsAnEndpoint(anna *person, s *stage, shop *shop) {
	anna.opens(s.link("sarees", `{"label":"Anna"}`))
	anna.looks("link")
	anna.uses("Open the dashboard")
	anna.sees("From here to your first event")
	anna.looks("overview-new")
	anna.uses("Add")
	anna.until("the cursor is in the field of the URL", `document.activeElement?.name === "url"`)
	anna.must(anna.tab.Paste(shop.URL + "/webhooks"))
	anna.uses("Every type, also future ones")
	anna.looks("endpoint-new")
	anna.uses("Add endpoint")
	anna.sees("Endpoint added", "The answer appears here")
	anna.looks("endpoint-added")
	anna.uses("Send test event")
	anna.sees("What came back", "200 OK", "Thank you.")
	anna.looks("test-accepted")
	if anna.tab.Clicks > 8 || anna.tab.Pastes != 1 {
		anna.Errorf("from the portal link to an accepted test event it took %d clicks and %d pastes; 8 and 1 are allowed", anna.tab.Clicks, anna.tab.Pastes)
	}
	anna.Logf("from the portal link to an accepted test event: %d clicks, %d pastes, %d keys", anna.tab.Clicks, anna.tab.Pastes, anna.tab.Keys)
	if test := s.hears(shop, "TEST-", http.StatusOK); !strings.Contains(test.body, `"test":true`) {
		anna.Errorf("the test event is not marked: %s", test.body)
	}
}

// revealsTheSecret reads the newest secret off the page of secrets.
func revealsTheSecret(anna *person, stamp string) string {
	anna.uses("Secrets")
	anna.sees(stamp, "Rotate")
	anna.uses("Reveal…")
	anna.sees("Reveal secret")
	anna.looks("reveal-asked")
	anna.uses("Reveal secret")
	secret := anna.reads("code.secret")
	anna.looks("secret-revealed")
	if !strings.HasPrefix(secret, "whsec_") {
		anna.Fatalf("the secret is %q", secret)
	}
	return secret
}

// getsAnEvent sees a real event arrive while the list of deliveries is open.
func getsAnEvent(anna *person, s *stage, shop *shop, secret string) {
	anna.uses("Deliveries")
	anna.sees("Export CSV")
	anna.until("the page is live", `document.querySelector("[data-live]") && (document.querySelector(".live")?.dataset.state ?? "open") === "open"`)
	s.happens("sarees", "consignment.loaded", "C-4470")
	if err := s.hears(shop, "C-4470", http.StatusOK).verifies(secret); err != nil {
		anna.Errorf("a real event does not verify with the secret of the page: %v", err)
	}
	anna.sees("consignment.loaded", "C-4470")
	anna.looks("deliveries")
}

// findsOutWhy has an order that did not arrive, learns why from the page, mends the shop and sends it again.
func findsOutWhy(anna *person, s *stage, shop *shop) {
	shop.answers(http.StatusInternalServerError)
	s.happens("sarees", "consignment.returned", "C-4471")
	s.hears(shop, "C-4471", http.StatusInternalServerError)
	anna.sees("consignment.returned", "Retrying")
	anna.uses("consignment.returned")
	anna.sees("Attempts", "500", "The order table is locked.", "What to do", "in 9 min", "Resend now")
	anna.looks("delivery-failed")
	shop.answers(http.StatusOK)
	anna.uses("Resend now")
	anna.sees("It is on its way again")
	s.hears(shop, "C-4471", http.StatusOK)
	anna.until("the page says by itself that it was delivered", `document.querySelector(".stamped")?.textContent.includes("Recovered") || document.querySelector(".stamped")?.textContent.includes("Delivered")`)
	anna.looks("delivery-recovered")
}

// rotates changes the secret: for a day both sign.
func rotates(anna *person, s *stage, shop *shop, old string) {
	anna.uses("Endpoints")
	anna.sees("Last 50 attempts")
	anna.uses(strings.TrimPrefix(shop.URL, "http://"))
	anna.sees("Recent deliveries")
	anna.looks("endpoint")
	anna.uses("Secrets")
	anna.sees("How long the old secret goes on signing")
	anna.uses("Rotate secret")
	anna.sees("A new secret signs beside the old one")
	anna.looks("rotated")
	fresh := revealsTheSecret(anna, "Ending")
	if fresh == old {
		anna.Fatal("the newest secret is the old one")
	}
	s.happens("sarees", "consignment.loaded", "C-4472")
	got := s.hears(shop, "C-4472", http.StatusOK)
	if err := errors.Join(got.verifies(old), got.verifies(fresh)); err != nil {
		anna.Errorf("within the overlap: %v", err)
	}
}

// leaves signs out, and is out.
func leaves(anna *person) {
	anna.uses("Sign out")
	anna.sees("You are signed out")
	anna.looks("signed-out")
	anna.opens("/deliveries")
	anna.sees("Sign in to go on")
	anna.quiet("the end")
}

// TestPeopleComeAndChange: an owner is invited by the platform and chooses a password, invites a developer, who reads the mail, and makes them a viewer.
func TestPeopleComeAndChange(t *testing.T) {
	t.Parallel()
	s := newStage(t, patient, "sarees")
	var made struct{ URL string }
	if err := s.Call(t.Context(), http.MethodPost, "/v1/tenants/sarees/invitations", map[string]any{"email": "meera@sarees.example"}, &made); err != nil {
		t.Fatal(err)
	}
	meera := newPerson(t, s.browser.Tab(), "meera", mouse{}, 1440, "light")
	const phrase, other = "seven green looms sing", "nobody guesses my looms"

	meera.opens(strings.TrimPrefix(made.URL, "http://"+site))
	meera.sees("Join sarees", "as Owner")
	meera.looks("invitation")
	meera.fills("Your name", "Meera")
	meera.fills("Choose a password", phrase)
	meera.uses("Join sarees")
	meera.sees("From here to your first event", "meera@sarees.example")
	meera.uses("Team")
	meera.sees("the only owner")
	meera.fills("Mail address", "ravi@sarees.example")
	meera.uses("Send invitation")
	meera.sees("Invited", "Withdraw")
	meera.looks("team-invited")

	tab, err := s.browser.Stranger()
	if err != nil {
		t.Fatal(err)
	}
	ravi := newPerson(t, tab, "ravi", mouse{}, 360, "dark")
	ravi.opens("/dev/mail")
	ravi.sees("ravi@sarees.example")
	ravi.uses("Meera invites you")
	address := ravi.reads(".code")
	begin := strings.Index(address, "/invitation/")
	if begin < 0 {
		t.Fatalf("the mail has no link: %s", address)
	}
	ravi.opens(strings.Fields(address[begin:])[0])
	ravi.sees("Meera invites you", "as Developer")
	ravi.fills("Your name", "Ravi")
	ravi.fills("Choose a password", "ravi")
	ravi.uses("Join sarees")
	ravi.sees("has 4.")
	ravi.quiet("a password that is too short", "422")
	ravi.fills("Choose a password", other)
	ravi.uses("Join sarees")
	ravi.sees("From here to your first event")
	ravi.looks("joined")

	meera.opens("/team")
	meera.sees("Ravi", "ravi@sarees.example")
	meera.chooses("Role of ravi@sarees.example", "Viewer")
	meera.uses("Change role of ravi@sarees.example")
	meera.sees("The role is changed")
	meera.looks("role-changed")

	ravi.opens("/endpoints")
	ravi.sees("Your role can look but not add endpoints")
	ravi.looks("as-viewer")
	ravi.uses("Menu")
	ravi.uses("Sign out")
	ravi.sees("You are signed out")
	ravi.fills("Mail address", "ravi@sarees.example")
	ravi.fills("Password", "not my password at all")
	ravi.uses("Sign in")
	ravi.sees("do not match")
	ravi.quiet("a wrong password", "422")
	ravi.fills("Password", other)
	ravi.uses("Sign in")
	ravi.sees("Overview")
	guardsTheDoor(meera, s, "meera@sarees.example", phrase)
	ravi.quiet("the end")
	meera.quiet("the end")
}
