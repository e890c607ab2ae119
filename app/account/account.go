// Package account knows who asks and what they may do: tenants, API keys, sessions, portal links, roles, and the activity log of what
// was done.
//
// It promises that an operation's caller is an argument with rights that are checked inside the operation; that a key, link or session token is
// shown once and stored as a hash; that what is revoked is refused from the next call on, in every process, because nothing is remembered
// between calls; that a portal link, like every link of a mail, works once; that a password is kept as its argon2id hash, and guessing one is
// slowed down whether or not there is such an account; that who has a second factor is in no session before
// both are right, and that each code is good once; that a tenant that has owners never loses the last one; and that whatever is recorded in the activity log is committed with the thing it tells
// of, or not at all, as are the mails that tell of it.
package account

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"strings"
	"time"

	"waybill/app/notice"
	"waybill/app/seal"
	"waybill/db"
)

// Service performs the operations on accounts. All fields are required, Mails only by what sends some.
type Service struct {
	DB  db.Pool
	Now func() time.Time // the time inside new ids; what expires is judged by the database's clock
	// KnowsPreset says whether a delivery policy of this name exists.
	KnowsPreset func(name string) bool
	Mails       *notice.Outbox
	Ring        *seal.Ring // seals what makes codes; required by what asks for some
}

// The starts of tokens, so that a leaked one can be recognised for what it is.
const (
	platformKeyPrefix = "wbp_"
	tenantKeyPrefix   = "wbt_"
	sessionPrefix     = "wbs_"
	portalPrefix      = "wbl_"
	invitationPrefix  = "wbi_"
	resetPrefix       = "wbr_"
	verifyPrefix      = "wbv_"
	halfPrefix        = "wbh_"
)

// shownPrefix is how much of a key is kept readable; 160 random bits remain unknown.
const shownPrefix = len(tenantKeyPrefix) + 8

// maxToken bounds what is hashed. Our own tokens have 44 characters; WAYBILL_PLATFORM_KEY may be longer.
const maxToken = 512

// alphabet is Crockford's base 32 in lower case: no letter is mistaken for another, and a double click selects it all.
var alphabet = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// newToken makes a token of 200 random bits and the hash it is stored as.
func newToken(prefix string) (token seal.Secret, hash []byte) {
	random := make([]byte, 25)
	rand.Read(random) // never fails
	text := prefix + alphabet.EncodeToString(random)
	return seal.Secret(text), hashOf(text)
}

// hashOf is unsalted: tokens are random, not chosen, and are looked up by it.
func hashOf(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// plausible keeps what cannot be a token away from the database.
func plausible(token string) bool {
	return token != "" && len(token) <= maxToken && !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
}
