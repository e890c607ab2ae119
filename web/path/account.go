package path

// KeyRotate asks how long an old key goes on beside a new one (GET) and makes that (POST).
func KeyRotate(id string) string { return join("keys", id, "rotate") }

// SignInCode is where a code follows the password; its POST takes it. recovery asks for a recovery code, next is where to go afterwards.
func SignInCode(recovery, next string) string {
	return with("/sign-in/code", "recovery", recovery, "next", next)
}

// SignInFor is the form that leads on to next.
func SignInFor(next string) string { return with("/sign-in", "next", next) }

// TwoFactor is the page of the member's two-factor sign-in.
func TwoFactor() string { return "/settings/two-factor" }

// TwoFactorBegin takes the POST that begins to set it up.
func TwoFactorBegin() string { return "/settings/two-factor/begin" }

// TwoFactorConfirm takes the POST with the first code.
func TwoFactorConfirm() string { return "/settings/two-factor/confirm" }

// TwoFactorCodes asks before recovery codes are made anew (GET) and makes them (POST).
func TwoFactorCodes() string { return "/settings/two-factor/codes" }

// TwoFactorOff asks before it is turned off (GET) and turns it off (POST).
func TwoFactorOff() string { return "/settings/two-factor/off" }

// TwoFactorRequire takes the POST that says whether the tenant requires it.
func TwoFactorRequire() string { return "/team/two-factor" }

// MemberTwoFactorReset asks before a member's is reset (GET) and resets it (POST).
func MemberTwoFactorReset(id string) string { return join("team", id, "two-factor") }

// SignIns is the list of the person's sign-ins.
func SignIns() string { return "/settings/sign-ins" }

// SignInsAt is that list at a cursor.
func SignInsAt(cursor string) string { return with("/settings/sign-ins", "cursor", cursor) }

// MailSamples is the development page with every kind of mail.
func MailSamples() string { return "/dev/mails/" }

// MailSample is one kind of mail with fixed data.
func MailSample(kind string) string { return join("dev", "mails", kind) }

// MailSampleHTML is its HTML form for a sandboxed frame; with plain, as a program shows it that knows no styles.
func MailSampleHTML(kind, plain string) string {
	return with(join("dev", "mails", kind, "html"), "plain", plain)
}
