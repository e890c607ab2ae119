package demo

import (
	"context"
	"encoding/json"
	"net/http"
)

// typeTexts describe the four event types, by status.
var typeTexts = map[string]string{
	"booked":     "Space for the goods is booked on a truck.",
	"loaded":     "The goods are on the truck.",
	"in_transit": "The truck has left with the goods.",
	"delivered":  "The goods have been handed over.",
}

// typeSchema is the JSON Schema of the data of all four.
func typeSchema(status string) map[string]any {
	text := func(description string) map[string]any {
		return map[string]any{"type": "string", "description": description}
	}
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
		"required": []string{"status", "goods", "from", "to", "truck"},
		"properties": map[string]any{
			"status": map[string]any{"const": status, "description": "What the consignment's status is now."},
			"goods":  text("What it is, as the seller booked it."),
			"from":   text("Where it starts."),
			"to":     text("Where it is handed over."),
			"truck":  text("The truck's number plate."),
		},
	}
}

// registerTypes puts the platform's event types into the catalog.
func registerTypes(ctx context.Context, api *client) error {
	for _, status := range Statuses {
		example, err := json.Marshal(map[string]any{
			"status": status, "goods": "120 silk sarees", "from": "Kanchipuram", "to": "Mumbai", "truck": "TN 21 AX 4471"})
		if err != nil {
			return err
		}
		err = api.do(ctx, http.MethodPut, "/v1/event-types/consignment."+status, map[string]any{
			"description": typeTexts[status], "group": "Consignments", "schema": typeSchema(status), "example": json.RawMessage(example)}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}
