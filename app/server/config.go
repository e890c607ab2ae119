package server

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"waybill/app/account"
	"waybill/app/egress"
	"waybill/app/notice"
	"waybill/app/policy"
	"waybill/app/seal"
)

// Role is a part of the program that can run as a process of its own.
type Role string

// The roles. A process without --only has all three.
const (
	Web    Role = "web"    // the API and the dashboard
	Worker Role = "worker" // dispatcher, lanes and chores
	Proxy  Role = "proxy"  // the egress proxy
)

// Config is everything the program is told from outside. FromEnv reads it.
type Config struct {
	DatabaseURL string // WAYBILL_DATABASE_URL; empty: the embedded Postgres in Data
	Addr        string // WAYBILL_ADDR, host:port
	URL         string // WAYBILL_URL: how browsers and receivers reach us, without a slash at the end
	SecretKeys  seal.Secret
	PlatformKey seal.Secret
	PolicyFile  string
	SMTPURL     seal.Secret
	ProxyURL    string
	EgressAllow []netip.Prefix
	AllowHTTP   bool
	Data        string
	Migrate     bool
	// Drain is how long a process with the web serves on, not ready, when it is told to stop (WAYBILL_DRAIN).
	Drain       time.Duration
	Sources     []string // WAYBILL_SOURCES: the addresses and networks that requests leave from, for the documentation; nothing is bound to them
	MetricsAddr string   // WAYBILL_METRICS_ADDR: /metrics without a key; empty: only with one, on Addr
	// OperationsTenant is the uid of the tenant whose endpoints are told of all tenants' endpoints and deliveries; empty: none. It is made if it is missing.
	OperationsTenant string

	Roles []Role

	// What a program that embeds this one gives in place of the above; no variable does.
	PolicyText string       // the text of a policy file; PolicyFile is not read then
	Listener   net.Listener // open already; Addr is not used then
	NoWall     bool         // tenants are served with the program's own rights: what the wall between them costs is measured against that
	InboxURL   string       // where our own sender reaches inboxes; empty: at URL
}

// Development says that this is no production: endpoints may be http, and missing keys are made and kept in Data.
func (c Config) Development() bool { return c.AllowHTTP }

// Has says whether this process has the role.
func (c Config) Has(r Role) bool { return len(c.Roles) == 0 || slices.Contains(c.Roles, r) }

// DefaultAddr is WAYBILL_ADDR when it is not set.
const DefaultAddr = ":8080"

// minPlatformKey is the fewest characters of WAYBILL_PLATFORM_KEY.
const minPlatformKey = 32

// FromEnv reads the configuration from environment variables by their names in the README. Every mistake is reported, each with the name of
// its variable and what is allowed; secrets are not quoted.
func FromEnv(getenv func(string) string, roles []Role) (Config, error) {
	c := Config{
		DatabaseURL: getenv("WAYBILL_DATABASE_URL"),
		Addr:        getenv("WAYBILL_ADDR"),
		URL:         strings.TrimRight(getenv("WAYBILL_URL"), "/"),
		SecretKeys:  seal.Secret(getenv("WAYBILL_SECRET_KEYS")),
		PlatformKey: seal.Secret(getenv("WAYBILL_PLATFORM_KEY")),
		PolicyFile:  getenv("WAYBILL_POLICY"),
		SMTPURL:     seal.Secret(getenv("WAYBILL_SMTP_URL")),
		ProxyURL:    getenv("WAYBILL_PROXY_URL"),
		Data:        getenv("WAYBILL_DATA"),
		MetricsAddr: getenv("WAYBILL_METRICS_ADDR"),

		OperationsTenant: getenv("WAYBILL_OPERATIONS_TENANT"),

		Roles: roles,
	}
	var problems []error
	refuse := func(name, why string) { problems = append(problems, fmt.Errorf("%s: %s", name, why)) }

	var err error
	if c.AllowHTTP, err = readBool(getenv("WAYBILL_ALLOW_HTTP")); err != nil {
		refuse("WAYBILL_ALLOW_HTTP", err.Error())
	}
	if c.Migrate, err = readBool(getenv("WAYBILL_MIGRATE")); err != nil {
		refuse("WAYBILL_MIGRATE", err.Error())
	}
	if c.Drain, err = readDrain(getenv("WAYBILL_DRAIN"), c.AllowHTTP); err != nil {
		refuse("WAYBILL_DRAIN", err.Error())
	}
	if c.Data == "" {
		c.Data = ".waybill"
	}
	if c.Addr == "" {
		c.Addr = DefaultAddr
	}
	if _, _, err := net.SplitHostPort(c.Addr); err != nil {
		refuse("WAYBILL_ADDR", "must be host:port or :port, such as :8080")
	}
	if c.MetricsAddr != "" {
		if _, _, err := net.SplitHostPort(c.MetricsAddr); err != nil {
			refuse("WAYBILL_METRICS_ADDR", "must be host:port or :port, such as 127.0.0.1:9090")
		}
	}
	if c.OperationsTenant != "" && !account.ValidUID(c.OperationsTenant) {
		refuse("WAYBILL_OPERATIONS_TENANT", "must be 1 to 128 characters of A-Z a-z 0-9 _ . : -")
	}
	if c.EgressAllow, err = egress.ParseAllow(getenv("WAYBILL_EGRESS_ALLOW")); err != nil {
		refuse("WAYBILL_EGRESS_ALLOW", err.Error())
	}
	if c.Sources, err = readSources(getenv("WAYBILL_SOURCES")); err != nil {
		refuse("WAYBILL_SOURCES", err.Error())
	}
	if c.URL == "" && (c.Development() || !c.Has(Web)) {
		c.URL = "http://localhost" + portOf(c.Addr)
	}
	if err := checkBaseURL(c.URL, c.Development() || !c.Has(Web)); err != nil {
		refuse("WAYBILL_URL", err.Error())
	}
	if c.ProxyURL != "" {
		if u, err := url.Parse(c.ProxyURL); err != nil || u.Scheme != "http" || u.Host == "" {
			refuse("WAYBILL_PROXY_URL", "must be http://host:port of an egress proxy")
		}
	}
	if c.DatabaseURL != "" {
		if u, err := url.Parse(c.DatabaseURL); err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
			refuse("WAYBILL_DATABASE_URL", "must be postgres://user:password@host:port/database")
		}
	}
	if c.SMTPURL != "" && c.URL != "" {
		if _, err := notice.ParseSMTP(c.SMTPURL, c.URL); err != nil {
			refuse("WAYBILL_SMTP_URL", err.Error())
		}
	}
	needsKeys := c.Has(Web) || c.Has(Worker)
	if needsKeys {
		switch {
		case c.SecretKeys != "":
			if _, err := seal.ParseRing(c.SecretKeys.Reveal()); err != nil {
				refuse("WAYBILL_SECRET_KEYS", err.Error())
			}
		case !c.Development():
			refuse("WAYBILL_SECRET_KEYS", "is missing; it must be one or more keys of 32 bytes in base64, comma-separated, newest first (make one with: openssl rand -base64 32)")
		}
	}
	if c.Has(Web) {
		switch n := len(c.PlatformKey.Reveal()); {
		case n == 0 && !c.Development():
			refuse("WAYBILL_PLATFORM_KEY", fmt.Sprintf("is missing; it must be a secret of %d characters or more (make one with: openssl rand -hex 32)", minPlatformKey))
		case n > 0 && n < minPlatformKey:
			refuse("WAYBILL_PLATFORM_KEY", fmt.Sprintf("has %d characters; it must have %d or more", n, minPlatformKey))
		}
	}
	if !c.Has(Web) && !c.Has(Worker) && c.Has(Proxy) && c.ProxyURL != "" {
		refuse("WAYBILL_PROXY_URL", "names another proxy, but this process is to be one; leave it out")
	}
	return c, errors.Join(problems...)
}

func readBool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "", "false", "0", "no":
		return false, nil
	case "true", "1", "yes":
		return true, nil
	}
	return false, errors.New("must be true or false")
}

// The drain where none is set, none on a development machine, and the longest.
const (
	defaultDrain = 5 * time.Second
	maxDrain     = 5 * time.Minute
)

func readDrain(s string, development bool) (time.Duration, error) {
	switch {
	case s != "":
	case development:
		return 0, nil
	default:
		return defaultDrain, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > maxDrain {
		return 0, errors.New("must be 0s to 5m, such as 10s")
	}
	return d, nil
}

// readSources reads addresses and networks, separated by commas, and writes them as they are usually written.
func readSources(text string) ([]string, error) {
	var all []string
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		network, err := netip.ParsePrefix(part)
		if err == nil && network == network.Masked() {
			all = append(all, network.String())
			continue
		}
		address, err := netip.ParseAddr(part)
		if err != nil || address.Zone() != "" {
			return nil, errors.New("must be addresses or networks, separated by commas, such as 198.51.100.7,2001:db8:7::/64")
		}
		all = append(all, address.String())
	}
	return all, nil
}

func portOf(addr string) string {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return ""
	}
	return ":" + port
}

func checkBaseURL(s string, http bool) error {
	if s == "" {
		return errors.New("is missing; it must be the public address of the dashboard, such as https://hooks.example.com")
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return errors.New("must be https://host with nothing behind the path")
	case u.Scheme == "https" || (http && u.Scheme == "http"):
		return nil
	default:
		return errors.New("must begin with https:// (http:// only with WAYBILL_ALLOW_HTTP=true)")
	}
}

// LoadPolicy reads the policy file, or the built-in policy when none is named.
func (c Config) LoadPolicy() (policy.Set, error) {
	if c.PolicyText != "" {
		return policy.Load([]byte(c.PolicyText))
	}
	if c.PolicyFile == "" {
		return policy.Builtin(), nil
	}
	text, err := os.ReadFile(c.PolicyFile)
	if err != nil {
		return policy.Set{}, fmt.Errorf("WAYBILL_POLICY: %w", err)
	}
	set, err := policy.Load(text)
	if err != nil {
		return policy.Set{}, fmt.Errorf("WAYBILL_POLICY %s: %w", c.PolicyFile, err)
	}
	return set, nil
}

// KeptRing is the key ring as it is, configured or kept in Data; nil when none has been made yet.
func (c Config) KeptRing() (*seal.Ring, error) {
	keys := c.SecretKeys
	if keys == "" {
		kept, err := os.ReadFile(filepath.Join(c.Data, "secret_keys"))
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the kept keys: %w", err)
		}
		keys = seal.Secret(strings.TrimSpace(string(kept)))
	}
	return seal.ParseRing(keys.Reveal())
}

// keptSecret is a secret of a development machine: the one given, else the one kept in a file below Data, else a new one that is kept there.
func keptSecret(given seal.Secret, data, name string, make func() seal.Secret) (seal.Secret, error) {
	if given != "" {
		return given, nil
	}
	path := filepath.Join(data, name)
	kept, err := os.ReadFile(path)
	if err == nil {
		return seal.Secret(strings.TrimSpace(string(kept))), nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	if err := os.MkdirAll(data, 0o755); err != nil {
		return "", fmt.Errorf("make the data folder: %w", err)
	}
	made := make()
	if err := os.WriteFile(path, []byte(made.Reveal()+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("keep a new secret: %w", err)
	}
	return made, nil
}
