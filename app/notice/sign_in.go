package notice

import (
	"strconv"
	"time"

	"waybill/app/plain"
	"waybill/web/path"
)

// The kinds of mails about how a person signs in.
const (
	KindSecondFactorOn    = "second-factor-on"
	KindSecondFactorOff   = "second-factor-off"
	KindSecondFactorReset = "second-factor-reset"
	KindRecoveryCodes     = "recovery-codes"
	KindRecoveryCodeUsed  = "recovery-code-used"
	KindNewBrowser        = "new-browser"
)

// whence is when and from where something was done.
func whence(at time.Time, address string) []Fact {
	facts := []Fact{{"When", instant(at)}}
	if address != "" {
		facts = append(facts, Fact{"From", plain.Clip(address, 64)})
	}
	return facts
}

const notMe = "It was not me: set a new password"

// SecondFactorOn tells that a code is asked for from now on.
func SecondFactorOn(at time.Time, address string) Notice {
	return Notice{
		Subject:   "Two-factor sign-in is on",
		Preheader: "From now on you sign in with your password and a code.",
		Paragraphs: []string{
			"From now on, signing in takes your password and a code of your device.",
			"Keep the recovery codes where you find them without that device. Each of them signs you in once in place of a code.",
		},
		Facts:  whence(at, address),
		Button: Button{notMe, path.PasswordForgot()},
		Footer: []string{"You get this mail whenever something about your two-factor sign-in changes."},
	}
}

// SecondFactorOff tells that the password alone signs in.
func SecondFactorOff(at time.Time, address string) Notice {
	return Notice{
		Subject:    "Two-factor sign-in is off",
		Preheader:  "From now on your password alone signs you in.",
		Paragraphs: []string{"From now on your password alone signs you in. The recovery codes work no more."},
		Facts:      whence(at, address),
		Button:     Button{notMe, path.PasswordForgot()},
		Footer:     []string{"You get this mail whenever something about your two-factor sign-in changes."},
	}
}

// SecondFactorReset tells that somebody else has turned it off, at the wish of who has lost device and recovery codes.
func SecondFactorReset(at time.Time, by string) Notice {
	if by == "" {
		by = "Your platform"
	}
	return Notice{
		Subject:   "Your two-factor sign-in was reset",
		Preheader: "Your password alone signs you in until you set it up again.",
		Paragraphs: []string{
			words(by) + " has reset your two-factor sign-in: your password alone signs you in until you set it up again, and the recovery codes work no more.",
			"If you did not ask for this, set it up again now, and tell the owners of your account.",
		},
		Facts:  []Fact{{"When", instant(at)}, {"By", words(by)}},
		Button: Button{"Set it up again", path.TwoFactor()},
		Footer: []string{"You get this mail whenever something about your two-factor sign-in changes."},
	}
}

// RecoveryCodes tells that there are new ones.
func RecoveryCodes(at time.Time, address string) Notice {
	return Notice{
		Subject:    "Your recovery codes were made anew",
		Preheader:  "The old ones work no more.",
		Paragraphs: []string{"You have ten new recovery codes. They were shown once; the old ones work no more."},
		Facts:      whence(at, address),
		Button:     Button{notMe, path.PasswordForgot()},
		Footer:     []string{"You get this mail whenever something about your two-factor sign-in changes."},
	}
}

// RecoveryCodeUsed tells that somebody came in with one, and how many are left.
func RecoveryCodeUsed(at time.Time, address string, left int) Notice {
	then := "You have " + strconv.Itoa(left) + " left. If your device is gone for good, turn two-factor sign-in off and set it up on another."
	switch left {
	case 0:
		then = "It was the last one. Make new ones now, or you are locked out when your device is gone."
	case 1:
		then = "You have one left. Make new ones soon."
	}
	return Notice{
		Subject:    "A recovery code was used to sign in",
		Preheader:  "If it was not you, set a new password now.",
		Paragraphs: []string{"Somebody, most likely you, signed in with your password and a recovery code. That code works no more.", then},
		Facts:      whence(at, address),
		Button:     Button{"Look after your recovery codes", path.TwoFactor()},
		Footer:     []string{"If it was not you, set a new password at once: the page where you sign in offers it. You get this mail for each recovery code that is used."},
	}
}

// NewBrowser tells that somebody signed in with a browser that was not seen before.
func NewBrowser(at time.Time, browser, address string) Notice {
	facts := append([]Fact{{"With", plain.Clip(browser, 100)}}, whence(at, address)...)
	return Notice{
		Subject:    "You signed in with a new browser",
		Preheader:  plain.Clip(browser, 100) + ". If it was you, there is nothing to do.",
		Paragraphs: []string{"Somebody signed in to your account with a browser that we had not seen with you before. If it was you, there is nothing to do."},
		Facts:      facts,
		Button:     Button{"See where you are signed in", path.SignIns()},
		Footer:     []string{"If it was not you, set a new password: that ends all sessions. Your settings say whether you get this mail."},
	}
}
