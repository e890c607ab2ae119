package ui

// Tab is one of a row of tabs; each is a page of its own.
type Tab struct {
	Text, Href string
	Count      string // "12", "more than 10,000"; optional
	Current    bool
}

// Facet is one control of a list's filter row, a field of its GET form.
type Facet struct {
	Name, Label, Value string
	Options            []Option // a select; without options it is typed
	Suggestions        []string // for a typed one
	Type               string   // of a typed one: search, number, datetime-local
	Placeholder        string
}

// FacetRow is the filter of a list. Clear is the address without any filter, empty if nothing is filtered.
type FacetRow struct {
	Action, Clear string
	Facets        []Facet
}

// Pager is what stands below a list: Shown says how much of how much ("1 to 50 of more than 10,000"); First
// and Next are addresses, empty where there is nothing to go to. Lists are paged by key, so there is no way
// to jump to page 7.
type Pager struct {
	Shown, First, Next string
}

func (f Facet) kind() string {
	if f.Type == "" {
		return "search"
	}
	return f.Type
}
