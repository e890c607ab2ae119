package page

import (
	"time"

	"waybill/web/ui"
)

func fixtureSignIns() []SignInRow {
	in, refused, open := ui.Stamp{Tone: ui.Good, Word: "Signed in"}, ui.Stamp{Tone: ui.Bad, Word: "Refused"}, ui.Stamp{Tone: ui.Wait, Word: "Not finished"}
	return []SignInRow{
		{At: before(3 * time.Hour), Stamp: in, How: "Password and code", Browser: "Firefox on Linux", From: "198.51.100.24"},
		{At: before(20 * time.Hour), Stamp: open, How: "Password; no code followed", Browser: "Chrome on Windows", From: "203.0.113.77"},
		{At: before(21 * time.Hour), Stamp: refused, How: "Wrong password", Browser: "Chrome on Windows", From: "203.0.113.77"},
		{At: before(50 * time.Hour), Stamp: in, How: "Password and recovery code", Browser: "Safari on iPhone", From: "2001:db8::17"},
		{At: before(40 * 24 * time.Hour), Stamp: in, How: "Invitation", Browser: "Firefox on Linux", From: "198.51.100.24"},
	}
}

func fixtureLinkSignIns() []SignInRow {
	return []SignInRow{{At: before(time.Hour), Stamp: ui.Stamp{Tone: ui.Good, Word: "Signed in"}, How: "Link of the platform", Who: "Meera at the warehouse", Browser: "Chrome on Android", From: "198.51.100.24"}}
}

func twoFactorFixtures() []Fixture {
	const email = "meera@silkhouse.example"
	setup := &TwoFactorSetup{
		Secret: "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP",
		URI:    "otpauth://totp/Waybill:meera@silkhouse.example?secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP&issuer=Waybill&algorithm=SHA1&digits=6&period=30",
	}
	required := []string{"Meera Silk House"}
	codes := []string{"4f8a-93kd-2m7q-x1yz", "0gh5-q8wn-7t2e-m3cv", "zz1k-4d9p-5r6s-8a0b", "j7xh-2c4v-9n1m-0q5t", "w3e6-r8y1-k5g2-d4f7",
		"p9s0-b6n3-v1c8-x2z4", "h5j7-m0q2-t4w6-e8r1", "y3k5-g7d9-f1a3-s6b8", "n0v2-c4x6-z8h1-j3m5", "q7t9-w2e4-r6y8-k1g3"}
	on := TwoFactor{Email: email, On: true, Since: before(9 * 24 * time.Hour), CodesLeft: 8}
	fresh, few := on, on
	fresh.Codes, fresh.Since, fresh.CodesLeft = codes, before(0), 10
	few.CodesLeft, few.RequiredBy = 1, required
	wrong := TwoFactor{Email: email, Setup: setup, Problems: Problems{"code": "It is not the code of this moment: wait for the next one, and see that the clock of your device is right."}}
	off := TurnTwoFactorOff(required)
	off.Problems = Problems{"password": "It is not your password."}
	states := framed("two-factor", []Fixture{
		{State: "off", Page: TwoFactor{Email: email, RequiredBy: required}},
		{State: "wrong-password", Page: TwoFactor{Email: email, Problems: Problems{"password": "It is not your password."}}},
		{State: "set-up", Page: TwoFactor{Email: email, Setup: setup}},
		{State: "wrong-code", Page: wrong},
		{State: "codes", Page: fresh},
		{State: "on", Page: on},
		{State: "few-codes", Page: few},
		{State: "led", Page: TwoFactor{Email: email, RequiredBy: required, Led: true}},
		{State: "led-set-up", Page: TwoFactor{Email: email, RequiredBy: required, Led: true, Setup: setup}},
		{State: "turn-off", Page: off},
		{State: "new-codes", Page: NewRecoveryCodes(8)},
		{State: "reset", Page: ResetTwoFactor(fixtureID("mem", 2), "ravi@silkhouse.example")},
	})
	return append(states,
		Fixture{Name: "sign-in-code", State: "empty", Page: SignInCode{Email: email, Next: "/deliveries"}},
		Fixture{Name: "sign-in-code", State: "wrong", Page: SignInCode{Email: email, Problems: Problems{"code": "It is not the code of this moment, or was used already."}}},
		Fixture{Name: "sign-in-code", State: "too-often", Page: SignInCode{Email: email, Problems: Problems{"": "Too many attempts. Try again in 4 minutes, at 09:45 UTC."}}},
		Fixture{Name: "sign-in-code", State: "recovery", Page: SignInCode{Email: email, Recovery: true}},
	)
}

func signInsFixtures() []Fixture {
	rows := fixtureSignIns()
	return framed("sign-ins", []Fixture{
		{State: "full", Page: SignIns{Rows: rows, Member: true, Refused: 2, Shown: "5 sign-ins"}},
		{State: "older", Page: SignIns{Rows: rows, Member: true, Refused: 1000, Shown: "5 sign-ins on this page", First: "/settings/sign-ins", Next: "/settings/sign-ins?cursor=x"}},
		{State: "by-links", Page: SignIns{Rows: fixtureLinkSignIns(), Shown: "1 sign-in"}},
		{State: "none", Page: SignIns{}},
	})
}

func mailSampleFixtures() []Fixture {
	return []Fixture{
		{Name: "mail-samples", State: "list", Page: MailSamples{Kinds: []MailRow{{ID: "invitation", Subject: "Meera Iyer invites you to Meera Silk House"}, {ID: "reset", Subject: "Set a new password"}}}},
		{Name: "mail-samples", State: "one", Page: MailSample{Kind: "reset", Subject: "Set a new password", Text: "Set a new password\n\nSomebody, most likely you, asked to set a new password for this address.\n"}},
	}
}
