package dashboard

import (
	"context"
	"fmt"
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
				Class: verdict.Class(step.Class), Reason: step.Cause, Phase: step.Cause, Host: nameHost(normal), Timeout: checkWithin})
		}
	}
	for _, name := range expected {
		if !check.Passed && !done[name] && name != sender.StepName {
			check.Lines = append(check.Lines, page.CheckLine{Name: stepNames[name], Detail: "not tried", Skipped: true})
		}
	}
	return check
}

func nameHost(address string) string { return endpointName("", address, "").Host }
