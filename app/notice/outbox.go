package notice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/fault"
	"waybill/app/id"
	"waybill/app/plain"
	"waybill/app/seal"
	"waybill/db"
	"waybill/db/queries"
)

// Outbox holds the mails. All fields but Wake are required.
type Outbox struct {
	DB   db.Pool
	Ring *seal.Ring
	URL  string           // our public address, without a slash at the end: where links lead
	Now  func() time.Time // the time inside new ids; what is due is judged by the database's clock
	// Wake tells the job that sends, in the transaction that stores; nil: nobody sends here.
	Wake func(ctx context.Context, tx pgx.Tx) error
}

// Letter is a mail to be stored.
type Letter struct {
	Kind     string        // lower case with dashes: "invitation"
	Key      string        // what it tells of; of two letters with the same key the first is kept
	TenantID string        // empty: about the person
	To       string        // one mail address
	Life     time.Duration // how long it is worth sending; 0: a week
	Notice   Notice
}

const usualLife = 7 * 24 * time.Hour

var (
	mailInsert = queries.SQL("MailInsert")
	mailList   = queries.SQL("MailList")
	mailRead   = queries.SQL("MailRead")
	mailExpire = queries.SQL("MailExpire")
)

// body is what is sealed of a mail.
type body struct {
	Text string `json:"text"`
	HTML string `json:"html"`
}

func sealedFor(mailID string) []byte { return []byte("mails/" + mailID) }

// Put stores a letter in tx; it is sent after the commit.
func (o *Outbox) Put(ctx context.Context, tx pgx.Tx, letter Letter) error {
	letter.Notice.Subject = plain.Clip(letter.Notice.Subject, 300)
	made, err := Render(letter.Notice, o.URL)
	if err != nil {
		return err
	}
	content, err := json.Marshal(body{Text: made.Text, HTML: made.HTML})
	if err != nil {
		return fmt.Errorf("write a mail: %w", err)
	}
	if letter.Life == 0 {
		letter.Life = usualLife
	}
	mailID := id.New(id.Mail, o.Now())
	tag, err := tx.Exec(ctx, mailInsert, mailID, letter.Key, letter.Kind, letter.TenantID, letter.To, made.Subject, o.Ring.Seal(content, sealedFor(mailID)), letter.Life)
	if err != nil {
		return fmt.Errorf("store a mail: %w", err)
	}
	if tag.RowsAffected() == 0 || o.Wake == nil {
		return nil
	}
	return o.Wake(ctx, tx)
}

// Mail is a stored mail.
type Mail struct {
	ID, Kind, TenantID, To, Subject string
	CreatedAt                       time.Time
	SentAt                          *time.Time // nil: not yet, or never
	Dropped                         bool       // it is not tried any more
	Problem                         string     // why it was not sent at the last try
	Text, HTML                      string     // not in lists
}

// List is the newest 200 mails of all tenants, without their bodies. It asks for no right: only a development machine shows it.
func (o *Outbox) List(ctx context.Context) ([]Mail, error) {
	ctx = db.BeyondTenants(ctx)
	rows, err := o.DB.Query(ctx, mailList)
	if err != nil {
		return nil, fmt.Errorf("list mails: %w", err)
	}
	mails, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Mail, error) {
		var m Mail
		err := row.Scan(&m.ID, &m.Kind, &m.TenantID, &m.To, &m.Subject, &m.CreatedAt, &m.SentAt, &m.Dropped, &m.Problem)
		return m, err
	})
	if err != nil {
		return nil, fmt.Errorf("list mails: %w", err)
	}
	return mails, nil
}

// Read is one mail with its body. It asks for no right, like List.
func (o *Outbox) Read(ctx context.Context, mailID string) (Mail, error) {
	ctx = db.BeyondTenants(ctx)
	missing := fault.New(fault.NotFound, "There is no such mail.")
	if !id.Valid(id.Mail, mailID) {
		return Mail{}, missing
	}
	var m Mail
	var sealed []byte
	err := o.DB.QueryRow(ctx, mailRead, mailID).Scan(&m.ID, &m.Kind, &m.TenantID, &m.To, &m.Subject, &m.CreatedAt, &m.SentAt, &m.Dropped, &m.Problem, &sealed)
	if errors.Is(err, pgx.ErrNoRows) {
		return Mail{}, missing
	}
	if err != nil {
		return Mail{}, fmt.Errorf("read a mail: %w", err)
	}
	return m, o.open(&m, sealed)
}

// open puts the unsealed body into m.
func (o *Outbox) open(m *Mail, sealed []byte) error {
	content, err := o.Ring.Open(sealed, sealedFor(m.ID))
	if err != nil {
		return fmt.Errorf("open mail %s: %w", m.ID, err)
	}
	var b body
	if err := json.Unmarshal(content, &b); err != nil {
		return fmt.Errorf("open mail %s: %w", m.ID, err)
	}
	m.Text, m.HTML = b.Text, b.HTML
	return nil
}

// Prune removes mails of more than 30 days ago and says how many.
func (o *Outbox) Prune(ctx context.Context) (int, error) {
	for removed := 0; ; {
		tag, err := o.DB.Exec(ctx, mailExpire)
		if err != nil {
			return removed, fmt.Errorf("prune mails: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return removed, nil
		}
		removed += int(tag.RowsAffected())
	}
}
