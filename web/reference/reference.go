// Package reference is the API as a reader meets it: the shape in which package api hands its table of routes to the pages that show it.
//
// It is data alone, and knows nobody: what stands in it is made by package api from the routes that it serves.
package reference

// API is everything that the reference says.
type API struct {
	URL      string // the public address
	About    []string
	Nouns    []Noun
	Problems []Problem
	SpecPath string // where the OpenAPI document is
}

// Noun is a group of operations on the same thing.
type Noun struct {
	Name       string // "event types"
	Slug       string // "event-types"
	Operations []Operation
}

// Operation is one route.
type Operation struct {
	Name    string // unique: "EndpointCreate"
	Method  string
	Path    string // "/v1/endpoints/{id}"
	Also    string // the same for the platform, below a tenant's address; empty: there is none
	Summary string
	Detail  string // may be empty
	Who     string // in words: "A tenant's key"
	Scope   string // the right it needs; empty: none

	Parameters []Field // in the path, the query and the header
	Body       []Field
	HasBody    bool
	Optional   bool // the body may be left out
	MaxBody    int64
	Answers    []Answer
	Problems   []Problem
	Example    string // a curl command
}

// Field is one member of a body, or a parameter. Name is a path: "limits.concurrency", "data[].id".
type Field struct {
	Name     string
	In       string // of a parameter: path, query or header
	Kind     string // "text", "whole number or null", "list of text"
	Required bool
	About    string
	Rules    string // "1 to 200; 50 unless told otherwise"
}

// Answer is one successful answer.
type Answer struct {
	Status int
	Title  string // "OK"
	Stream bool   // server-sent events
	Fields []Field
}

// Problem is one type of problem.
type Problem struct {
	Slug    string
	Status  int
	Title   string
	Meaning string
	Retry   string
}
