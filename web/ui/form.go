package ui

// Input is one line, or with Rows several, of typed text. Error, where there is one, is what is wrong with
// Value, which is always what was typed.
type Input struct {
	Name, Label, Value, Hint, Error string
	Type                            string // text if empty; email, url, password, number, datetime-local, search
	Autocomplete                    string
	Placeholder                     string // an example, never the only label
	Suggestions                     []string
	Rows                            int
	Max                             int // characters; 0 leaves it open
	Required, Mono, Focus           bool
	Numeric                         bool // digits: phones show their keys
}

// Choice is a select or, as radio buttons, a small set of options.
type Choice struct {
	Name, Label, Value, Hint, Error string
	Options                         []Option
}

// Check is one box to tick.
type Check struct {
	Name, Value, Label, Hint string
	Checked, Disabled        bool
}

// Confirm is a question before something that matters: it names the object, says what will happen to how
// many, and its button repeats the verb. The same markup is a page of its own and, with scripts, a dialog.
type Confirm struct {
	Title   string   // "Disable endpoint"
	Object  string   // what it happens to
	Effects []string // one sentence each
	Action  string   // where the POST goes
	Verb    string   // what the button says
	Back    string   // where "Keep as it is" leads
	Danger  bool
	Hidden  []Option // Value is the name of a hidden field, Text its content
}

// FieldError is a mistake in a form, for the summary above it.
type FieldError struct {
	Name, Label, Text string
}

// Errors collects the mistakes of a form's inputs and choices in their order.
func Errors(inputs ...any) []FieldError {
	var found []FieldError
	for _, input := range inputs {
		switch field := input.(type) {
		case Input:
			if field.Error != "" {
				found = append(found, FieldError{field.Name, field.Label, field.Error})
			}
		case Choice:
			if field.Error != "" {
				found = append(found, FieldError{field.Name, field.Label, field.Error})
			}
		}
	}
	return found
}

func (i Input) kind() string {
	if i.Type == "" {
		return "text"
	}
	return i.Type
}

// describedBy lists the ids of the hint and the error that stand below a field.
func describedBy(name, hint, problem string) string {
	switch {
	case hint != "" && problem != "":
		return name + "-error " + name + "-hint"
	case hint != "":
		return name + "-hint"
	case problem != "":
		return name + "-error"
	}
	return ""
}
