package dashboard

import (
	"net/http"
	"strings"

	"waybill/app/fault"
	"waybill/web/page"
)

// refused turns what an operation has against a form into problems by field; false if err is something else. names maps the operation's names
// of fields to those of the form; where a field is none of the form's, the form as a whole is told.
func refused(err error, names map[string]string) (page.Problems, bool) {
	shown := faultOf(err)
	if shown == nil || shown.Kind != fault.Invalid && shown.Kind != fault.Conflict {
		return nil, false
	}
	problems := page.Problems{}
	for _, field := range shown.Fields {
		name, known := formField(field.Name, names)
		text := sentence("it " + field.Detail)
		if !known {
			text = sentence(field.Name + " " + field.Detail)
		}
		problems[name] = strings.TrimSpace(problems[name] + " " + text)
	}
	if len(problems) == 0 {
		problems[""] = sentence(shown.Detail)
	}
	return problems, true
}

// formField finds the field of a form that an operation calls name: "types[2]" is "types", unless the form has that, too.
func formField(name string, names map[string]string) (string, bool) {
	if field, ok := names[name]; ok {
		return field, true
	}
	if i := strings.IndexAny(name, "[."); i > 0 {
		field, ok := names[name[:i]]
		return field, ok
	}
	return "", false
}

// statusOf is the status of a form that comes back: 422, or 409 when it clashes with what is stored.
func statusOf(err error) int { return faultOf(err).Kind.Status() }

// field is a form's field without the spaces around it.
func field(r *http.Request, name string) string { return strings.TrimSpace(r.PostForm.Get(name)) }
