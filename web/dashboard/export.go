package dashboard

import (
	"net/http"

	"waybill/app/account"
	"waybill/web/path"
)

// deliveriesExport is the history under the filter as CSV.
func (d *Dashboard) deliveriesExport(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	filter, err := filterOf(v, path.DeliveryFilterOf(r.URL.Query()))
	if err != nil {
		return err
	}
	out := &attachment{ResponseWriter: w, name: "deliveries-" + d.Now().UTC().Format("2006-01-02-1504") + ".csv", kind: "text/csv; charset=utf-8"}
	_, err = d.Deliveries.Export(r.Context(), caller, filter, out)
	if err != nil && out.begun {
		// The answer is half written: an honest end is one that the browser notices.
		recordOf(r).Err = err
		panic(http.ErrAbortHandler)
	}
	return err
}

// attachment says that it is one with its first byte: until then an error can be a page.
type attachment struct {
	http.ResponseWriter
	name, kind string
	begun      bool
}

func (a *attachment) Write(p []byte) (int, error) {
	if !a.begun {
		a.begun = true
		header := a.Header()
		header.Set("Content-Type", a.kind)
		header.Set("Content-Disposition", `attachment; filename="`+a.name+`"`)
		a.WriteHeader(http.StatusOK)
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *attachment) Unwrap() http.ResponseWriter { return a.ResponseWriter }
