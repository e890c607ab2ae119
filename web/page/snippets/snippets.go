// Package snippets is code that the documentation shows: a complete receiver in each of several languages, which reads the raw body, verifies it with
// any of its secrets and answers 200 or 401. Each is run, as the program it is, by the tests of this package against requests that package signing
// signed, where its language is on the machine.
package snippets

import (
	"embed"
	"strings"
)

// Receiver is a receiver in one language.
type Receiver struct {
	Slug, Name string // "go", "Go"
	File       string // what the program's file is called
	Run        string // how it is run
	Pair       string // what it needs for the scheme v1a, in a sentence
	Code       string
}

//go:embed receiver.go receiver.py receiver.mjs Receiver.java receiver.php config.ru Program.cs
var files embed.FS

const inside = "v1a (Ed25519) is in the standard library."

// Receivers are all of them, in the order in which they are shown.
func Receivers() []Receiver {
	all := []Receiver{
		{Slug: "python", Name: "Python", File: "receiver.py", Run: "python3 receiver.py", Pair: "v1a (Ed25519) needs the package cryptography; the rest is in the standard library."},
		{Slug: "node", Name: "Node", File: "receiver.mjs", Run: "node receiver.mjs", Pair: inside},
		{Slug: "go", Name: "Go", File: "receiver.go", Run: "go run receiver.go", Pair: inside},
		{Slug: "java", Name: "Java", File: "Receiver.java", Run: "java Receiver.java", Pair: inside},
		{Slug: "php", Name: "PHP", File: "receiver.php", Run: "php -S 127.0.0.1:3000 receiver.php", Pair: "v1a (Ed25519) needs the extension sodium, which comes with PHP."},
		{Slug: "ruby", Name: "Ruby", File: "config.ru", Run: "rackup --port 3000", Pair: "It runs under Rack. v1a (Ed25519) is in the standard library."},
		{Slug: "csharp", Name: "C#", File: "Program.cs", Run: "dotnet run", Pair: "v1a (Ed25519) is not in .NET; the package NSec.Cryptography has it."},
	}
	for i := range all {
		text, err := files.ReadFile(all[i].File)
		if err != nil {
			panic(err) // it is embedded
		}
		all[i].Code = strings.TrimPrefix(string(text), "//go:build ignore\n\n")
	}
	return all
}
