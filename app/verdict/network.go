package verdict

import (
	"fmt"
	"time"
)

// fixed are the verdicts that depend on the class alone.
var fixed = map[Class]Verdict{
	BlockedAddress: {
		Short: "address not allowed", Title: "This address is not allowed",
		Happened: "The endpoint's name leads to an address that we do not send to, so nothing was sent.",
		Causes: []string{
			"The name points to a private, local or reserved network, such as an office or home address.",
			"The name's DNS was changed, or answers differently to us than inside your network.",
		},
		Fixes: []string{
			"Use a name that leads to a public address, or put a public gateway before your server.",
			"For development on your own machine, use `waybill listen` in place of a tunnel.",
		},
		Retry: OnSchedule, Counts: false, Help: Settings,
	},
	DNS: {
		Short: "name not found", Title: "The server's name could not be found",
		Happened: "DNS has no address for the host in the endpoint's URL, or did not answer.",
		Causes: []string{
			"The host name is misspelt, or its DNS record was removed.",
			"The domain has expired, or its name servers are down.",
			"A tunnel was closed and its name went with it.",
		},
		Fixes: []string{
			"Look the name up from outside your network; it must have an A or AAAA record.",
			"Correct the endpoint's URL if the name has changed.",
		},
		Retry: OnSchedule, Counts: true, Help: Settings,
	},
	Refused: {
		Short: "refused", Title: "Your server refused the connection",
		Happened: "The machine was reached, but nothing accepts connections on that port.",
		Causes: []string{
			"The web server or application is not running.",
			"It listens on another port, or only on the machine itself (127.0.0.1).",
			"A firewall turns the connection away.",
		},
		Fixes: []string{
			"Start the server, and check that it listens on the port of the endpoint's URL.",
			"Allow the addresses that we send from in your firewall.",
		},
		Retry: OnSchedule, Counts: true, Help: Settings,
	},
	Reset: {
		Short: "cut off", Title: "The connection was cut before an answer",
		Happened: "Your server, or something before it, closed the connection before a whole answer had come. It may have got the event: it can arrive again with the same id.",
		Causes: []string{
			"The application crashed or restarted while it worked on the request.",
			"A proxy or load balancer has a shorter time limit than your application needs.",
			"A firewall cut the connection.",
		},
		Fixes: []string{
			"Look in your application's log at the time of this attempt.",
			"Save the event, answer 200, and do the work afterwards.",
		},
		Retry: OnSchedule, Counts: true,
	},
	NotHTTP: {
		Short: "not HTTP", Title: "The answer is not HTTP",
		Happened: "Something answered on that port, but not with an HTTP response.",
		Causes: []string{
			"The port belongs to another service, such as mail, a database or SSH.",
			"An https:// URL leads to a plain port, or the other way round.",
		},
		Fixes: []string{"Check the scheme and port of the endpoint's URL."},
		Retry: OnSchedule, Counts: true, Help: Settings,
	},
	NoAnswer: {
		Short: "no answer", Title: "No HTTP answer came",
		Happened: "The connection was refused, not accepted or cut, or what answered does not speak HTTP.",
		Causes: []string{
			"The web server or application is not running, or listens on another port.",
			"A firewall turns the connection away.",
			"The port belongs to another service, or the URL's scheme is the wrong one.",
		},
		Fixes: []string{
			"Start the server, and check the scheme and port of the endpoint's URL.",
			"Allow the addresses that we send from in your firewall.",
			"Look in your server's log at the time of this attempt.",
		},
		Retry: OnSchedule, Counts: true, Help: Settings,
	},
	TooLargeHeader: {
		Short: "headers too large", Title: "Your server's answer has too many headers",
		Happened: "The answer's headers are larger than we read, so its status could not be trusted.",
		Causes:   []string{"A session, debug or tracing layer adds large headers or cookies to every answer."},
		Fixes:    []string{"Answer with status 200 and no cookies; a webhook needs no session."},
		Retry:    OnSchedule, Counts: true,
	},
	BadRequestConfig: {
		Short: "bad configuration", Title: "This endpoint's configuration cannot be sent",
		Happened: "A request could not be made from the endpoint's URL and headers, so nothing was sent.",
		Causes:   []string{"A static header's name or value holds a character that HTTP does not allow."},
		Fixes:    []string{"Correct the endpoint's URL and static headers, then resend."},
		Retry:    Stops, Counts: false, Help: Settings,
	},
	Proxy: {
		Short: "our fault", Title: "We could not send it",
		Happened: "Our own way out to the internet failed. Your server had no part in it and its health is unchanged.",
		Causes:   []string{"Our sending proxy was restarting or overloaded."},
		Fixes:    []string{"Nothing to do for you; we are told when this happens."},
		Retry:    OnSchedule, Counts: false,
	},
	Canceled: {
		Short: "stopped", Title: "We stopped before your server answered",
		Happened: "We were restarting and gave the attempt up. Your server may have got the event: it can arrive again with the same id.",
		Causes:   []string{"A new version of our service was being started."},
		Fixes:    []string{"Nothing to do; skip events whose id you have already saved."},
		Retry:    OnSchedule, Counts: false,
	},
	Unknown: {
		Short: "outcome unknown", Title: "How this attempt ended is not known",
		Happened: "The machine that was sending stopped before it could write down the answer. Your server may have got the event: it can arrive again with the same id.",
		Causes:   []string{"One of our machines failed during the attempt."},
		Fixes:    []string{"Nothing to do; skip events whose id you have already saved."},
		Retry:    OnSchedule, Counts: false,
	},
}

// name is the host as the tenant wrote it, or words for it.
func (f Facts) name() string {
	if f.Host == "" {
		return "the endpoint's host"
	}
	return f.Host
}

func tls(f Facts) Verdict {
	v := Verdict{Retry: OnSchedule, Counts: true}
	switch f.Reason {
	case Expired:
		v.Short, v.Title = "certificate expired", "Your server's certificate has expired"
		v.Happened = "The certificate is past its last day, or not valid yet, so the connection was given up before anything was sent."
		if !f.Expiry.IsZero() {
			v.Happened = fmt.Sprintf("The certificate ended on %s, so the connection was given up before anything was sent.",
				f.Expiry.UTC().Format("2 January 2006"))
		}
		v.Causes = []string{"Automatic renewal failed, or the server was not reloaded after it."}
		v.Fixes = []string{"Renew the certificate and reload the web server."}
	case WrongName:
		v.Short, v.Title = "wrong certificate", "Your server's certificate is for another name"
		v.Happened = fmt.Sprintf("The certificate does not name %s, so the connection was given up before anything was sent.", f.name())
		v.Causes = []string{
			"The server has several sites and answers with another one's certificate.",
			"The endpoint's URL has a sub-domain that the certificate leaves out.",
		}
		v.Fixes = []string{"Add the name to the certificate, or use a name that it has in the endpoint's URL."}
		v.Help = Settings
	case UnknownIssuer:
		v.Short, v.Title = "certificate not trusted", "Your server's certificate is not trusted"
		v.Happened = "The certificate does not lead to an authority that we trust, so the connection was given up before anything was sent."
		v.Causes = []string{
			"The server does not send the intermediate certificate. Browsers often fetch it themselves and hide the fault.",
			"The certificate is self-signed or from a private authority.",
		}
		v.Fixes = []string{"Install the full chain (often called fullchain.pem), or a certificate from a public authority."}
	case Protocol:
		v.Short, v.Title = "TLS failed", "No TLS session could be agreed on"
		v.Happened = "Your server and we have no TLS version or cipher in common, or what answered does not speak TLS."
		v.Causes = []string{
			"The server speaks only TLS 1.1 or older.",
			"The port serves plain HTTP.",
		}
		v.Fixes = []string{"Switch TLS 1.2 or 1.3 on, and check the port of the endpoint's URL."}
		v.Help = Settings
	case ClientCertificate:
		v.Short, v.Title = "wants our certificate", "Your server asks for a client certificate"
		v.Happened = "Your server ends the connection unless the other side shows a certificate, and we show none."
		v.Causes = []string{"Mutual TLS is switched on for the whole site, or for this host."}
		v.Fixes = []string{"Except the webhook's host or path from mutual TLS; the signature says that a request is from us."}
		v.Help = Settings
	case OtherTLS:
		v.Short, v.Title = "certificate not acceptable", "Your server's certificate cannot be accepted"
		v.Happened = "The certificate is of a kind that is not accepted on the web, so the connection was given up before anything was sent."
		v.Causes = []string{
			"Its key is too weak (RSA below 2,048 bits), or its signature is (SHA-1).",
			"It was not issued for servers.",
		}
		v.Fixes = []string{"Have a certificate issued by a public authority, such as Let's Encrypt, and install it with its chain."}
	default:
		v.Short, v.Title = "TLS failed", "A secure connection could not be made"
		v.Happened = "The handshake or the check of the certificate failed, so nothing was sent."
		v.Causes = []string{"The certificate has expired, is for another name, or lacks its intermediate.", "The server speaks only TLS 1.1 or older, or no TLS on this port."}
		v.Fixes = []string{"Check the connection under Settings: it says which of them it is."}
		v.Help = Settings
	}
	return v
}

func timeout(f Facts) Verdict {
	limit := "in time"
	if f.Timeout >= time.Second {
		limit = fmt.Sprintf("within %d seconds", int(f.Timeout/time.Second))
	}
	v := Verdict{Short: "timed out", Retry: OnSchedule, Counts: true}
	if f.Class == ConnectTimeout {
		f.Phase = "connect"
	}
	switch f.Phase {
	case "dns":
		v.Title = "The server's name was not found in time"
		v.Happened = "DNS did not answer " + limit + ", so nothing was sent."
		v.Causes = []string{"The domain's name servers are down or slow."}
		v.Fixes = []string{"Look the name up from outside your network, and ask your DNS provider."}
	case "connect":
		v.Short, v.Title = "no connection", "Your server could not be reached"
		v.Happened = "The connection was not accepted " + limit + ", so nothing was sent."
		v.Causes = []string{
			"A firewall drops connections from our addresses without a word.",
			"The machine is down, or the name leads to an old address.",
		}
		v.Fixes = []string{"Allow the addresses that we send from in your firewall.", "Check that the host's DNS leads to the right machine."}
	case "tls":
		v.Title = "The secure connection was not ready in time"
		v.Happened = "The server accepted the connection but did not finish the TLS handshake " + limit + "."
		v.Causes = []string{"The server is overloaded.", "The port does not speak TLS."}
		v.Fixes = []string{"Check the server's load and the port of the endpoint's URL."}
	case "write":
		v.Title = "Your server did not take the request in time"
		v.Happened = "The connection was made, but the request was not taken " + limit + "."
		v.Causes = []string{"The server, or a proxy before it, is overloaded and does not read."}
		v.Fixes = []string{"Check the load of the server and the proxy before it."}
	default:
		v.Title = "Your server did not answer in time"
		v.Happened = "The request was sent, but no answer came " + limit + ". Your server may have processed it: it arrives again with the same id."
		v.Causes = []string{
			"The handler does its work before it answers.",
			"The handler waits for a database, a lock or another service.",
		}
		v.Fixes = []string{
			"Save the event, answer 200, and do the work afterwards.",
			"Skip events whose id you have already saved.",
		}
	}
	return v
}
