package page

func errorFixtures() []Fixture {
	const request = "req_01KA8R2Q4ZJ6T0W3X5Y7N8P9QA"
	fixtures := []Fixture{
		{Name: "error", State: "404", Page: Error{Status: 404, Signed: true, Request: request}},
		{Name: "error", State: "403", Page: Error{Status: 403, Signed: true, Request: request, Detail: "Only an owner can remove members."}},
		{Name: "error", State: "500", Page: Error{Status: 500, Signed: true, Request: request, Again: "/deliveries"}},
		{Name: "error", State: "503", Page: Error{Status: 503, Request: request, Again: "/deliveries"}},
		{Name: "error", State: "404-signed-out", Page: Error{Status: 404, Request: request}},
		{Name: "error", State: "429", Page: Error{Status: 429, Request: request}},
	}
	for i := range fixtures {
		fixtures[i].Frame = fixtureFrame
		fixtures[i].Frame.Undelivered = 0
	}
	return fixtures
}
