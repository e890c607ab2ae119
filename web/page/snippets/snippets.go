// Package snippets is code that the documentation shows: how a receiver checks a signature, in several languages. Each is run by the tests of
// this package against what package signing signs.
package snippets

import (
	_ "embed"
	"strings"
)

// Go is the check in Go: the file verify.go as it is compiled here, below its package's name.
var Go = strings.TrimPrefix(source, "package snippets\n\n")

//go:embed verify.go
var source string

// Python is the check in Python.
//
//go:embed verify.py
var Python string
