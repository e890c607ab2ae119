package page

import (
	"time"

	"waybill/web/path"
)

func consumersFixtures() []Fixture {
	full := Consumers{Shown: "4 consumers on this page", Next: path.ConsumersAt("b64x"), Rows: []ConsumerRow{
		{Name: "accounting", Types: []string{"invoice.*", "consignment.delivered"}, Position: fixtureID("evt", 26), Acked: before(2 * time.Minute), Created: before(90 * 24 * time.Hour)},
		{Name: "backfill-2026-11", Lag: "at least 10,000 events", Behind: true, Created: before(3 * time.Minute)},
		{Name: "warehouse", Types: []string{"consignment.*"}, Position: fixtureID("evt", 15), Lag: "11 events", Behind: true, Lease: after(40 * time.Second), Acked: before(20 * time.Second),
			Created: before(30 * 24 * time.Hour)},
		{Name: "x-ray.of_a.very-long-name.that-somebody.chose-for-their-reader-1", Position: "a-publishers-own-id-of-sixty-four-characters-at-the-most-0000001", Acked: before(26 * time.Hour),
			Created: before(400 * 24 * time.Hour)},
	}}
	return framed("consumers", []Fixture{
		{State: "full", Page: full}, {State: "none", Page: Consumers{}}, {State: "not-loaded", Page: Consumers{Failed: true}},
	})
}
