package demo

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"waybill/app/id"
	"waybill/app/signing"
	"waybill/web/path"
)

// Script is how fast and how much.
type Script struct {
	Pace    time.Duration // between two moves of a seller in ordinary times, about
	Between time.Duration // between two scenes
	Outage  time.Duration // how long the server is down
	Updates int           // how many updates are committed meanwhile

	// In ordinary times, after the week:
	TroubleEvery, TroubleFor time.Duration // when the first seller's server is out of order, and for how long
	SumUpEvery               time.Duration // between two lines that sum up
}

// BadWeek is the first seed's: 40 minutes and 300 updates. A minute of it takes three eighths of a second.
func BadWeek() Script {
	return Script{Pace: 400 * time.Millisecond, Between: 3 * time.Second, Outage: 40 * time.Minute / 160, Updates: 300,
		TroubleEvery: 2 * time.Minute, TroubleFor: 6 * time.Second, SumUpEvery: 5 * time.Minute}
}

// patience is how long a scene waits for what must come; then the story says so and goes on: the user may have paused
// an endpoint, or be restarting Postgres.
const patience = 60 * time.Second

// Tell sets the platform moving and tells the story: the first delivery, the bad week, and then what happens in ordinary
// times, until ctx ends. The error is of a part that failed, and not of ctx.
func (d *Demo) Tell(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.life, cancel)()
	err := d.tell(ctx)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (d *Demo) tell(ctx context.Context) error {
	if err := d.week(ctx); err != nil {
		return err
	}
	d.console.note("That was the week. Things go on at an easy pace, with the odd fault, until you press Ctrl-C.")
	return d.ordinary(ctx)
}

// week is the story from the first delivery to the books.
func (d *Demo) week(ctx context.Context) error {
	hero, err := d.opening(ctx)
	if err != nil {
		return err
	}
	if err := registerTypes(ctx, d.api); err != nil {
		return err
	}
	for _, s := range []*Seller{d.Sarees, d.Hardware} {
		d.loops.Go(func() { d.Platform.Run(d.life, s.UID, d.script.Pace) })
	}
	scenes := []func(context.Context, *Consignment) error{d.forgery, d.outage, d.staleNews, d.repeat}
	for _, scene := range scenes {
		if err := d.rest(ctx, d.script.Between); err != nil {
			return err
		}
		if err := scene(ctx, &hero); err != nil {
			return err
		}
	}
	d.Platform.Keep(hero)
	return d.books(ctx)
}

// opening books the first consignment and waits for its event.
func (d *Demo) opening(ctx context.Context) (Consignment, error) {
	m, err := d.Platform.Book(ctx, sareesUID)
	if err != nil {
		return Consignment{}, err
	}
	select {
	case <-d.Sarees.first:
		d.console.always("%s is booked for %s. First delivery verified %.2f s after the start.", m.Consignment.ID, d.Sarees.Name, d.FirstDelivery().Seconds())
	case <-time.After(patience):
		d.console.always("%s is booked for %s, but nothing has arrived in %s. The deliveries page says why.", m.Consignment.ID, d.Sarees.Name, patience)
	case <-ctx.Done():
		return Consignment{}, ctx.Err()
	}
	d.console.blank()
	for i, s := range []*Seller{d.Sarees, d.Hardware} {
		link, err := s.account.signInLink(ctx)
		if err != nil {
			return Consignment{}, err
		}
		show := d.console.note
		if i == 0 {
			show = func(format string, args ...any) { d.console.print("", fmt.Sprintf(format, args...)) }
		}
		show("Dashboard of %-16s  %s", s.Name, link)
	}
	if d.api.finds(ctx, path.Mails()) {
		d.console.note("Mails that would be sent       %s", d.Server.Config.URL+path.Mails())
	}
	token, err := d.Server.Services.Operators.DemoLink(ctx, operatorEmail)
	if err != nil {
		return Consignment{}, err
	}
	d.console.note("Operator console               %s", d.Server.Config.URL+path.ConsoleLink(token.Reveal()))
	d.console.note("(Each link signs in once: the sellers' within ten minutes, the operator's within an hour.)")
	d.console.blank()
	return m.Consignment, nil
}

// FirstDelivery is the time from the start of the program to the first event that was verified and in the inbox of
// Sarees; 0: none yet.
func (d *Demo) FirstDelivery() time.Duration {
	select {
	case <-d.Sarees.first:
		return d.Sarees.firstAt.Sub(d.console.started)
	default:
		return 0
	}
}

// forgery is a stranger who has found the seller's URL and says that goods are delivered which are on the highway.
func (d *Demo) forgery(ctx context.Context, hero *Consignment) error {
	m, err := d.Platform.Advance(ctx, *hero)
	if err != nil {
		return err
	}
	*hero = m.Consignment
	if err := d.knows(ctx, *hero); err != nil {
		return err
	}
	status, err := forge(ctx, d.Sarees.URL(), hero.ID)
	if err != nil {
		return err
	}
	known, version, err := d.Sarees.status(ctx, hero.ID)
	if err != nil {
		return err
	}
	d.console.say(`A stranger posts "%s is delivered" to the seller's URL: %d, no valid signature. For the seller it is still %s (version %d).`,
		hero.ID, status, words(known), version)
	return nil
}

// forge posts an event that looks right in everything but its signature, straight to the seller, and returns the answer's status.
func forge(ctx context.Context, url, consignment string) (int, error) {
	now := time.Now()
	eventID := id.New(id.Event, now)
	at := now.UTC().Format("2006-01-02T15:04:05.000Z")
	body := fmt.Appendf(nil, `{"id":%q,"type":"consignment.delivered","version":1,"timestamp":%q,"occurred_at":%q,`+
		`"resource":{"type":"consignment","id":%q},"sequence":4,"data":{"status":"delivered","goods":"","from":"","to":"","truck":""}}`,
		eventID, at, at, consignment)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	guess := make([]byte, 32)
	rand.Read(guess) // never fails
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(signing.HeaderID, eventID)
	req.Header.Set(signing.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(signing.HeaderSignature, "v1,"+base64.StdEncoding.EncodeToString(guess))
	stranger := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := stranger.Do(req)
	if err != nil {
		return 0, fmt.Errorf("post a forged event: %w", err)
	}
	defer resp.Body.Close()
	return resp.StatusCode, nil
}

// outage is the 40 minutes of the first seed.
func (d *Demo) outage(ctx context.Context, _ *Consignment) error {
	s, other := d.Sarees, d.Hardware
	d.Platform.Pause(s.UID)
	defer d.Platform.Resume(s.UID)
	from, err := d.Platform.clock(ctx)
	if err != nil {
		return err
	}
	before := d.ledger.tally(other.UID)
	d.ledger.mark(other.UID)
	s.door.shut()
	d.console.say("The server of %s goes down for an upgrade: 40 minutes in the story, %s here.", s.Name, short(d.script.Outage))
	if err := d.moveThrough(ctx, s); err != nil {
		return err
	}
	to, err := d.Platform.clock(ctx)
	if err != nil {
		return err
	}
	waiting, err := s.missing(ctx, from, to)
	if err != nil {
		return err
	}
	s.door.setAlways(well)
	up := time.Now()
	d.console.say("It is up again. %s for it.", waitFor(waiting, "update"))
	d.Platform.Resume(s.UID)

	left, err := d.wait(ctx, func() (int, error) { return s.missing(ctx, from, to) })
	if err != nil {
		return err
	}
	if left > 0 {
		d.console.say("%s arrived, %s still to come: the dashboard says why.", have(waiting-left, "update"), number(left))
		return nil
	}
	after := d.ledger.tally(other.UID)
	d.console.say("All %s have arrived %s later. %s noticed nothing: %s of its own meanwhile, the slowest after %s.",
		number(waiting), short(time.Since(up)), other.Name, count(after.Stored-before.Stored, "update"), short(d.ledger.slowest(other.UID)))
	return nil
}

// moveThrough commits the script's updates evenly over the outage. In its first half nobody listens, in its second there is a page
// that says so.
func (d *Demo) moveThrough(ctx context.Context, s *Seller) error {
	begun := time.Now()
	for n := 0; n < d.script.Updates; {
		m, err := d.Platform.Move(ctx, s.UID)
		if err != nil {
			return err
		}
		if m.EventID == "" {
			continue // turned back
		}
		n++
		if n == d.script.Updates/2 {
			s.door.setAlways(upgrades)
			if err := s.door.reopen(); err != nil {
				return err
			}
		}
		next := begun.Add(d.script.Outage * time.Duration(n) / time.Duration(d.script.Updates))
		if err := d.rest(ctx, time.Until(next)); err != nil {
			return err
		}
	}
	return nil
}

// staleNews is a consignment's "in transit" that times out, and arrives after its "delivered".
func (d *Demo) staleNews(ctx context.Context, hero *Consignment) error {
	s := d.Sarees
	before := d.ledger.tally(s.UID).Stale
	met := s.door.expect(hero.ID, "in_transit", sleeps)
	m, err := d.Platform.Advance(ctx, *hero)
	if err != nil {
		return err
	}
	if err := d.meet(ctx, met); err != nil {
		return err
	}
	if m, err = d.Platform.Advance(ctx, m.Consignment); err != nil {
		return err
	}
	*hero = m.Consignment
	if err := d.knows(ctx, *hero); err != nil {
		return err
	}
	d.console.say(`%s is in transit, but %s does not answer in time; "delivered" (version %d) arrives first.`, hero.ID, s.Name, hero.Version)
	left, err := d.wait(ctx, func() (int, error) { return before + 1 - d.ledger.tally(s.UID).Stale, nil })
	if err != nil {
		return err
	}
	known, version, err := s.status(ctx, hero.ID)
	if err != nil {
		return err
	}
	if left > 0 {
		d.console.say(`The late "in transit" (version 3) has not come yet. %s is %s (version %d) for the seller.`, hero.ID, words(known), version)
		return nil
	}
	d.console.say(`The late "in transit" (version 3) is sent again, arrives, and is ignored as stale: %s stays %s (version %d).`, hero.ID, words(known), version)
	return nil
}

// repeat is an event that was stored, although the answer said that it was not.
func (d *Demo) repeat(ctx context.Context, _ *Consignment) error {
	s := d.Sarees
	before := d.ledger.tally(s.UID).Repeats
	m, err := d.Platform.Book(ctx, s.UID)
	if err != nil {
		return err
	}
	c := m.Consignment
	met := s.door.expect(c.ID, "loaded", lies)
	if m, err = d.Platform.Advance(ctx, c); err != nil {
		return err
	}
	d.Platform.Keep(m.Consignment)
	if err := d.meet(ctx, met); err != nil {
		return err
	}
	left, err := d.wait(ctx, func() (int, error) { return before + 1 - d.ledger.tally(s.UID).Repeats, nil })
	if err != nil {
		return err
	}
	if left > 0 {
		d.console.say(`%s is loaded: %s stored it and answered 500. It is to be sent again.`, c.ID, s.Name)
		return nil
	}
	d.console.say(`%s is loaded: %s stored it and answered 500, so it came again, with the same id, and was skipped.`, c.ID, s.Name)
	return nil
}

// books compares what was committed with what has arrived.
func (d *Demo) books(ctx context.Context) error {
	calm, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	left := 0
	err := until(calm, func() (bool, error) {
		var err error
		left, err = d.missing(ctx, d.began)
		return left == 0, err
	})
	if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
		return err
	}
	t := d.ledger.sum()
	on := ""
	if left > 0 {
		on = fmt.Sprintf(", %s under way", number(left))
	}
	d.console.say("The books: %s committed, %s in the sellers' inboxes%s.", count(t.Committed, "update"), number(t.Committed-left), on)
	d.console.note("%s rolled back after publishing; %s of them sent. %s refused, %s ignored, %s skipped.",
		number(t.RolledBack)+" moves were", none(t.Ghosts), count(t.Unsigned, "forged call"), count(t.Stale, "stale update"), count(t.Repeats, "repeat"))
	return nil
}

// ordinary lets Sarees' server have the odd fault, and sums up now and then.
func (d *Demo) ordinary(ctx context.Context) error {
	d.Sarees.door.setLively(true)
	defer d.Sarees.door.setLively(false)
	trouble, sumUp := time.NewTicker(d.script.TroubleEvery), time.NewTicker(d.script.SumUpEvery)
	defer trouble.Stop()
	defer sumUp.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-trouble.C:
			d.Sarees.door.setAlways(upgrades)
			err := d.rest(ctx, d.script.TroubleFor)
			d.Sarees.door.setAlways(well)
			if err != nil {
				return err
			}
		case <-sumUp.C:
			left, err := d.missing(ctx, d.began)
			if err != nil {
				return err
			}
			t := d.ledger.sum()
			d.console.say("So far %s committed, %s arrived, %s under way. %s met an error and came again. %s rolled back; %s of those sent.",
				count(t.Committed, "update"), number(t.Committed-left), number(left), count(d.Sarees.door.failures(), "call"), number(t.RolledBack), none(t.Ghosts))
		}
	}
}

// missing counts what was committed since a time, by both sellers, and is not in their inboxes.
func (d *Demo) missing(ctx context.Context, since time.Time) (int, error) {
	to, err := d.Platform.clock(ctx)
	if err != nil {
		return 0, err
	}
	sum := 0
	for _, s := range []*Seller{d.Sarees, d.Hardware} {
		n, err := s.missing(ctx, since, to)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// knows waits until Sarees knows of the consignment's version.
func (d *Demo) knows(ctx context.Context, c Consignment) error {
	_, err := d.wait(ctx, func() (int, error) {
		_, version, err := d.Sarees.status(ctx, c.ID)
		return int(c.Version - version), err
	})
	return err
}

// wait asks until nothing is left, for as long as there is patience, and returns what is left then.
func (d *Demo) wait(ctx context.Context, left func() (int, error)) (int, error) {
	patient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	n := 0
	err := until(patient, func() (bool, error) {
		var err error
		n, err = left()
		return n <= 0, err
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return n, nil
	}
	return n, err
}

// meet waits for something to happen, for as long as there is patience.
func (d *Demo) meet(ctx context.Context, met <-chan struct{}) error {
	select {
	case <-met:
	case <-time.After(patience):
	case <-ctx.Done():
	}
	return ctx.Err()
}

// rest waits.
func (d *Demo) rest(ctx context.Context, long time.Duration) error {
	select {
	case <-time.After(long):
	case <-ctx.Done():
	}
	return ctx.Err()
}

// until asks done every 50 ms.
func until(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
