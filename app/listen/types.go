package listen

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/goccy/go-yaml"
)

// ImportTypes brings the event types of a file, in JSON or YAML, into the catalog, and prints what was done with each. The server's key
// is the platform's.
func (s Server) ImportTypes(ctx context.Context, file []byte, out io.Writer) error {
	if err := s.check(); err != nil {
		return err
	}
	if !json.Valid(file) {
		text, err := yaml.YAMLToJSON(file)
		if err != nil {
			return fmt.Errorf("it is neither JSON nor YAML: %w", err)
		}
		file = text
	}
	var done struct {
		Data []struct {
			Name    string
			Outcome string
		}
	}
	if err := s.call(ctx, http.MethodPost, "/v1/event-types/import", json.RawMessage(file), &done); err != nil {
		return err
	}
	for _, t := range done.Data {
		fmt.Fprintf(out, "%-9s  %s\n", plain(t.Outcome), plain(t.Name))
	}
	return nil
}
