package web

import (
	"net/http"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/operator"
	"waybill/app/seal"
)

// consolePrefix keeps the operators' cookies apart from those of tenants' people: who is signed in to one is nobody to the other.
const consolePrefix = "console-"

// operators is console.Sessions in cookies: as those of tenants' people, under names of their own.
type operators struct {
	*people
	service *operator.Service
}

// newOperators signs operators in with cookies for url; ring seals what travels in them.
func newOperators(accounts *account.Service, service *operator.Service, ring *seal.Ring, url string) *operators {
	o := &operators{people: newPeople(accounts, ring, url), service: service}
	o.prefix += consolePrefix
	return o
}

// Operator is who the request's session belongs to. It is asked for anew at each call.
func (o *operators) Operator(r *http.Request) (operator.Session, error) {
	cookie, err := r.Cookie(o.prefix + sessionCookie)
	if err != nil {
		return operator.Session{}, fault.New(fault.Unauthenticated, "You are not signed in to the console.")
	}
	return o.service.SessionOf(r.Context(), cookie.Value)
}
