package api

import (
	"net/http"

	"waybill/app/fault"
	"waybill/db"
)

// Problem is the body of every answer from 400 on: application/problem+json, RFC 9457.
type Problem struct {
	Type      string         `json:"type" required:"true" format:"uri" description:"Which kind of problem; the address explains it."`
	Title     string         `json:"title" required:"true"`
	Status    int            `json:"status" required:"true"`
	Detail    string         `json:"detail" required:"true" description:"What is wrong with this request, for a person."`
	RequestID string         `json:"request_id" required:"true" description:"Tell us this when you ask for help."`
	Errors    []ProblemField `json:"errors,omitempty" description:"Which inputs are wrong."`
}

// ProblemField is what is wrong with one input.
type ProblemField struct {
	Field  string `json:"field" required:"true" description:"As it was sent; with dots and indexes for what lies deeper: events[3].type"`
	Detail string `json:"detail" required:"true"`
}

// problemOf is the fault to answer err with. A database that cannot answer is unavailable, whatever the operation was about to find out.
func problemOf(err error) *fault.Error {
	if fault.KindOf(err) == fault.Internal && db.IsUnavailable(err) {
		return fault.Wrap(fault.Unavailable, "The database is busy or restarting. Nothing was changed; try again in a moment.", err)
	}
	return fault.From(err)
}

func (a *API) problemType(slug string) string { return a.URL + "/v1/problems/" + slug }

func (a *API) writeProblem(w http.ResponseWriter, r *http.Request, status int, slug, title, detail string, fields []fault.Field) {
	problem := Problem{Type: a.problemType(slug), Title: title, Status: status, Detail: detail, RequestID: requestOf(r).id}
	for _, field := range fields {
		problem.Errors = append(problem.Errors, ProblemField{Field: field.Name, Detail: field.Detail})
	}
	writeAs(w, status, "application/problem+json", problem)
}
