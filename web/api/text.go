package api

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill/app/delivery"
)

// What the pages copy as JSON is what the API answers, so that one can be compared with the other.

// DeliveryText is a delivery as the API shows it, indented.
func DeliveryText(d delivery.Delivery) ([]byte, error) { return indented(deliveryOf(d)) }

// AttemptText is an attempt as the API shows it, indented.
func AttemptText(a delivery.Attempt) ([]byte, error) { return indented(attemptOf(a)) }

func indented(value any) ([]byte, error) {
	text, err := json.Marshal(value, jsontext.AllowInvalidUTF8(true), jsontext.WithIndent("  "))
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}
