package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"waybill/app/account"
	"waybill/app/delivery"
	"waybill/app/fault"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// A history of up to delivery.MaxExport deliveries is downloaded as it is read: that takes a second, and nothing is stored. More of it, and attempts,
// become a file that a job makes: no browser waits for it, and it is as large as it says.

// deliveriesExport is what can be exported under the filter, and the files that there are.
func (d *Dashboard) deliveriesExport(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	sheet := page.Export{Filter: path.DeliveryFilterOf(r.URL.Query()).At(""), Masked: !may(caller, account.SecretsReveal), Limits: exportLimits}
	asked, several, err := d.named(r.Context(), caller, sheet.Filter)
	if err != nil {
		return err
	}
	if len(several) > 0 {
		return d.redirect(w, r, path.Deliveries(sheet.Filter)) // which of them is asked there
	}
	sheet.Filter = asked
	filter, err := filterOf(v, sheet.Filter)
	var count delivery.Count
	if err == nil {
		count, err = d.Deliveries.Count(r.Context(), caller, filter)
	}
	status := http.StatusOK
	switch {
	case fault.KindOf(err) == fault.Invalid:
		v.frame.Notice, sheet.Wrong, status = invalidFilter(err), true, http.StatusUnprocessableEntity
	case err != nil:
		return err
	}
	sheet.None, sheet.Direct = count.N == 0, !count.More
	sheet.Matching = ui.Count(int64(count.N), "delivery", "deliveries")
	if count.More {
		sheet.Matching = "more than " + sheet.Matching
	}
	files, err := d.Deliveries.FileList(r.Context(), caller)
	if err != nil {
		return err
	}
	for _, f := range files {
		row := page.ExportRow{ID: f.ID, Stamp: fileStamp(f), Kind: fileWords(f), Rows: f.Rows, Size: ui.Size(f.Bytes), Made: v.clock.Moment(f.CreatedAt), By: f.CreatedBy}
		if !f.Until().IsZero() && f.State == delivery.FileDone {
			row.Until = v.clock.Moment(f.Until())
		}
		sheet.Running = sheet.Running || f.State == delivery.FileRunning
		sheet.Rows = append(sheet.Rows, row)
	}
	return d.show(w, r, v, status, sheet)
}

var exportLimits = page.ExportLimits{Rows: ui.Number(delivery.MaxFileRows), Size: strconv.Itoa(delivery.MaxFileBytes>>20) + " MB", Life: "24 hours"}

func fileStamp(f delivery.File) ui.Stamp {
	switch f.State {
	case delivery.FileRunning:
		return ui.Stamp{Tone: ui.Info, Word: "Running"}
	case delivery.FileDone:
		return ui.Stamp{Tone: ui.Good, Word: "Done"}
	}
	return ui.Stamp{Tone: ui.Mute, Word: "Cancelled"}
}

func fileWords(f delivery.File) string {
	switch {
	case f.Kind == delivery.FileOfDeliveries:
		return "Deliveries"
	case f.Revealed:
		return "Attempts, with static headers"
	}
	return "Attempts, static headers hidden"
}

// deliveriesFile is the history under the filter as CSV, read while it is downloaded.
func (d *Dashboard) deliveriesFile(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	asked := path.DeliveryFilterOf(r.URL.Query())
	filter, err := filterOf(v, asked)
	if err != nil {
		return err
	}
	count, err := d.Deliveries.Count(r.Context(), caller, filter)
	if err != nil {
		return err
	}
	if count.More {
		return d.redirect(w, r, path.DeliveriesExport(asked)) // a part of it would look like all
	}
	out := &attachment{ResponseWriter: w, name: "deliveries-" + d.Now().UTC().Format("2006-01-02-1504") + ".csv", kind: csvKind}
	_, err = d.Deliveries.Export(r.Context(), caller, filter, out)
	return d.written(r, out, err)
}

const csvKind = "text/csv; charset=utf-8"

// written ends a download. When the answer is half written, an honest end is one that the browser notices.
func (d *Dashboard) written(r *http.Request, out *attachment, err error) error {
	if err != nil && out.begun {
		recordOf(r).Err = err
		panic(http.ErrAbortHandler)
	}
	return err
}

// exportStart begins a file of what matches the filter.
func (d *Dashboard) exportStart(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	asked := path.DeliveryFilterOf(r.URL.Query()).At("")
	filter, err := filterOf(v, asked)
	var begun delivery.File
	if err == nil {
		begun, err = d.Deliveries.FileStart(r.Context(), caller, delivery.FileKind(field(r, "kind")), filter)
	}
	if fault.KindOf(err) == fault.Conflict {
		return d.done(w, r, caller, path.DeliveriesExport(asked), Note{Tone: ui.Wait, Text: faultOf(err).Detail})
	}
	if err != nil {
		return err
	}
	return d.redirect(w, r, path.Export(begun.ID))
}

// export is the progress of a file, and then the way to it.
func (d *Dashboard) export(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	f, err := d.Deliveries.FileRead(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	sheet := page.ExportFile{ID: f.ID, Kind: fileWords(f), Stamp: fileStamp(f), Running: f.State == delivery.FileRunning, Done: f.State == delivery.FileDone, Cut: f.Cut, Rows: f.Rows,
		Expected: f.Expected, Size: ui.Size(f.Bytes), Made: v.clock.Moment(f.CreatedAt), By: f.CreatedBy, Limits: exportLimits,
		Barred: f.Revealed && !may(caller, account.SecretsReveal)}
	if f.Kind == delivery.FileOfAttempts {
		sheet.Expected = -1 // those are deliveries
	}
	if f.Reached != nil && sheet.Running {
		sheet.Reached = v.clock.Day(*f.Reached)
	}
	if !f.Until().IsZero() {
		sheet.Until = v.clock.Moment(f.Until())
	}
	if sheet.Running {
		sheet.Live = withQuery(path.ExportLive(f.ID), versionName, fileVersion(f))
	}
	return d.show(w, r, v, http.StatusOK, sheet)
}

// fileVersion changes with what the page shows.
func fileVersion(f delivery.File) string { return "v" + hash(fmt.Sprint(f.State, f.Rows, f.Bytes)) }

// exportLive says when a file has got further.
func (d *Dashboard) exportLive(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	fileID := r.PathValue("id")
	if _, err := d.Deliveries.FileRead(r.Context(), caller, fileID); err != nil {
		return err
	}
	return d.stream(w, r, caller, "export "+fileID, func(ctx context.Context) ([]item, error) {
		f, err := d.Deliveries.FileRead(ctx, caller, fileID)
		if err != nil {
			return nil, err
		}
		return []item{{ID: f.ID, Version: fileVersion(f)}}, nil
	})
}

// exportCancel ends a file before its time.
func (d *Dashboard) exportCancel(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	fileID := r.PathValue("id")
	note := Note{Tone: ui.Hold, Text: "The export was cancelled. What there was of it is removed."}
	if err := d.Deliveries.FileCancel(r.Context(), caller, fileID); fault.KindOf(err) == fault.Conflict {
		note = Note{Tone: ui.Wait, Text: faultOf(err).Detail}
	} else if err != nil {
		return err
	}
	return d.done(w, r, caller, path.Export(fileID), note)
}

// pieceWithin is how long a reader may take over one piece of a file.
const pieceWithin = time.Minute

// exportFile is the file. It may take as long as its reader needs, as long as it reads.
func (d *Dashboard) exportFile(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	f, err := d.Deliveries.Openable(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	out := &attachment{ResponseWriter: w, name: string(f.Kind) + "-" + f.CreatedAt.UTC().Format("2006-01-02-1504") + ".csv", kind: csvKind, size: f.Bytes, patience: pieceWithin}
	return d.written(r, out, d.Deliveries.FileWrite(r.Context(), caller, f, out))
}

// attachment says that it is one with its first byte: until then an error can be a page.
type attachment struct {
	http.ResponseWriter
	name, kind string
	size       int64         // 0: not known
	patience   time.Duration // with each write; 0: what the request has
	begun      bool
}

func (a *attachment) Write(p []byte) (int, error) {
	if !a.begun {
		a.begun = true
		header := a.Header()
		header.Set("Content-Type", a.kind)
		header.Set("Content-Disposition", `attachment; filename="`+a.name+`"`)
		if a.size > 0 {
			header.Set("Content-Length", strconv.FormatInt(a.size, 10))
		}
		a.WriteHeader(http.StatusOK)
	}
	if a.patience > 0 {
		_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(a.patience)) // a recorder in a test has none
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *attachment) Unwrap() http.ResponseWriter { return a.ResponseWriter }
