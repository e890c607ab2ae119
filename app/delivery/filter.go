package delivery

import (
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"waybill/app/fault"
	"waybill/app/id"
	"waybill/app/sender"
)

// Filter narrows a list of deliveries. Zero fields ask for everything; all that are given must hold.
type Filter struct {
	EndpointID   string // ep_…
	EventID      string // whole
	ResourceType string
	ResourceID   string        // whole
	Search       string        // an event's id, a delivery's or a resource's, whichever there is
	Type         string        // an event type, or a prefix as "order.*"
	Status       string        // a Status, "retrying" or "recovered"
	Code         string        // an attempt was answered so: a status as "404", a class as "5xx", or "none" for no answer. 2xx: the last one was.
	Class        string        // an attempt ended so: a word of package verdict. "delivered": the last one did.
	Trigger      string        // an attempt was made for that: retry, manual, recover or probe; "schedule": any by itself; "test": a test event
	Slower       time.Duration // the last attempt took as long or longer; in milliseconds
	Tests        Tests
	Since, Until time.Time // made at Since or later, and before Until; to the millisecond
}

// Tests says whether a list shows test events.
type Tests string

// The choices.
const (
	WithTests    Tests = ""
	OnlyTests    Tests = "only"
	WithoutTests Tests = "without"
)

// The words of Filter.Status that are no Status: parts of Pending and of Delivered.
const (
	Retrying  = "retrying"
	Recovered = "recovered"
)

var (
	codeForm  = regexp.MustCompile(`^(?:[1-9][0-9]{2}|[1-9]xx|none)$`)
	classForm = regexp.MustCompile(`^[a-z_]{1,40}$`)
	typeForm  = regexp.MustCompile(`^(?:\*|[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*(?:\.\*)?)$`)
)

const (
	maxType     = 130
	maxResource = 200
)

// check is an Invalid fault that names every value which can match nothing, by the name of its parameter in the API.
func (f Filter) check() error {
	wrong := fault.New(fault.Invalid, "A filter is not valid.")
	if f.EndpointID != "" && !id.Valid(id.Endpoint, f.EndpointID) {
		wrong.Field("endpoint_id", "must be the id of an endpoint: ep_…")
	}
	if f.EventID != "" && !id.ValidEvent(f.EventID) {
		wrong.Field("event_id", "must be the id of an event: 1 to 64 characters of A-Z a-z 0-9 _ -")
	}
	for name, text := range map[string]string{"resource_id": f.ResourceID, "resource_type": f.ResourceType, "search": f.Search} {
		if !utf8.ValidString(text) || utf8.RuneCountInString(text) > maxResource || strings.IndexByte(text, 0) >= 0 {
			wrong.Field(name, "must have at most 200 characters")
		}
	}
	if f.Type != "" && (len(f.Type) > maxType || !typeForm.MatchString(f.Type)) {
		wrong.Field("type", "must be an event type or a prefix as order.*")
	}
	switch f.Status {
	case "", string(Pending), string(Delivered), string(Undelivered), string(Held), string(Cancelled), Retrying, Recovered:
	default:
		wrong.Field("status", "must be pending, retrying, delivered, recovered, undelivered, held or cancelled")
	}
	if f.Code != "" && !codeForm.MatchString(f.Code) {
		wrong.Field("code", "must be a status as 404, a class as 5xx, or none")
	}
	// Asking for a class that may not be told would tell it.
	if f.Class != "" && (!classForm.MatchString(f.Class) || public(f.Class) != f.Class) {
		wrong.Field("class", "must be the class of an attempt, as timeout or no_answer")
	}
	switch f.Trigger {
	case "", "schedule", "retry", "manual", "recover", "probe", "test":
	default:
		wrong.Field("trigger", "must be schedule, retry, manual, recover, probe or test")
	}
	switch f.Tests {
	case WithTests, OnlyTests, WithoutTests:
	default:
		wrong.Field("test", "must be true or false")
	}
	if f.Slower < 0 || f.Slower > time.Hour {
		wrong.Field("slower_than", "must be 0 to 3600000 milliseconds")
	}
	if !f.Since.IsZero() && !f.Until.IsZero() && f.Until.Before(f.Since) {
		wrong.Field("until", "must not be before since")
	}
	return wrong.OrNil()
}

// codes is the range of statuses that the filter's code means, and whether it means any.
func (f Filter) codes() (from, to int, ok bool) {
	if f.Code == "" || f.Code == "none" {
		return 0, 0, false
	}
	if strings.HasSuffix(f.Code, "xx") {
		from = int(f.Code[0]-'0') * 100
		return from, from + 99, true
	}
	from, _ = strconv.Atoi(f.Code) // three digits
	return from, from, true
}

// classes are the stored words that the filter's class means.
func (f Filter) classes() []string {
	switch f.Class {
	case "":
		return []string{}
	case string(sender.NoAnswer):
		return []string{string(sender.Refused), string(sender.ConnectTimeout), string(sender.Reset), string(sender.NotHTTP)}
	}
	return []string{f.Class}
}

// byAttempt says whether the filter asks about one attempt among all of a delivery. Answers of 2xx are too many to look for: of those the last
// attempt counts, which is in the delivery's row.
func (f Filter) byAttempt() bool {
	switch f.Trigger {
	case "retry", "manual", "recover", "probe":
		return true
	}
	from, _, ok := f.codes()
	return ok && from/100 != 2 || f.Code == "none" || f.Class != "" && f.Class != "delivered"
}

// attemptArgs are the arguments by which an attempt is matched.
func (f Filter) attemptArgs() pgx.NamedArgs {
	from, to, ok := f.codes()
	args := pgx.NamedArgs{"code": ok, "code_from": from, "code_to": to, "no_answer": f.Code == "none", "classes": f.classes(), "trigger": ""}
	switch f.Trigger {
	case "retry", "manual", "recover", "probe":
		args["trigger"] = f.Trigger
	}
	return args
}

// The conditions of a filter on a row of deliveries called v. Statements are made of these texts and no others.
const (
	onEndpoint     = `v.endpoint_id = @endpoint`
	onEvent        = `v.event_id = @event`
	onResource     = `v.resource_id = @resource`
	onResourceType = `v.resource_type = @resource_type`
	onType         = `v.type = @type`
	onPrefix       = `starts_with(v.type, @prefix)`
	onStatus       = `v.status = @status`
	onRetrying     = `v.status = 'pending' and v.failures > 0`
	onRecovered    = `v.status = 'delivered' and v.failures > 0`
	onLastCode     = `v.last_code between @code_from and @code_to`
	onLastClass    = `v.last_class = @class`
	onSchedule     = `v.attempts > 0 and not v.test`
	onTest         = `v.test`
	onNoTest       = `not v.test`
	onSlower       = `v.last_ms >= @slower`
	onTime         = `v.id >= @from_id and v.id < @until_id`
	onAttempt      = `exists (
            select from attempts a
            where a.tenant_id = @tenant and a.delivery_id = v.id and a.day >= v.day - 1
              and (not @code::boolean or coalesce(a.code between @code_from::integer and @code_to::integer, false))
              and (not @no_answer::boolean or a.code is null)
              and (cardinality(@classes::text[]) = 0 or a.class = any (@classes)) and (@trigger::text = '' or a.trigger = @trigger))`
)

// conditions are those of the filter, and their arguments. What is asked about attempts is left to the caller.
func (f Filter) conditions() ([]string, pgx.NamedArgs) {
	var on []string
	args := pgx.NamedArgs{}
	text := func(condition, name, value string) {
		if value != "" {
			on = append(on, condition)
			args[name] = value
		}
	}
	flag := func(condition string, asked bool) {
		if asked {
			on = append(on, condition)
		}
	}
	text(onEndpoint, "endpoint", f.EndpointID)
	text(onEvent, "event", f.EventID)
	text(onResource, "resource", f.ResourceID)
	text(onResourceType, "resource_type", f.ResourceType)
	if prefix, ok := strings.CutSuffix(f.Type, "*"); ok {
		text(onPrefix, "prefix", prefix)
	} else {
		text(onType, "type", f.Type)
	}
	switch f.Status {
	case Retrying:
		flag(onRetrying, true)
	case Recovered:
		flag(onRecovered, true)
	default:
		text(onStatus, "status", f.Status)
	}
	if !f.byAttempt() {
		if from, to, ok := f.codes(); ok {
			on = append(on, onLastCode)
			args["code_from"], args["code_to"] = from, to
		}
		text(onLastClass, "class", f.Class)
	}
	flag(onSchedule, f.Trigger == "schedule")
	flag(onTest, f.Trigger == "test" || f.Tests == OnlyTests)
	flag(onNoTest, f.Tests == WithoutTests)
	if f.Slower > 0 {
		on = append(on, onSlower)
		args["slower"] = f.Slower.Milliseconds()
	}
	return on, args
}

// firstID is the smallest id of its millisecond, or of the next one when at lies within a millisecond.
func firstID(at time.Time) string {
	return string(id.Delivery) + "_" + id.TimePrefix(at.Add(time.Millisecond-time.Nanosecond).Truncate(time.Millisecond))
}
