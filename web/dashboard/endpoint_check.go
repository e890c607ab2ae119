package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"waybill/app/egress"
	"waybill/app/sender"
	"waybill/app/verdict"
	"waybill/web/page"
	"waybill/web/ui"
)

// checkWithin is how long a connection check may take: somebody waits for it.
const checkWithin = 10 * time.Second

var stepNames = map[string]string{
	sender.StepName: "Name found", sender.StepConnect: "Connected", sender.StepTLS: "TLS", sender.StepHTTP: "Answer to a request",
}

// checkConnection tries the URL on the way that events take; nil if the URL could not be saved anyway.
func (d *Dashboard) checkConnection(ctx context.Context, address string) *page.Check {
	normal, refused := egress.CheckURL(address, d.Endpoints.URLs)
	if refused != nil {
		return nil
	}
	expected := []string{sender.StepName, sender.StepConnect, sender.StepTLS, sender.StepHTTP}
	if strings.HasPrefix(normal, "http://") {
		expected = []string{sender.StepName, sender.StepConnect, sender.StepHTTP}
	}
	check := &page.Check{Passed: true}
	done := map[string]bool{}
	for _, step := range d.Check(ctx, normal, checkWithin) {
		done[step.Name] = true
		line := page.CheckLine{Name: stepNames[step.Name], Detail: step.Detail, Passed: step.OK}
		if step.OK && step.Took > 0 {
			line.Detail = fmt.Sprintf("%s, %s", step.Detail, ui.Span(step.Took))
		}
		check.Lines = append(check.Lines, line)
		if !step.OK {
			check.Passed = false
			check.Verdict = verdict.Explain(verdict.Facts{
				Class: verdict.Class(step.Class), Code: step.Status, Reason: step.Cause, Phase: step.Cause, Host: nameHost(normal), Location: ui.Visible(step.Location), Timeout: checkWithin})
		}
		if step.OK {
			check.Note = headNote(step.Status)
		}
	}
	for _, name := range expected {
		if !check.Passed && !done[name] && name != sender.StepName {
			check.Lines = append(check.Lines, page.CheckLine{Name: stepNames[name], Detail: "not tried", Skipped: true})
		}
	}
	return check
}

// headNote says what to make of an answer to the check's HEAD: servers may answer a POST otherwise. Empty: nothing.
func headNote(status int) string {
	if status < 400 || status == http.StatusMethodNotAllowed {
		return ""
	}
	class := verdict.Status
	if status == http.StatusGone {
		class = verdict.Gone
	}
	words := verdict.Explain(verdict.Facts{Class: class, Code: status})
	return fmt.Sprintf("Your server answered %d to our HEAD request; if it answers a test event like that as well: %s %s", status, words.Happened, words.Fixes[0])
}

func nameHost(address string) string { return endpointName("", address, "").Host }
