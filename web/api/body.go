package api

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill/app/fault"
)

// bodyTimeout is how long a body may take to arrive. A byte a second holds a connection that long and no longer.
const bodyTimeout = 30 * time.Second

// prepareBody refuses what the route would not read by what the headers say, and bounds the rest in size and time.
func prepareBody(w http.ResponseWriter, r *http.Request, route Route) error {
	requestOf(r).needed = route.Body != nil && !route.Optional
	if r.ContentLength == 0 {
		return missingBody(r)
	}
	limit := route.maxBody()
	if r.ContentLength > limit {
		return tooLarge(limit)
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return fault.New(fault.Unsupported, "Send the body as it is: no content encoding is read here.")
	}
	if err := checkContentType(r.Header); err != nil {
		return err
	}
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	if route.Body == nil {
		// Many clients send {} with every POST.
		_, err := DecodeBody[struct{}](w, r)
		return err
	}
	return nil
}

func missingBody(r *http.Request) error {
	if requestOf(r).needed {
		return fault.New(fault.Malformed, "A JSON body is missing.")
	}
	return nil
}

func tooLarge(limit int64) error {
	return fault.Newf(fault.TooLarge, "The body is over %d bytes, which is the most that is read here.", limit)
}

// checkContentType wants JSON in UTF-8; without a content type that is what the body is taken for.
func checkContentType(header http.Header) error {
	values := header.Values("Content-Type")
	if len(values) == 0 {
		return nil
	}
	media, params, err := mime.ParseMediaType(values[0])
	charset := params["charset"]
	if err != nil || len(values) > 1 || media != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return fault.New(fault.Unsupported, "Send JSON in UTF-8: Content-Type: application/json")
	}
	return nil
}

// ReadBody is the whole body, within the route's limits.
func ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	control := http.NewResponseController(w)
	// Where there is no connection to set it on, in tests, there is no slow sender either.
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
	body, err := io.ReadAll(r.Body)
	var over *http.MaxBytesError
	switch {
	case err == nil:
		// From here on the server reads in the background to notice that the client leaves; that must not time out.
		_ = control.SetReadDeadline(time.Time{})
		requestOf(r).read = true
		return body, nil
	case errors.As(err, &over):
		return nil, tooLarge(over.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fault.Wrap(fault.Malformed, fmt.Sprintf("The body did not arrive within %d seconds.", int(bodyTimeout.Seconds())), err)
	default:
		return nil, fault.Wrap(fault.Malformed, "The body ended before it was complete.", err)
	}
}

// DecodeBody reads the body into a T, strictly: JSON in UTF-8, names in the exact case, each once, and none that T does not know. What is not
// JSON is Malformed; what is, and does not fit, is Invalid with the field. No body leaves T's zero value; whether that may be is the route's
// to say.
func DecodeBody[T any](w http.ResponseWriter, r *http.Request) (T, error) {
	var into T
	text, err := ReadBody(w, r)
	if err != nil {
		return into, err
	}
	if len(text) == 0 {
		return into, missingBody(r)
	}
	if err := json.Unmarshal(text, &into, json.RejectUnknownMembers(true)); err != nil {
		return into, decodeFault(err)
	}
	return into, nil
}

// decodeFault says in our words what the JSON package found.
func decodeFault(err error) error {
	if shown, ok := errors.AsType[*fault.Error](err); ok {
		return shown
	}
	var syntax *jsontext.SyntacticError
	var meaning *json.SemanticError
	switch {
	case errors.As(err, &syntax) && errors.Is(err, jsontext.ErrDuplicateName):
		return fault.Wrap(fault.Invalid, "The body names a member twice.", err).Field(fieldName(syntax.JSONPointer), "is given twice")
	case errors.As(err, &syntax):
		return fault.Wrap(fault.Malformed, fmt.Sprintf("The body is not JSON in UTF-8: see byte %d.", syntax.ByteOffset), err)
	case errors.As(err, &meaning) && errors.Is(err, json.ErrUnknownName):
		return fault.Wrap(fault.Invalid, "The body has a member that is not known here.", err).Field(fieldName(meaning.JSONPointer), "is not known here")
	case errors.As(err, &meaning):
		return fault.Wrap(fault.Invalid, "The body has a value of the wrong kind.", err).Field(fieldName(meaning.JSONPointer), wrongKind(meaning))
	default:
		return fault.Wrap(fault.Malformed, "The body cannot be read.", err)
	}
}

// wrongKind says what would have fitted.
func wrongKind(meaning *json.SemanticError) string {
	of := meaning.GoType
	for of != nil && of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch {
	case of == nil:
		return "has a value that does not fit"
	case of == reflect.TypeFor[time.Time]():
		return "must be a time such as \"2026-11-17T09:41:05Z\""
	}
	switch of.Kind() {
	case reflect.String:
		return "must be a string"
	case reflect.Bool:
		return "must be true or false"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "must be a whole number"
	case reflect.Slice:
		return "must be an array"
	case reflect.Struct, reflect.Map:
		return "must be an object"
	default:
		return "has a value that does not fit"
	}
}

// fieldName turns a JSON Pointer (RFC 6901) into the way fields are named here: /events/3/type is events[3].type.
func fieldName(pointer jsontext.Pointer) string {
	name := ""
	for token := range pointer.Tokens() {
		switch {
		case token != "" && strings.Trim(token, "0123456789") == "":
			name += "[" + token + "]"
		case name == "":
			name = token
		default:
			name += "." + token
		}
		if len(name) > 200 {
			return strings.ToValidUTF8(name[:200], "") + "…"
		}
	}
	if name == "" {
		return "body"
	}
	return name
}
