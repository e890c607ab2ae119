package page

import (
	"strings"

	"waybill/web/path"
	"waybill/web/ui"
)

func signatureFixtures() []Fixture {
	id := orderHooks.ID
	recent := []ui.Link{
		{Text: "consignment.delivered, C-4471, 14:20: 401", Href: path.EndpointSignatureOf(id, fixtureID("dlv", 26), "")},
		{Text: "consignment.loaded, C-4470, 14:02: 401", Href: path.EndpointSignatureOf(id, fixtureID("dlv", 25), "")},
	}
	empty := SignatureLab{Head: quietHead(), Recent: recent}
	sent := SignatureLab{
		Head: failingHead(), Recent: recent, Delivery: fixtureID("dlv", 26), Attempt: fixtureID("att", 3),
		About:   "This is attempt 3 of consignment.delivered, as it was sent at 14:20.",
		Headers: "webhook-id: " + fixtureID("evt", 26) + "\nwebhook-timestamp: 1794908165\nwebhook-signature: v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
		Body:    fixtureBody,
		Report: &SignatureReport{Verifies: true, Summary: "The signature is right: code that checks as documented accepts this request.", Checks: []SignatureCheck{
			{"Headers", "passed", ui.Good, "webhook-id, webhook-timestamp and webhook-signature are there.", ""},
			{"Timestamp", "passed", ui.Good, "Signed Tue 17 Nov 2026, 14:20:05 IST (+05:30): within five minutes of its arrival.", ""},
			{"Secret", "passed", ui.Good, "The newest secret (9f86d081) made the signature.", ""},
			{"Body", "passed", ui.Good, "It is the body that we sent, byte for byte: 412 bytes.", ""},
		}},
	}
	changed := sent
	changed.Computed, changed.Fingerprint = "hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe4=", "9f86d081"
	changed.Body = strings.Replace(fixtureBody, `,"data"`, `, "data"`, 1)
	changed.Report = &SignatureReport{Summary: "A receiver refuses this request: body.", Checks: []SignatureCheck{
		{"Headers", "passed", ui.Good, "webhook-id, webhook-timestamp and webhook-signature are there.", ""},
		{"Timestamp", "to know", ui.Wait, "Signed Tue 17 Nov 2026, 14:20:05 IST (+05:30), 41 minutes ago. A request that arrives more than five minutes after that is refused as a possible replay.", "If your server refused it when it arrived: set the server's clock (NTP), and read the timestamp as seconds."},
		{"Secret", "passed", ui.Good, "The newest secret (9f86d081) and an older secret (60303ae2, signs until Wed 18 Nov 2026, 12:00:00 IST (+05:30)) made 2 of the 2 signatures.", ""},
		{"Body", "failed", ui.Bad, "The JSON was parsed and written again: the white space differs.", "Verify over the bytes as they arrived, before anything parses them: express.raw(), request.get_data(), php://input, request.raw_post."},
		{"What your code computed", "failed", ui.Bad, "The text of the secret, with whsec_, was taken as the key.", "Decode what follows whsec_ from base64: these bytes are the key."},
		{"Secret in your code", "passed", ui.Good, "Your code holds the newest secret.", ""},
		{"Event id", "not checked", ui.Mute, "There is no id to look at.", ""},
	}}
	wrong := empty
	wrong.Headers, wrong.Problems = "", Problems{"headers": "Paste the headers of the request, webhook-id, webhook-timestamp and webhook-signature at least.", "body": "Its first 512 KiB are looked at; this is longer."}
	large := sent
	large.Body, large.BodyNote = "", "The body has 218 KB and is left out of the form. Left empty, it is the one that we sent."
	states := []Fixture{
		{State: "empty", Page: empty}, {State: "as-sent", Page: sent}, {State: "body-changed", Page: changed}, {State: "wrong", Page: wrong}, {State: "large", Page: large},
	}
	return framed("signature", states)
}
