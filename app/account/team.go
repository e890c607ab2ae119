package account

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/fault"
	"waybill/app/id"
	"waybill/app/plain"
	"waybill/db"
	"waybill/db/queries"
)

// Member is a person in a tenant.
type Member struct {
	ID, Email, Name string
	Role            Role
	Verified        bool
	JoinedAt        time.Time
	SeenAt          *time.Time // within a minute, while they have a session; nil: never
}

// Topic is something about a tenant's endpoints that a member may be mailed about.
type Topic string

// The topics, as the constraint memberships_notices_known has them.
const (
	TopicFailing     Topic = "failing"     // an endpoint has begun to fail, or is about to be disabled
	TopicDisabled    Topic = "disabled"    // an endpoint was disabled by us
	TopicRecovered   Topic = "recovered"   // an endpoint that failed takes deliveries again
	TopicUndelivered Topic = "undelivered" // deliveries have come to the end of their schedule
)

// Topics lists the topics, as a page shows them. Owners and developers are told of all unless they choose, viewers of none.
func Topics() []Topic { return []Topic{TopicFailing, TopicDisabled, TopicRecovered, TopicUndelivered} }

var (
	memberList       = queries.SQL("MemberList")
	membershipOwners = queries.SQL("MembershipOwners")
	membershipLock   = queries.SQL("MembershipLock")
	membershipRole   = queries.SQL("MembershipRole")
	membershipDelete = queries.SQL("MembershipDelete")
	noticesRead      = queries.SQL("NoticesRead")
	noticesSave      = queries.SQL("NoticesSave")
	noticeReaders    = queries.SQL("NoticeReaders")
	tenantHold       = queries.SQL("TenantHold")
	tenantSave       = queries.SQL("TenantSave")
)

func errNoMember() error { return fault.New(fault.NotFound, "There is no such member.") }

// MemberList lists the members of the caller's tenant by address, 500 at most. It needs audit:read: the activity log names them as well.
func (s *Service) MemberList(ctx context.Context, caller Caller) ([]Member, error) {
	if err := caller.Can(AuditRead); err != nil {
		return nil, err
	}
	rows, err := s.DB.Query(ctx, memberList, caller.Tenant())
	if err != nil {
		return nil, fmt.Errorf("list members: %w", err)
	}
	members, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Member, error) {
		var m Member
		err := row.Scan(&m.ID, &m.Email, &m.Name, &m.Role, &m.Verified, &m.JoinedAt, &m.SeenAt)
		return m, err
	})
	if err != nil {
		return nil, fmt.Errorf("list members: %w", err)
	}
	return members, nil
}

// mayGive is nil when the caller can make somebody a member with role: nobody gives rights away that they lack.
func mayGive(caller Caller, role Role) error {
	if !slices.Contains(Roles(), role) {
		return fault.New(fault.Invalid, "There is no such role.").Field("role", "must be owner, developer or viewer")
	}
	if caller.Kind == System || caller.Kind == PlatformKey && caller.Can(TenantsWrite) == nil {
		return nil
	}
	if err := caller.Can(TeamWrite); err != nil {
		return err
	}
	for _, scope := range role.Scopes() {
		if !has(caller.Scopes, scope) {
			return fault.Newf(fault.Forbidden, "You cannot make anybody %s: that needs the right %s, which you do not have.", role, scope)
		}
	}
	return nil
}

func errLastOwner() error {
	return fault.New(fault.Conflict, "This is the only owner. Make somebody else an owner first.")
}

// lockMember locks a membership, and before it those of all owners, so that of two owners who remove each other one stays.
func lockMember(ctx context.Context, tx pgx.Tx, tenantID, memberID string) (role Role, email string, last bool, err error) {
	rows, err := tx.Query(ctx, membershipOwners, tenantID)
	if err != nil {
		return "", "", false, fmt.Errorf("lock owners: %w", err)
	}
	owners, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return "", "", false, fmt.Errorf("lock owners: %w", err)
	}
	err = tx.QueryRow(ctx, membershipLock, tenantID, memberID).Scan(&role, &email)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", "", false, errNoMember()
	}
	if err != nil {
		return "", "", false, fmt.Errorf("lock membership: %w", err)
	}
	return role, email, role == Owner && len(owners) == 1, nil
}

// MemberRole makes a member of the caller's tenant something else there. It needs team:write; the last owner stays one.
func (s *Service) MemberRole(ctx context.Context, caller Caller, memberID string, role Role) error {
	if err := caller.Can(TeamWrite); err != nil {
		return err
	}
	if !id.Valid(id.Member, memberID) {
		return errNoMember()
	}
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		before, email, last, err := lockMember(ctx, tx, caller.Tenant(), memberID)
		if err != nil {
			return err
		}
		if err := mayGive(caller, role); err != nil {
			return err
		}
		if before == role {
			return nil
		}
		if last {
			return errLastOwner()
		}
		if _, err := tx.Exec(ctx, membershipRole, caller.Tenant(), memberID, role); err != nil {
			return fmt.Errorf("change a role: %w", err)
		}
		return s.Record(ctx, tx, caller, "member.role_changed", memberID, map[string]any{"email": email, "role": []any{before, role}})
	})
}

// MemberRead is one member of the caller's tenant. It needs team:write.
func (s *Service) MemberRead(ctx context.Context, caller Caller, memberID string) (Member, error) {
	if err := caller.Can(TeamWrite); err != nil {
		return Member{}, err
	}
	members, err := s.MemberList(ctx, caller)
	if err != nil {
		return Member{}, err
	}
	for _, m := range members {
		if m.ID == memberID {
			return m, nil
		}
	}
	return Member{}, errNoMember()
}

// MemberRemove takes a member out of the caller's tenant; their sessions there end at once. It needs team:write; the last owner stays.
func (s *Service) MemberRemove(ctx context.Context, caller Caller, memberID string) error {
	if err := caller.Can(TeamWrite); err != nil {
		return err
	}
	if !id.Valid(id.Member, memberID) {
		return errNoMember()
	}
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		role, email, last, err := lockMember(ctx, tx, caller.Tenant(), memberID)
		if err != nil {
			return err
		}
		if last {
			return errLastOwner()
		}
		if _, err := tx.Exec(ctx, membershipDelete, caller.Tenant(), memberID); err != nil {
			return fmt.Errorf("remove a member: %w", err)
		}
		return s.Record(ctx, tx, caller, "member.removed", memberID, map[string]any{"email": email, "role": role})
	})
}

// Notices are the topics that the signed-in member is mailed about in this tenant.
func (s *Service) Notices(ctx context.Context, caller Caller) ([]Topic, error) {
	if err := caller.member(); err != nil {
		return nil, err
	}
	var role Role
	var topics []Topic
	err := s.DB.QueryRow(ctx, noticesRead, caller.Tenant(), caller.MemberID).Scan(&role, &topics)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, errNoMember()
	}
	if err != nil {
		return nil, fmt.Errorf("read notices: %w", err)
	}
	if topics == nil && role != Viewer {
		topics = Topics()
	}
	return topics, nil
}

// NoticesSave chooses what the signed-in member is mailed about in this tenant; an empty list is nothing.
func (s *Service) NoticesSave(ctx context.Context, caller Caller, topics []Topic) error {
	if err := caller.member(); err != nil {
		return err
	}
	chosen := []Topic{}
	for _, topic := range Topics() {
		if slices.Contains(topics, topic) {
			chosen = append(chosen, topic)
		}
	}
	for _, topic := range topics {
		if !slices.Contains(chosen, topic) {
			return fault.New(fault.Invalid, "There is no such notice.").Field("notices", "must be some of failing, disabled, recovered, undelivered")
		}
	}
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, noticesSave, caller.Tenant(), caller.MemberID, chosen); err != nil {
			return fmt.Errorf("save notices: %w", err)
		}
		return s.Record(ctx, tx, caller, "member.notices_changed", caller.MemberID, map[string]any{"notices": chosen})
	})
}

// NoticeReaders are the members of a tenant who are to be mailed about a topic: those with a confirmed address who have chosen it, or have not
// chosen and are told by default. It is for whoever writes such mails, in the transaction that has something to tell.
func (s *Service) NoticeReaders(ctx context.Context, on db.Conn, tenantID string, topic Topic) ([]Person, error) {
	rows, err := on.Query(ctx, noticeReaders, tenantID, topic, Topics())
	if err != nil {
		return nil, fmt.Errorf("find readers: %w", err)
	}
	readers, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Person, error) {
		p := Person{Verified: true}
		err := row.Scan(&p.ID, &p.Email, &p.Name)
		return p, err
	})
	if err != nil {
		return nil, fmt.Errorf("find readers: %w", err)
	}
	return readers, nil
}

// SettingsInput is what a tenant's own people decide about it.
type SettingsInput struct {
	Name     string
	TimeZone string // IANA name
}

// SettingsSave changes the caller's tenant. It needs settings:write.
func (s *Service) SettingsSave(ctx context.Context, caller Caller, in SettingsInput) error {
	if err := caller.Can(SettingsWrite); err != nil {
		return err
	}
	wrong := fault.New(fault.Invalid, "These settings cannot be saved.")
	if why := plain.Line(in.Name, 1, 200); why != "" {
		wrong.Field("name", why)
	}
	if !ValidTimeZone(in.TimeZone) {
		wrong.Field("time_zone", `must be an IANA time zone such as "Asia/Kolkata"`)
	}
	if err := wrong.OrNil(); err != nil {
		return err
	}
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		before, err := s.hold(ctx, tx, caller.Tenant())
		if err != nil {
			return err
		}
		after := before
		after.Name, after.TimeZone = in.Name, in.TimeZone
		detail := tenantChanges(before, after)
		if len(detail) == 0 {
			return nil
		}
		if _, err := tx.Exec(ctx, tenantSave, caller.Tenant(), in.Name, in.TimeZone); err != nil {
			return fmt.Errorf("save tenant: %w", err)
		}
		return s.Record(ctx, tx, caller, "tenant.changed", caller.Tenant(), detail)
	})
}
