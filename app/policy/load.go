package policy

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

const (
	maxFile = 64 << 10
	// maxMarks bounds what may nest: the parser's time grows with the square of the depth.
	maxMarks = 4000

	blockStandard, blockPresets = "webhook_delivery", "presets"
)

var presetName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// Load reads a policy file. Its webhook_delivery changes the standard policy, and its presets add others; keys left
// out keep the value of the standard policy in force (for an entry named commerce: of commerce). The error is a
// Problems with everything that is wrong. Files are up to 64 KiB; anchors, aliases, tags and several documents are
// not read.
func Load(text []byte) (Set, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if problem := unreadable(text); problem != nil {
		return Set{}, Problems{*problem}
	}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return Set{}, Problems{syntaxProblem(err)}
	}
	r := &reader{}
	set := r.file(file)
	if len(r.problems) > 0 {
		return Set{}, r.problems.sorted()
	}
	return set, nil
}

// unreadable finds what must not reach the parser.
func unreadable(text []byte) *Problem {
	if len(text) > maxFile {
		return &Problem{Line: 1, Detail: fmt.Sprintf("the file is %d bytes long; at most %d are read", len(text), maxFile)}
	}
	marks := 0
	for i := 0; i < len(text); {
		c, size := utf8.DecodeRune(text[i:])
		line := func() int { return 1 + bytes.Count(text[:i], []byte("\n")) }
		if c == utf8.RuneError && size == 1 || c < ' ' && c != '\n' && c != '\r' && c != '\t' {
			return &Problem{Line: line(), Detail: "the file must be UTF-8 text without control characters"}
		}
		if strings.ContainsRune("[{-?!&", c) {
			if marks++; marks > maxMarks {
				return &Problem{Line: line(), Detail: fmt.Sprintf("more than %d brackets and marks", maxMarks)}
			}
		}
		i += size
	}
	return nil
}

func syntaxProblem(err error) Problem {
	p := Problem{Line: 1, Detail: "this is not YAML"}
	var y yaml.Error
	if errors.As(err, &y) {
		p.Detail += ": " + y.GetMessage()
		if token := y.GetToken(); token != nil && token.Position != nil {
			p.Line, p.Column = token.Position.Line, token.Position.Column
		}
	}
	return p
}

// place is a value in the file with the path of keys to it.
type place struct {
	path string
	node ast.Node
	// line and column are the value's, or its key's where nothing stands.
	line, column int
}

// reader collects what is wrong, so that one start shows all of it.
type reader struct {
	problems Problems
}

func (r *reader) fail(at place, format string, args ...any) {
	r.problems = append(r.problems, Problem{at.line, at.column, at.path, fmt.Sprintf(format, args...)})
}

func (r *reader) file(file *ast.File) Set {
	top := place{line: 1}
	seen := false
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		at := placeOf("", doc.Body, 1)
		if seen || doc.Body.Type() == ast.DirectiveType {
			r.fail(at, "one document without directives is read; this begins another")
			return Set{}
		}
		top, seen = at, true
	}
	if !seen {
		r.fail(top, "the file says nothing: it needs %s or %s; without a file the built-in policies apply", blockStandard, blockPresets)
		return Set{}
	}
	entries, ok := r.mapping(top, []string{blockStandard, blockPresets})
	if !ok {
		return Set{}
	}
	set := Set{map[string]Policy{}}
	base := standard()
	origin := sources{lines: map[string]place{}, whole: top}
	if at, ok := entries[blockStandard]; ok {
		origin.whole = at
		r.policy(at, &base, origin.lines)
	}
	r.check(base, origin)
	set.presets[Standard] = base
	set.presets[Commerce] = commerce(base)
	clean := len(r.problems) == 0
	own := map[string]bool{}
	if at, ok := entries[blockPresets]; ok {
		own = r.presets(at, set, origin)
	}
	// A commerce that the file leaves as it is can still be broken by the standard it builds on.
	if clean && !own[Commerce] {
		r.check(set.presets[Commerce], origin)
	}
	return set
}

// presets reads the entries into set and gives back their names.
func (r *reader) presets(at place, set Set, standardOrigin sources) map[string]bool {
	own := map[string]bool{}
	entries, ok := r.mapping(at, nil)
	if !ok {
		return own
	}
	if len(entries) > maxPresets {
		r.fail(at, "has %d entries; at most %d are allowed", len(entries), maxPresets)
		return own
	}
	for name, entry := range entries {
		if name == Standard {
			r.fail(entry, "is what %s says; change it there", blockStandard)
			continue
		}
		if !presetName.MatchString(name) {
			r.fail(entry, "a preset's name is a to z, then up to 31 of a to z, 0 to 9, _ and -")
			continue
		}
		p := set.presets[Standard]
		if name == Commerce {
			p = set.presets[Commerce]
		}
		p.Name = name
		origin := sources{lines: map[string]place{}, whole: entry, below: &standardOrigin}
		if r.policy(entry, &p, origin.lines) {
			r.check(p, origin)
		}
		set.presets[name] = p
		own[name] = true
	}
	return own
}

// policy reads one mapping of keys over p; lines receives where each key stands.
func (r *reader) policy(at place, p *Policy, lines map[string]place) bool {
	before := len(r.problems)
	r.block(at, keys(), p, lines)
	return len(r.problems) == before
}

// block reads the keys that are there; lines, unless nil, receives where each stands.
func (r *reader) block(at place, known []key, p *Policy, lines map[string]place) {
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = k.name
	}
	entries, ok := r.mapping(at, names)
	if !ok {
		return
	}
	for _, k := range known {
		if entry, ok := entries[k.name]; ok {
			if lines != nil {
				lines[k.name] = entry
			}
			k.read(r, entry, p)
		}
	}
}

// sources says where a policy's keys came from, to blame the right line for values that do not fit together.
type sources struct {
	lines map[string]place
	whole place
	below *sources
}

// of is where the first of these keys stands, in the policy itself or in the one it builds on.
func (s sources) of(keys ...string) place {
	for _, k := range keys {
		if at, ok := s.lines[k]; ok {
			return at
		}
	}
	if s.below != nil {
		for _, k := range keys {
			if at, ok := s.below.lines[k]; ok {
				return at
			}
		}
	}
	return s.whole
}

// check holds the rules between keys.
func (r *reader) check(p Policy, from sources) {
	if p.Longest() > p.ResendWindow {
		r.fail(from.of("waits_between_attempts", "jitter_percent", "resend_window"),
			"the schedule of preset %s takes up to %s with its jitter, longer than its resend_window of %s",
			p.Name, formatDuration(p.Longest().Round(time.Second)), formatDuration(p.ResendWindow))
	}
	if p.ResendWindow > p.Retention.Deliveries {
		r.fail(from.of("resend_window", "retention"),
			"the resend_window of preset %s is %s, longer than its deliveries are kept (%s)",
			p.Name, formatDuration(p.ResendWindow), formatDuration(p.Retention.Deliveries))
	}
	if p.Retention.Deliveries > p.Retention.Events {
		r.fail(from.of("retention"), "deliveries of preset %s are kept for %s, longer than their events (%s)",
			p.Name, formatDuration(p.Retention.Deliveries), formatDuration(p.Retention.Events))
	}
}

// mapping reads a mapping of plain keys; with names given, no others are allowed.
func (r *reader) mapping(at place, names []string) (map[string]place, bool) {
	m, ok := at.node.(*ast.MappingNode)
	if !ok {
		want := "must hold keys"
		if names != nil {
			want += " (" + strings.Join(names, ", ") + ")"
		}
		r.fail(at, "%s; it is %s", want, describe(at.node))
		return nil, false
	}
	entries := map[string]place{}
	for _, v := range m.Values {
		token := v.Key.GetToken()
		name := token.Value
		path := name
		if at.path != "" {
			path = at.path + "." + name
		}
		here := place{path: path, node: v.Key, line: at.line}
		if token.Position != nil {
			here.line, here.column = token.Position.Line, token.Position.Column
		}
		_, plain := v.Key.(*ast.StringNode)
		switch {
		case !plain || names != nil && !slices.Contains(names, name):
			here.path = at.path
			allowed := ""
			if names != nil {
				allowed = "; allowed: " + strings.Join(names, ", ")
			}
			r.fail(here, "unknown key %s%s", quoteShort(name), allowed)
		default:
			value := placeOf(path, v.Value, here.line)
			entries[name] = value
		}
	}
	return entries, true
}

func placeOf(path string, node ast.Node, line int) place {
	at := place{path: path, node: node, line: line}
	if node == nil {
		return at
	}
	if m, ok := node.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		node = m.Values[0].Key // the mapping's own token is its first colon
	}
	if token := node.GetToken(); token != nil && token.Position != nil {
		at.line, at.column = token.Position.Line, token.Position.Column
	}
	return at
}

// describe names what stands in the file instead of what should.
func describe(n ast.Node) string {
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return "empty"
	case *ast.MappingNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		return "an anchor, alias or tag, which are not read"
	case *ast.LiteralNode:
		return "a block of text"
	default:
		if token := n.GetToken(); token != nil {
			return quoteShort(token.Value)
		}
		return "something else"
	}
}

func (r *reader) list(at place, least, most int, what string) ([]place, bool) {
	s, ok := at.node.(*ast.SequenceNode)
	if !ok {
		r.fail(at, "must be a list %s; it is %s", what, describe(at.node))
		return nil, false
	}
	if len(s.Values) < least || len(s.Values) > most {
		r.fail(at, "must be a list of %d to %d; it has %d", least, most, len(s.Values))
		return nil, false
	}
	items := make([]place, len(s.Values))
	for i, v := range s.Values {
		items[i] = placeOf(at.path+"["+strconv.Itoa(i)+"]", v, at.line)
	}
	return items, true
}

func (r *reader) integer(at place, least, most int, unit string) (int, bool) {
	n, ok := at.node.(*ast.IntegerNode)
	if ok && isDigits(n.Token.Value) && (n.Token.Value == "0" || n.Token.Value[0] != '0') {
		if value, err := strconv.Atoi(n.Token.Value); err == nil && least <= value && value <= most {
			return value, true
		}
	}
	r.fail(at, "must be a whole number from %d to %d (%s); it is %s", least, most, unit, describe(at.node))
	return 0, false
}

func (r *reader) boolean(at place) (bool, bool) {
	if n, ok := at.node.(*ast.BoolNode); ok {
		return n.Value, true
	}
	r.fail(at, "must be true or false; it is %s", describe(at.node))
	return false, false
}

func oneOf[T ~string](r *reader, at place, into *T, allowed ...T) bool {
	if n, ok := at.node.(*ast.StringNode); ok && slices.Contains(allowed, T(n.Value)) {
		*into = T(n.Value)
		return true
	}
	texts := make([]string, len(allowed))
	for i, a := range allowed {
		texts[i] = string(a)
	}
	r.fail(at, "must be %s; it is %s", strings.Join(texts, " or "), describe(at.node))
	return false
}

func (r *reader) duration(at place, into *time.Duration, least, most time.Duration) bool {
	if n, ok := at.node.(*ast.StringNode); ok {
		if d, ok := parseDuration(n.Value); ok && least <= d && d <= most {
			*into = d
			return true
		}
	}
	r.fail(at, "must be %s, from %s to %s; it is %s", durationForm, formatDuration(least), formatDuration(most), describe(at.node))
	return false
}

func (r *reader) durations(at place, into *[]time.Duration, least, most int, shortest, longest time.Duration) {
	items, ok := r.list(at, least, most, "of durations, such as [5s, 5m, 2h]")
	if !ok {
		return
	}
	list, good := make([]time.Duration, len(items)), true
	for i, item := range items {
		good = r.duration(item, &list[i], shortest, longest) && good
	}
	if good {
		*into = list
	}
}
