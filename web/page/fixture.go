package page

import (
	"time"

	"waybill/web/ui"
)

// The fixtures' world: a saree seller on a freight platform, on a Tuesday afternoon.
var (
	fixtureZone  = time.FixedZone("IST", 19800)
	fixtureNow   = time.Date(2026, 11, 17, 9, 41, 5, 123e6, time.UTC)
	fixtureClock = ui.Clock{Now: fixtureNow, Zone: fixtureZone}
	fixtureFrame = ui.Frame{Tenant: "Meera Silk House", Member: "meera@silkhouse.example", Role: "Owner", Zone: "Asia/Kolkata", Undelivered: 12}
)

// before is the moment so long before the fixtures' now.
func before(d time.Duration) ui.Moment { return fixtureClock.Moment(fixtureNow.Add(-d)) }

// after is the moment so long after the fixtures' now.
func after(d time.Duration) ui.Moment { return fixtureClock.Moment(fixtureNow.Add(d)) }

// fixtureID is an id as long as a real one, told apart by its number.
func fixtureID(prefix string, n int) string {
	const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	id := []byte("01KA8R2Q4ZJ6T0W3X5Y7N8P900")
	for i := len(id) - 1; n > 0; i-- {
		id[i] = digits[n%32]
		n /= 32
	}
	return prefix + "_" + string(id)
}

var (
	orderHooks    = EndpointName{ID: fixtureID("ep", 1), Name: "Order system", Host: "orders.silkhouse.example", Path: "/webhooks/freight"}
	warehouse     = EndpointName{ID: fixtureID("ep", 2), Host: "warehouse.silkhouse.example", Path: "/in"}
	oldShop       = EndpointName{ID: fixtureID("ep", 3), Host: "shop.silkhouse.example", Path: "/wp-json/hooks/v1/consignments"}
	endpointNames = []EndpointName{orderHooks, warehouse, oldShop}
	eventTypes    = []string{"consignment.booked", "consignment.loaded", "consignment.in_transit", "consignment.delivered"}
)

// framed names the states of one page and puts the fixtures' frame around them.
func framed(name string, states []Fixture) []Fixture {
	for i := range states {
		states[i].Name, states[i].Frame = name, fixtureFrame
	}
	return states
}
