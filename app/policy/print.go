package policy

import (
	"strings"
)

// YAML is the set as a file that Load reads back to the same set, every key with the comment that documents it.
func (s Set) YAML() string {
	var b strings.Builder
	b.WriteString("# Durations are whole numbers with s, m, h or d: 5s, 1h30m, 30d.\n")
	b.WriteString(blockStandard + ":\n")
	b.WriteString(s.Standard().yaml("  ", true))
	b.WriteString("\n# Keys left out keep the value that stands above.\n")
	b.WriteString(blockPresets + ":\n")
	for _, name := range s.Names() {
		if p, ok := s.Preset(name); ok && name != Standard {
			b.WriteString("  " + name + ":\n")
			b.WriteString(p.yaml("    ", false))
		}
	}
	return b.String()
}

// String is YAML: the policies in force.
func (s Set) String() string { return s.YAML() }

// YAML is the one policy as the keys of a file, each with the comment that documents it.
func (p Policy) YAML() string { return p.yaml("", true) }

// String is the policy in one line of YAML.
func (p Policy) String() string { return p.Name + ": " + flow(keys(), p) }

// yaml puts a comment on a line of its own where it does not fit beside the value.
func (p Policy) yaml(indent string, comments bool) string {
	var b strings.Builder
	for _, k := range keys() {
		line := indent + k.name + ": " + k.print(p)
		if !comments {
			b.WriteString(line + "\n")
			continue
		}
		if len(line)+len(k.comment) <= 110 {
			const column = 42
			b.WriteString(line + strings.Repeat(" ", max(column-len(line), 2)) + "# " + k.comment + "\n")
		} else {
			b.WriteString(indent + "# " + k.comment + "\n" + line + "\n")
		}
	}
	return b.String()
}
