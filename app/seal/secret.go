package seal

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret is text that must not be printed: a signing secret, a key, a password, a URL with credentials.
// Every way of printing it (fmt with any verb, slog, JSON and other text encodings) gives [redacted], also
// when it is empty. Reveal is the only way to the text. Two gaps are Go's: fmt cannot call the methods of a
// value in an unexported field, so whoever prints a whole struct keeps its Secret fields exported; and
// encoding/json writes map keys of kind string as they are.
type Secret string

const redacted = "[redacted]"

// Reveal is the text itself, for the one place that needs it.
func (s Secret) Reveal() string { return string(s) }

// String is [redacted].
func (s Secret) String() string { return redacted }

// Format prints [redacted] for every verb and flag.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue is [redacted].
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText is [redacted], in JSON and wherever else encoding.TextMarshaler is asked.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
