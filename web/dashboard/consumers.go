package dashboard

import (
	"net/http"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// consumersShown is how many consumers a page has: what waits for each of them is counted.
const consumersShown = 20

// consumers lists the tenant's named consumers with how far each has come.
func (d *Dashboard) consumers(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	after := r.URL.Query().Get("cursor")
	all := catalog.Consumers{Events: d.Events, Accounts: d.Accounts}
	found, next, err := all.Standings(r.Context(), caller, after, consumersShown)
	if unavailable(err) {
		return d.show(w, r, v, http.StatusServiceUnavailable, page.Consumers{Failed: true})
	}
	if err != nil {
		return err
	}
	sheet := page.Consumers{Shown: shown(len(found), after == "" && next == "", "consumer", "consumers")}
	for _, s := range found {
		sheet.Rows = append(sheet.Rows, consumerRow(v, s))
	}
	if after != "" {
		sheet.First = path.Consumers()
	}
	if next != "" {
		sheet.Next = path.ConsumersAt(next)
	}
	return d.show(w, r, v, http.StatusOK, sheet)
}

func consumerRow(v view, s catalog.Standing) page.ConsumerRow {
	row := page.ConsumerRow{Name: s.Name, Types: s.Types, Position: s.EventID, Created: v.clock.Moment(s.CreatedAt), Behind: s.Lag > 0 || s.LagCut,
		Lag: ui.Count(int64(s.Lag), "event", "events")}
	switch {
	case s.LagCut && s.Lag == 0:
		row.Lag = "Perhaps, further on"
	case s.LagCut:
		row.Lag = "at least " + row.Lag
	}
	if s.LeaseUntil != nil {
		row.Lease = v.clock.Moment(*s.LeaseUntil)
	}
	if s.AckedAt != nil {
		row.Acked = v.clock.Moment(*s.AckedAt)
	}
	return row
}
