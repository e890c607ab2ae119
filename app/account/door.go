package account

import (
	"context"

	"waybill/app/seal"
)

// What the sign-in of the platform's own people shares with that of members: the same hashes, the same rules for passwords and tokens, and
// the same patience with who guesses.

// operatorTries slows guessing at an operator's password down as it does at a member's.
var operatorTries = throttle{"operator account", accountTries.tries, accountTries.first, accountTries.most, accountTries.window}

// Knock counts a try to sign in as an operator, before the password is looked at: against the account, whether there is one or not, and against the
// client's address. One too many is a RateLimited fault that says when to come back.
func (s *Service) Knock(ctx context.Context, email string, client Client) error {
	if err := s.take(ctx, s.DB, addressTries, addressName(client)); err != nil {
		return err
	}
	return s.take(ctx, s.DB, operatorTries, accountName(email))
}

// Welcome forgives whoever was right.
func (s *Service) Welcome(ctx context.Context, email string, client Client) error {
	if err := s.clear(ctx, s.DB, operatorTries, accountName(email)); err != nil {
		return err
	}
	return s.forgive(ctx, s.DB, addressTries, addressName(client))
}

// Address is a mail address as it is stored; why says what is wrong with it, in words that follow the name of a field.
func Address(text string) (email, why string) { return address(text) }

// PasswordHash is a password's argon2id hash in PHC form.
func PasswordHash(ctx context.Context, password seal.Secret) (string, error) {
	return hashPassword(ctx, password)
}

// PasswordMatches says whether password is the one of a hash; of an empty hash none is, after as much work.
func PasswordMatches(ctx context.Context, hash string, password seal.Secret) (bool, error) {
	return matches(ctx, hash, password)
}

// PasswordWeakness says what is wrong with a password, in words that follow the name of a field; empty: nothing.
func PasswordWeakness(password seal.Secret, about ...string) string {
	return weakness(password, about...)
}

// NewToken makes a token of 200 random bits that starts with prefix, and the hash it is stored as.
func NewToken(prefix string) (token seal.Secret, hash []byte) { return newToken(prefix) }

// TokenHash is the hash under which a token that somebody brings would be stored; false when it cannot be a token.
func TokenHash(token string) ([]byte, bool) {
	if !plausible(token) {
		return nil, false
	}
	return hashOf(token), true
}
