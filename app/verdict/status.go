package verdict

import (
	"fmt"
	"net/http"
	"strconv"
)

// codes are the verdicts of single status codes; Short and Title are made from the number.
var codes = map[int]Verdict{
	400: {
		Happened: "It calls the request malformed.",
		Causes:   []string{"The handler expects other fields than this event has, or another event type.", "The handler answers 400 when its signature check fails."},
		Fixes:    []string{"Read the answer's body below for the reason.", "Answer 200 for event types that you do not handle, or unsubscribe from them."},
		Help:     Settings,
	},
	401: {
		Happened: "It does not accept that the request is from us.",
		Causes: []string{
			"Your code rejected our signature: another endpoint's secret, an old secret, or a body that was parsed and written again before the check.",
			"A login, basic authentication or API gateway stands before the handler.",
		},
		Fixes: []string{
			"Compare the secret in your code with this endpoint's, and verify over the raw bytes of the body.",
			"Take the webhook's path out of the login, or add the header that it wants to this endpoint.",
		},
		Retry: ByPreset, Help: Signature,
	},
	403: {
		Happened: "It understood the request and refuses it.",
		Causes: []string{
			"A web application firewall or bot protection blocks requests without a browser.",
			"Protection against cross-site forgery (CSRF) expects a token on every POST.",
			"Your code rejected our signature.",
		},
		Fixes: []string{"Except the webhook's path from the firewall and from CSRF checks; the signature takes their place.", "Allow the addresses that we send from."},
		Retry: ByPreset, Help: Signature,
	},
	404: {
		Happened: "It has nothing at the path of the endpoint's URL.",
		Causes:   []string{"The path is misspelt, or the handler was moved.", "The new version of your application is not deployed yet.", "The handler only answers to another host name."},
		Fixes:    []string{"Compare the endpoint's URL with the route in your application, letter by letter."},
		Retry:    ByPreset, Help: Settings,
	},
	405: {
		Happened: "It has something at this path, but not for POST.",
		Causes:   []string{"The route is registered for GET only.", "A trailing slash is missing, and the framework redirects POST to GET."},
		Fixes:    []string{"Accept POST on the path of the endpoint's URL."},
		Help:     Settings,
	},
	408: {
		Happened: "It gave up waiting for the request.",
		Causes:   []string{"The server or a proxy before it is overloaded.", "The handler does not read the request's body."},
		Fixes:    []string{"Check the load of the server and the proxy before it."},
	},
	410: {
		Happened: "It says that this webhook is gone for good. The endpoint was disabled; what comes for it is held.",
		Causes:   []string{"Your application answers 410 on purpose, to end the subscription.", "The integration was removed."},
		Fixes:    []string{"If that was not meant, mend the handler, enable the endpoint and catch up on what is held.", "If it was, delete the endpoint."},
		Retry:    Stops, Help: Settings,
	},
	413: {
		Happened: "The event is larger than it accepts.",
		Causes:   []string{"The web server's limit for bodies is too low (client_max_body_size in nginx)."},
		Fixes:    []string{"Raise the limit to 1 MB, or switch this endpoint to thin events."},
		Help:     Settings,
	},
	415: {
		Happened: "It does not take application/json.",
		Causes:   []string{"The framework expects a form.", "The route demands a content type with a charset."},
		Fixes:    []string{"Accept content-type: application/json on this route."},
	},
	422: {
		Happened: "It understood the request but not its content.",
		Causes:   []string{"The handler validates the event against another schema version, or does not know its type."},
		Fixes:    []string{"Read the answer's body below for the field.", "Answer 200 for event types that you do not handle, or unsubscribe from them."},
		Help:     Settings,
	},
	429: {
		Happened: "It asks for fewer requests. We send fewer at once until it recovers, and wait as long as it asks.",
		Causes:   []string{"A rate limit before the handler counts webhooks as one client.", "Many events at once meet a small server."},
		Fixes:    []string{"Except the webhook's path from the rate limit, or lower this endpoint's limit of requests at once."},
		Help:     Settings,
	},
	500: {
		Happened: "Your application failed while it worked on the request.",
		Causes:   []string{"An exception in the handler, often for a field that this event does not have."},
		Fixes:    []string{"Look in your application's log at the time of this attempt.", "Save the event, answer 200, and do the work afterwards."},
	},
	502: {
		Happened: "The proxy before your application got no usable answer from it.",
		Causes:   []string{"The application is down, restarting or crashed on this request."},
		Fixes:    []string{"Check that the application runs, and its log at the time of this attempt."},
	},
	503: {
		Happened: "It is not able to take requests now.",
		Causes:   []string{"Maintenance, a deployment, or too much load."},
		Fixes:    []string{"Nothing, if the maintenance was planned: we go on trying for days.", "Otherwise check the server's load."},
	},
	504: {
		Happened: "The proxy before your application waited too long for it. The application may have processed the event: it arrives again with the same id.",
		Causes:   []string{"The handler does its work before it answers."},
		Fixes:    []string{"Save the event, answer 200, and do the work afterwards."},
	},
}

func status(f Facts) Verdict {
	if f.Class == Gone && f.Code == 0 {
		f.Code = http.StatusGone
	}
	v, known := codes[f.Code]
	if !known {
		v = otherStatus(f.Code)
	}
	v.Short = strconv.Itoa(f.Code)
	v.Title = "Your server answered " + spelled(f.Code)
	v.Counts = true
	if v.Retry == "" {
		v.Retry = OnSchedule
	}
	return v
}

func otherStatus(code int) Verdict {
	switch {
	case code >= 400 && code < 500:
		return Verdict{
			Happened: "It refuses the request. Only an answer from 200 to 299 counts as delivered.",
			Causes:   []string{"The handler, or something before it, does not accept this event."},
			Fixes:    []string{"Read the answer's body below for the reason.", "Answer 200 as soon as the event is saved."},
		}
	case code >= 500 && code < 600:
		return Verdict{
			Happened: "Your server, or something before it, failed.",
			Causes:   []string{"The application or a proxy before it is in trouble."},
			Fixes:    []string{"Look in your application's log at the time of this attempt."},
		}
	}
	return Verdict{
		Happened: "That is no answer that HTTP knows for a POST. Only an answer from 200 to 299 counts as delivered.",
		Causes:   []string{"The handler sets a status of its own making."},
		Fixes:    []string{"Answer 200 as soon as the event is saved."},
	}
}

// spelled is a status with its name, where it has one.
func spelled(code int) string {
	if name := http.StatusText(code); name != "" {
		return strconv.Itoa(code) + " " + name
	}
	return strconv.Itoa(code)
}

func redirect(f Facts) Verdict {
	v := Verdict{
		Short: "redirect", Title: "Your server answered with a redirect",
		Happened: "We do not follow redirects: a signed request must not end where nobody checked.",
		Causes: []string{
			"The URL lacks or has \"www\", a trailing slash or https.",
			"The path needs a login and leads to a sign-in page.",
		},
		Fixes: []string{"Set the endpoint's URL to the final address."},
		Retry: OnSchedule, Counts: true, Help: Settings,
	}
	if f.Code != 0 {
		v.Short, v.Title = strconv.Itoa(f.Code), "Your server answered "+spelled(f.Code)
	}
	if f.Location != "" {
		v.Happened = fmt.Sprintf("It redirects to %s. %s", f.Location, v.Happened)
		v.Fixes = []string{"If that address is yours, set the endpoint's URL to it."}
	}
	return v
}

func delivered(f Facts) Verdict {
	v := Verdict{
		Short: "delivered", Title: "Delivered",
		Happened: "Your server accepted the event.",
		Retry:    NotNeeded,
	}
	if f.Code != 0 {
		v.Short = strconv.Itoa(f.Code)
		v.Happened = fmt.Sprintf("Your server answered %s and so accepted the event.", spelled(f.Code))
	}
	if f.Cut {
		v.Title = "Delivered, with an answer that broke off"
		v.Happened += " The answer's body could not be read to its end; the status decides, so it counts as delivered."
		v.Causes = []string{"The answer's length or compression does not match its body."}
		v.Fixes = []string{"Answer with a short body, or none."}
	}
	return v
}
