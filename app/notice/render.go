package notice

import (
	"embed"
	"fmt"
	htmltemplate "html/template"
	"strconv"
	"strings"
	"unicode/utf8"
)

//go:embed mail.html.tmpl
var files embed.FS

var htmlForm = htmltemplate.Must(htmltemplate.ParseFS(files, "mail.html.tmpl"))

// Rendered is a mail as it goes out.
type Rendered struct {
	Subject, Text, HTML string
}

// Render makes both forms of a notice. base is our public address, without a slash at the end.
func Render(n Notice, base string) (Rendered, error) {
	if n.Heading == "" {
		n.Heading = n.Subject
	}
	var html strings.Builder
	err := htmlForm.Execute(&html, struct {
		Notice
		Link string
		Home string
	}{n, base + n.Button.Path, base})
	if err != nil {
		return Rendered{}, fmt.Errorf("render %q: %w", n.Subject, err)
	}
	return Rendered{Subject: n.Subject, Text: text(n, base), HTML: html.String()}, nil
}

const width = 72

// text is the notice in plain text, in lines of at most width characters; links stand alone on theirs.
func text(n Notice, base string) string {
	var out strings.Builder
	block := func(lines ...string) {
		if out.Len() > 0 {
			out.WriteByte('\n')
		}
		for _, line := range lines {
			out.WriteString(line + "\n")
		}
	}
	block(wrap(n.Heading)...)
	for _, paragraph := range n.Paragraphs {
		block(wrap(paragraph)...)
	}
	if len(n.Facts) > 0 {
		longest := 0
		for _, fact := range n.Facts {
			longest = max(longest, utf8.RuneCountInString(fact.Name))
		}
		var lines []string
		for _, fact := range n.Facts {
			lines = append(lines, fact.Name+":"+strings.Repeat(" ", longest-utf8.RuneCountInString(fact.Name)+1)+fact.Value)
		}
		block(lines...)
	}
	if n.Excerpt != "" {
		var lines []string
		for line := range strings.Lines(n.Excerpt) {
			lines = append(lines, "  | "+strings.TrimRight(line, "\r\n"))
		}
		block(lines...)
	}
	if n.Button.Path != "" {
		block(n.Button.Text+":", base+n.Button.Path)
	}
	out.WriteString("\n-- \n")
	for _, line := range n.Footer {
		for _, part := range wrap(line) {
			out.WriteString(part + "\n")
		}
	}
	out.WriteString("Waybill, " + base + "\n")
	return out.String()
}

// wrap breaks a paragraph at spaces. A word that is longer than a line stays whole.
func wrap(paragraph string) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(paragraph) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

func count(n int, many string) string { return strconv.Itoa(n) + " " + many }
