package ui

import (
	"strconv"

	"github.com/a-h/templ"
)

// fieldAttributes are what an input and a text area have in common and not always.
func fieldAttributes(i Input) templ.Attributes {
	attributes := templ.Attributes{
		"required":  i.Required,
		"autofocus": i.Focus,
	}
	if by := describedBy(i.Name, i.Hint, i.Error); by != "" {
		attributes["aria-describedby"] = by
	}
	if i.Error != "" {
		attributes["aria-invalid"] = "true"
	}
	if i.Autocomplete != "" {
		attributes["autocomplete"] = i.Autocomplete
	}
	if i.Placeholder != "" {
		attributes["placeholder"] = i.Placeholder
	}
	if i.Numeric {
		attributes["inputmode"] = "numeric"
	}
	if i.Max > 0 {
		attributes["maxlength"] = strconv.Itoa(i.Max)
	}
	if len(i.Suggestions) > 0 {
		attributes["list"] = i.Name + "-list"
	}
	return attributes
}
