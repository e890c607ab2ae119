package server_test

import (
	"strings"
	"testing"

	"waybill/app/server"
)

// A mail server that cannot be meant stops the start, by the variable's name and without its password.
func TestMailServerIsChecked(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"": "", "smtp://user:hunter2@mail.example:2525?from=hooks@freight.example": "", "smtps://mail.example": "",
		"http://user:hunter2@mail.example": "WAYBILL_SMTP_URL: must be smtp://", "smtp://user:hunter2@mail.example?from=nobody": "WAYBILL_SMTP_URL: has a from",
	} {
		_, err := server.FromEnv(func(name string) string {
			return map[string]string{"WAYBILL_ALLOW_HTTP": "true", "WAYBILL_SMTP_URL": url}[name]
		}, nil)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%q: %v, want %q", url, err, want)
		}
	}
}
