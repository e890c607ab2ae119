package server_test

import (
	"slices"
	"strings"
	"testing"

	"waybill/app/server"
)

func TestSourcesAreAddressesAndNetworks(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"": nil, " , ": nil,
		"198.51.100.7":                    {"198.51.100.7"},
		"198.51.100.7, 2001:DB8:7:0::/64": {"198.51.100.7", "2001:db8:7::/64"},
	} {
		c, err := server.FromEnv(env(text), nil)
		if err != nil || !slices.Equal(c.Sources, want) {
			t.Errorf("%q: %q, %v", text, c.Sources, err)
		}
	}
	for _, text := range []string{"nat.example.com", "198.51.100.7/24", "198.51.100.7:443", "fe80::1%eth0", "198.51.100.7 198.51.100.8"} {
		if _, err := server.FromEnv(env(text), nil); err == nil || !strings.Contains(err.Error(), "WAYBILL_SOURCES: must be addresses or networks") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func env(sources string) func(string) string {
	return func(name string) string {
		return map[string]string{"WAYBILL_ALLOW_HTTP": "true", "WAYBILL_SOURCES": sources}[name]
	}
}
