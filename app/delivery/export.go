package delivery

import (
	"context"
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"waybill/app/account"
)

// MaxExport is how many deliveries an export that is read while it is downloaded holds. A file that a job makes holds more: see FileStart.
const MaxExport = MaxCount

// exportPage is how many are read at once: nothing is held open in the database while a slow reader takes them.
const exportPage = 1000

var exportHead = []string{"created_at", "id", "event_id", "type", "resource_type", "resource_id", "endpoint_id", "endpoint", "status", "outcome",
	"reason", "attempts", "last_at", "last_class", "last_code", "last_ms", "next_at", "test"}

// Export writes the deliveries of the caller's tenant that match the filter as CSV (RFC 4180, with a head), newest first, up to MaxExport of them;
// more says that there are more. Times are RFC 3339 in UTC. A cell that a spreadsheet would take for a formula begins with an apostrophe. It needs
// deliveries:read. As long as nothing is written, an error is as good as List's; afterwards what was written ends early.
func (s *Service) Export(ctx context.Context, caller account.Caller, f Filter, w io.Writer) (more bool, err error) {
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return false, err
	}
	if err := f.check(); err != nil {
		return false, err
	}
	tenant := caller.Tenant()
	only, f, err := s.resolve(ctx, tenant, f)
	if err != nil {
		return false, err
	}
	var found []Delivery
	var src source
	var next *place
	if only != nil {
		page, err := s.one(ctx, tenant, f, *only)
		if err != nil {
			return false, err
		}
		found = page.Deliveries
	} else {
		if src, err = s.choose(ctx, tenant, f); err != nil {
			return false, err
		}
		if found, next, err = s.find(ctx, src, tenant, f.start(), exportPage); err != nil {
			return false, err
		}
	}
	out := csv.NewWriter(w)
	if err := out.Write(exportHead); err != nil {
		return false, err
	}
	for written := 0; ; {
		for _, d := range found {
			if err := out.Write(exportRow(d)); err != nil {
				return false, err
			}
		}
		out.Flush()
		if err := out.Error(); err != nil {
			return false, err
		}
		written += len(found)
		if next == nil || written >= MaxExport {
			return next != nil, nil
		}
		if found, next, err = s.find(ctx, src, tenant, *next, min(exportPage, MaxExport-written)); err != nil {
			return false, err
		}
	}
}

func exportRow(d Delivery) []string {
	row := []string{instant(&d.CreatedAt), d.ID, d.EventID, d.Type, d.ResourceType, d.ResourceID, d.EndpointID, d.EndpointHost, string(d.Status),
		d.Outcome(), d.Reason, strconv.Itoa(d.Attempts), instant(d.LastAt), d.LastClass, "", "", instant(d.NextAt), strconv.FormatBool(d.Test)}
	if d.LastCode != 0 {
		row[14] = strconv.Itoa(d.LastCode)
	}
	if d.LastAt != nil {
		row[15] = strconv.FormatInt(d.Last.Milliseconds(), 10)
	}
	for i, cell := range row {
		row[i] = harmless(cell)
	}
	return row
}

func instant(at *time.Time) string {
	if at == nil {
		return ""
	}
	return at.UTC().Format("2006-01-02T15:04:05.000Z")
}

// harmless keeps a spreadsheet from calculating with a cell (OWASP, "CSV Injection"): also behind spaces, and in the wide forms that some
// take for the same.
func harmless(cell string) string {
	if trimmed := strings.TrimLeft(cell, " \u00a0"); trimmed != "" && strings.ContainsAny(string([]rune(trimmed)[:1]), "=+-@\t\r\n|%＝＋－＠") {
		return "'" + cell
	}
	return cell
}
