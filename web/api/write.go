package api

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// List is the body of every list: a page, and where the next one starts.
type List[T any] struct {
	Data []T     `json:"data" required:"true" nullable:"false"`
	Next *string `json:"next" required:"true" description:"The cursor of the next page, to be sent as after; null on the last page."`
}

// Page makes a list's body of what an operation returned; an empty next is the last page.
func Page[T any](data []T, next string) List[T] {
	if data == nil {
		data = []T{}
	}
	list := List[T]{Data: data}
	if next != "" {
		list.Next = &next
	}
	return list
}

// WriteJSON answers with a JSON body. Text is not escaped for HTML: bodies are never shown as pages.
func WriteJSON(w http.ResponseWriter, status int, body any) error {
	writeAs(w, status, "application/json", body)
	return nil
}

// WriteNothing answers 204.
func WriteNothing(w http.ResponseWriter) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// WriteRaw answers with a JSON body that is kept as it is, to the byte.
func WriteRaw(w http.ResponseWriter, status int, body []byte) error {
	writeText(w, status, "application/json", body)
	return nil
}

// writeAs marshals first and writes then, so that an answer is never half of one. Raw values in the body keep their numbers and strings, not their
// white space.
func writeAs(w http.ResponseWriter, status int, contentType string, body any) {
	text, err := json.Marshal(body, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true))
	if err != nil {
		// Bodies are our own structs of strings, numbers and times: this is a mistake in the program.
		panic("api: " + err.Error())
	}
	writeText(w, status, contentType, append(text, '\n'))
}

func writeText(w http.ResponseWriter, status int, contentType string, text []byte) {
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text) // a client that has left is no fault of ours
}
