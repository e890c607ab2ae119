package delivery

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/db"
	"waybill/db/queries"
)

var (
	sqlExportInsert    = queries.SQL("ExportInsert")
	sqlExportMakeRoom  = queries.SQL("ExportMakeRoom")
	sqlExportRead      = queries.SQL("ExportRead")
	sqlExportCancel    = queries.SQL("ExportCancel")
	sqlExportForget    = queries.SQL("ExportChunksDelete")
	sqlExportLook      = queries.SQL("ExportLook")
	sqlExportStep      = queries.SQL("ExportStep")
	sqlExportChunk     = queries.SQL("ExportChunkInsert")
	sqlExportChunkRead = queries.SQL("ExportChunkRead")
	sqlExportSweep     = queries.SQL("ExportSweep")
	sqlExportPrune     = queries.SQL("ExportPrune")
	sqlAttemptsOf      = queries.SQL("AttemptsOf")
)

// The limits of a file that a job makes.
const (
	MaxFileRows  = 1_000_000
	MaxFileBytes = 256 << 20
	FileLife     = 24 * time.Hour // from its making
	keptFiles    = 5              // of a tenant, the newest
)

// exportDeliveries is how many deliveries a step of an export of attempts reads: each may have many.
const exportDeliveries = 200

// FileKind is what the lines of a file are.
type FileKind string

// The kinds.
const (
	FileOfDeliveries FileKind = "deliveries"
	FileOfAttempts   FileKind = "attempts" // of the deliveries that match, with headers, without bodies
)

// FileState is what a file is.
type FileState string

// The states.
const (
	FileRunning   FileState = "running"
	FileDone      FileState = "done"
	FileCancelled FileState = "cancelled"
)

// File is a CSV file that a job makes, or made.
type File struct {
	ID         string // exp_…
	Kind       FileKind
	Revealed   bool // static headers are in it: it is for those who may reveal them
	State      FileState
	Expected   int64 // deliveries that match; -1: more than can be counted
	Rows       int64 // written so far
	Bytes      int64
	Cut        bool       // it ended at a limit
	Reached    *time.Time // the day that it has come to, the newest first; nil: it has not begun
	CreatedBy  string
	CreatedAt  time.Time
	FinishedAt *time.Time
	chunks     int
}

// Until is when the file is removed; zero while it is made.
func (f File) Until() time.Time {
	if f.FinishedAt == nil {
		return time.Time{}
	}
	return f.FinishedAt.Add(FileLife)
}

// FileTicket is what a job needs to work on a file.
type FileTicket struct {
	ID, TenantID string
	Gen          int64
}

// FileQueue inserts the job of a file inside a transaction.
type FileQueue interface {
	InsertExport(ctx context.Context, tx pgx.Tx, ticket FileTicket) error
}

func errNoFile() error { return fault.New(fault.NotFound, "There is no such export.") }

// FileStart begins a file of what matches the filter now, as a job. Lines are as each delivery is when it is read. Static headers are in a file of
// attempts for whoever may reveal them, and hidden for others. It needs deliveries:read and is recorded. It is a Conflict while another is made in the tenant.
func (s *Service) FileStart(ctx context.Context, caller account.Caller, kind FileKind, f Filter) (File, error) {
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return File{}, err
	}
	if kind != FileOfDeliveries && kind != FileOfAttempts {
		return File{}, fault.New(fault.Invalid, "This cannot be exported.").Field("kind", "must be deliveries or attempts")
	}
	count, err := s.Count(ctx, caller, f)
	if err != nil {
		return File{}, err
	}
	var expected *int
	if !count.More {
		expected = &count.N
	}
	now := time.Now()
	if f.Until.IsZero() {
		f.Until = now.Add(time.Minute) // a dispatcher's clock may be ahead of ours
	}
	filter, err := json.Marshal(f)
	if err != nil {
		return File{}, fmt.Errorf("store a filter: %w", err)
	}
	t := FileTicket{ID: id.New(id.Export, now), TenantID: caller.Tenant(), Gen: 1}
	revealed := kind == FileOfAttempts && caller.Can(account.SecretsReveal) == nil
	err = db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlExportMakeRoom, pgx.NamedArgs{"tenant": t.TenantID, "keep": keptFiles - 1}); err != nil {
			return fmt.Errorf("make room for an export: %w", err)
		}
		_, err := tx.Exec(ctx, sqlExportInsert, pgx.NamedArgs{"id": t.ID, "tenant": t.TenantID, "kind": kind, "filter": string(filter), "revealed": revealed,
			"expected": expected, "by": caller.Actor()})
		if err != nil {
			return fmt.Errorf("insert export: %w", err)
		}
		if err := s.Files.InsertExport(ctx, tx, t); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, caller, "export.started", t.ID, map[string]any{"kind": string(kind), "headers_revealed": revealed})
	})
	if db.Constraint(err) == "exports_one_at_a_time" {
		return File{}, fault.New(fault.Conflict, "Another export is being made. Wait until it is done, or cancel it first.")
	}
	if err != nil {
		return File{}, err
	}
	return s.file(ctx, t.TenantID, t.ID)
}

// FileList is the files of the caller's tenant, newest first; there are a handful. It needs deliveries:read.
func (s *Service) FileList(ctx context.Context, caller account.Caller) ([]File, error) {
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return nil, err
	}
	return s.files(ctx, caller.Tenant(), "")
}

// FileRead is one file of the caller's tenant. It needs deliveries:read.
func (s *Service) FileRead(ctx context.Context, caller account.Caller, fileID string) (File, error) {
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return File{}, err
	}
	return s.file(ctx, caller.Tenant(), fileID)
}

func (s *Service) file(ctx context.Context, tenant, fileID string) (File, error) {
	if !id.Valid(id.Export, fileID) {
		return File{}, errNoFile()
	}
	found, err := s.files(ctx, tenant, fileID)
	if err == nil && len(found) == 0 {
		err = errNoFile()
	}
	if err != nil {
		return File{}, err
	}
	return found[0], nil
}

func (s *Service) files(ctx context.Context, tenant, fileID string) ([]File, error) {
	rows, err := s.DB.Query(ctx, sqlExportRead, pgx.NamedArgs{"tenant": tenant, "id": fileID})
	if err != nil {
		return nil, fmt.Errorf("read exports: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (File, error) {
		var f File
		err := row.Scan(&f.ID, &f.Kind, &f.Revealed, &f.State, &f.Expected, &f.Rows, &f.Bytes, &f.chunks, &f.Cut, &f.Reached, &f.CreatedBy, &f.CreatedAt, &f.FinishedAt)
		return f, err
	})
	if err != nil {
		return nil, fmt.Errorf("read exports: %w", err)
	}
	return found, nil
}

// FileCancel ends a file of the caller's tenant before its time, and removes what there is of it. It needs deliveries:read and is recorded. One that has ended is a Conflict.
func (s *Service) FileCancel(ctx context.Context, caller account.Caller, fileID string) error {
	found, err := s.FileRead(ctx, caller, fileID)
	if err != nil {
		return err
	}
	args := pgx.NamedArgs{"tenant": caller.Tenant(), "id": found.ID}
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		var cancelled string
		err := tx.QueryRow(ctx, sqlExportCancel, args).Scan(&cancelled)
		if errors.Is(err, pgx.ErrNoRows) {
			return fault.New(fault.Conflict, "This export has ended already.")
		}
		if err != nil {
			return fmt.Errorf("cancel export: %w", err)
		}
		if _, err := tx.Exec(ctx, sqlExportForget, args); err != nil {
			return fmt.Errorf("cancel export: %w", err)
		}
		return s.Audit.Record(ctx, tx, caller, "export.cancelled", fileID, nil)
	})
}

// Openable says whether the caller may have the file now, as a fault if not: it is done, and nothing in it is hidden from them. It needs deliveries:read.
func (s *Service) Openable(ctx context.Context, caller account.Caller, fileID string) (File, error) {
	f, err := s.FileRead(ctx, caller, fileID)
	if err != nil {
		return File{}, err
	}
	if f.State != FileDone {
		return File{}, fault.New(fault.Conflict, "This export is not done.")
	}
	if f.Revealed {
		if err := caller.Can(account.SecretsReveal); err != nil {
			return File{}, fault.New(fault.Forbidden, "This export holds static headers, which your access does not include. Make one of your own: they are hidden in it.")
		}
	}
	return f, nil
}

// FileWrite writes a file that Openable has returned, piece by piece: nothing is held open in the database while a slow reader takes them.
func (s *Service) FileWrite(ctx context.Context, caller account.Caller, f File, w io.Writer) error {
	for n := range f.chunks {
		var body []byte
		err := s.DB.QueryRow(ctx, sqlExportChunkRead, pgx.NamedArgs{"tenant": caller.Tenant(), "id": f.ID, "chunk": n}).Scan(&body)
		if errors.Is(err, pgx.ErrNoRows) {
			return errNoFile() // its time has come meanwhile
		}
		if err != nil {
			return fmt.Errorf("read export: %w", err)
		}
		if _, err := w.Write(body); err != nil {
			return err
		}
	}
	return nil
}

// FileRun works on a file for as long as slice, and says whether it is finished, or another job has taken it over. All it knows is in the database: a run
// that is cut off anywhere is taken up by the next where its last step left it.
func (s *Service) FileRun(ctx context.Context, t FileTicket, slice time.Duration) (over bool, err error) {
	for begun := time.Now(); ; {
		if over, err := s.fileStep(ctx, t); err != nil || over {
			return over, err
		}
		if time.Since(begun) > slice {
			return false, nil
		}
	}
}

// draft is a file as its job finds it.
type draft struct {
	kind     FileKind
	revealed bool
	filter   Filter
	from     *place // nil: the beginning
	rows     int64
	bytes    int64
	chunk    int
}

func (s *Service) fileLook(ctx context.Context, t FileTicket) (*draft, error) {
	var d draft
	var filter []byte
	var day *time.Time
	var at place
	err := s.DB.QueryRow(ctx, sqlExportLook, pgx.NamedArgs{"tenant": t.TenantID, "id": t.ID, "gen": t.Gen}).
		Scan(&d.kind, &filter, &d.revealed, &day, &at.position, &at.id, &d.rows, &d.bytes, &d.chunk)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at export: %w", err)
	}
	if err := json.Unmarshal(filter, &d.filter); err != nil {
		return nil, fmt.Errorf("export %s: its filter: %w", t.ID, err)
	}
	if day != nil {
		at.day = *day
		d.from = &at
	}
	return &d, nil
}

// fileStep makes one chunk.
func (s *Service) fileStep(ctx context.Context, t FileTicket) (over bool, err error) {
	d, err := s.fileLook(ctx, t)
	if err != nil || d == nil {
		return d == nil, err
	}
	found, next, err := s.fileNext(ctx, t.TenantID, d)
	if err != nil {
		return false, err
	}
	var text bytes.Buffer
	rows, err := s.fileRows(ctx, t.TenantID, d, found, &text)
	if err != nil {
		return false, err
	}
	limit := d.rows+rows >= MaxFileRows || d.bytes+int64(text.Len()) >= MaxFileBytes
	done := next == nil || limit
	at := place{day: farDay, position: 0, id: beforeAll}
	if next != nil {
		at = *next
	}
	err = db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		args := pgx.NamedArgs{"tenant": t.TenantID, "id": t.ID, "gen": t.Gen, "chunk": d.chunk, "rows": rows, "bytes": text.Len(), "day": at.day, "position": at.position,
			"at": at.id, "done": done, "cut": limit && next != nil, "body": append([]byte{}, text.Bytes()...)}
		var is string
		if err := tx.QueryRow(ctx, sqlExportStep, args).Scan(&is); err != nil {
			return err // no row: it was cancelled or taken over
		}
		_, err := tx.Exec(ctx, sqlExportChunk, args)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("write export: %w", err)
	}
	return done, nil
}

// fileNext reads the next deliveries of a file, and where it goes on; nil at its end.
func (s *Service) fileNext(ctx context.Context, tenant string, d *draft) ([]Delivery, *place, error) {
	only, f, err := s.resolve(ctx, tenant, d.filter)
	if err != nil {
		return nil, nil, err
	}
	if only != nil {
		page, err := s.one(ctx, tenant, f, *only)
		return page.Deliveries, nil, err
	}
	src, err := s.choose(ctx, tenant, f)
	if err != nil {
		return nil, nil, err
	}
	from := f.start()
	if d.from != nil {
		from = *d.from
	}
	limit := int(min(int64(exportPage), MaxFileRows-d.rows))
	if d.kind == FileOfAttempts {
		limit = exportDeliveries
	}
	return s.find(ctx, src, tenant, from, limit)
}

var attemptHead = []string{"started_at", "id", "number", "delivery_id", "event_id", "type", "resource_type", "resource_id", "endpoint_id", "endpoint", "trigger",
	"requested_by", "class", "cause", "code", "connect_ms", "tls_ms", "wait_ms", "read_ms", "total_ms", "protocol", "remote", "url", "request_headers", "body_size",
	"response_headers", "response_size"}

// fileRows writes the lines of deliveries, and a head where the file begins.
func (s *Service) fileRows(ctx context.Context, tenant string, d *draft, found []Delivery, to io.Writer) (rows int64, err error) {
	out := csv.NewWriter(to)
	line := func(cells []string) {
		if err == nil {
			err = out.Write(cells)
		}
	}
	head := exportHead
	if d.kind == FileOfAttempts {
		head = attemptHead
	}
	if d.chunk == 0 {
		line(head)
	}
	if d.kind == FileOfDeliveries {
		for _, one := range found {
			line(exportRow(one))
		}
		out.Flush()
		return int64(len(found)), errors.Join(err, out.Error())
	}
	by := map[string]Delivery{}
	for _, one := range found {
		by[one.ID] = one
	}
	attempts, err := s.attemptsOf(ctx, tenant, d.revealed, found)
	if err != nil {
		return 0, err
	}
	for _, a := range attempts {
		line(attemptRow(by[a.delivery], a.Attempt))
	}
	out.Flush()
	return int64(len(attempts)), errors.Join(err, out.Error())
}

// owned is an attempt with the delivery it is of.
type owned struct {
	Attempt
	delivery string
}

func (s *Service) attemptsOf(ctx context.Context, tenant string, reveal bool, of []Delivery) ([]owned, error) {
	if len(of) == 0 {
		return nil, nil
	}
	ids, first := make([]string, len(of)), of[0].day
	for i, one := range of {
		ids[i] = one.ID
		if one.day.Before(first) {
			first = one.day
		}
	}
	rows, err := s.DB.Query(ctx, sqlAttemptsOf, pgx.NamedArgs{"tenant": tenant, "deliveries": ids, "day": first})
	if err != nil {
		return nil, fmt.Errorf("read attempts to export: %w", err)
	}
	open := opener{reveal: reveal, service: s, sets: map[string][]Header{}}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (owned, error) {
		var o owned
		var err error
		o.Attempt, err = open.attempt(behind{row, &o.delivery})
		return o, err
	})
	if err != nil {
		return nil, fmt.Errorf("read attempts to export: %w", err)
	}
	return found, nil
}

// behind is a row whose first column goes elsewhere.
type behind struct {
	pgx.CollectableRow
	first *string
}

func (b behind) Scan(into ...any) error {
	return b.CollectableRow.Scan(append([]any{b.first}, into...)...)
}

func attemptRow(d Delivery, a Attempt) []string {
	ms := func(took time.Duration) string {
		return strconv.FormatFloat(float64(took.Microseconds())/1000, 'f', -1, 64)
	}
	row := []string{instant(&a.StartedAt), a.ID, strconv.Itoa(a.Number), d.ID, d.EventID, d.Type, d.ResourceType, d.ResourceID, d.EndpointID, d.EndpointHost, a.Trigger,
		a.RequestedBy, a.Class, a.Cause, "", ms(a.Connect), ms(a.Handshake), ms(a.Wait), ms(a.Read), ms(a.Total), a.Proto, a.Remote, a.Request.URL,
		headerText(a.Request.Headers), strconv.Itoa(a.Request.BodySize), "", ""}
	if a.Code != 0 {
		row[14] = strconv.Itoa(a.Code)
	}
	if a.Response != nil {
		row[25], row[26] = headerText(a.Response.Headers), strconv.FormatInt(a.Response.Size, 10)
	}
	for i, cell := range row {
		row[i] = harmless(cell)
	}
	return row
}

// headerText is headers in a cell, a line each.
func headerText(headers []Header) string {
	var text strings.Builder
	for i, h := range headers {
		if i > 0 {
			text.WriteByte('\n')
		}
		value := h.Value
		if h.Hidden {
			value = "(hidden)"
		}
		text.WriteString(h.Name + ": " + strings.NewReplacer("\r", " ", "\n", " ").Replace(value))
	}
	return text.String()
}

// FileSweep gives a new job to each file whose own has been silent for a while, and says how many there were.
func (s *Service) FileSweep(ctx context.Context) (int, error) {
	var lost []FileTicket
	err := db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sqlExportSweep, fileLostAfter)
		if err != nil {
			return fmt.Errorf("look for lost exports: %w", err)
		}
		if lost, err = pgx.CollectRows(rows, pgx.RowToStructByPos[FileTicket]); err != nil {
			return fmt.Errorf("look for lost exports: %w", err)
		}
		for _, t := range lost {
			if err := s.Files.InsertExport(ctx, tx, t); err != nil {
				return err
			}
		}
		return nil
	})
	return len(lost), err
}

// fileLostAfter is how long a file's job may be silent before another takes over: many times what a step takes, and what a slice waits in its queue.
const fileLostAfter = time.Minute

// PruneFiles removes the files whose time is over, and says how many.
func (s *Service) PruneFiles(ctx context.Context) (int, error) {
	tag, err := s.DB.Exec(ctx, sqlExportPrune, FileLife, 100)
	if err != nil {
		return 0, fmt.Errorf("remove old exports: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
