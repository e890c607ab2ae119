package path

// EndpointSignature is the signature lab of an endpoint (GET), and examines what is pasted there (POST).
func EndpointSignature(id string) string { return join("endpoints", id, "signature") }

// EndpointSignatureOf is the lab with the request of an attempt; of the delivery's last one when attempt is empty.
func EndpointSignatureOf(id, delivery, attempt string) string {
	return with(EndpointSignature(id), "delivery", delivery, "attempt", attempt)
}

// DocsVerify says how a receiver checks our signatures.
func DocsVerify() string { return "/docs/verify" }

// DocsReceiver is a complete receiver in one language, by the short name of package snippets ("go").
func DocsReceiver(language string) string { return join("docs", "verify", language) }

// PublicKeys is the page of an endpoint's public keys, for everybody who knows its id.
func PublicKeys(endpoint string) string { return join("public-keys", endpoint) }

// PublicKeysJSON is the same for programs, of the API.
func PublicKeysJSON(endpoint string) string { return join("v1", "public-keys", endpoint) }

// DocsConcepts explains the words.
func DocsConcepts() string { return "/docs/concepts" }

// DocsPromises says what can be counted on.
func DocsPromises() string { return "/docs/promises" }

// DocsRetries says when deliveries are tried again.
func DocsRetries() string { return "/docs/retries" }

// DocsErrors says what each outcome means.
func DocsErrors() string { return "/docs/errors" }

// DocsLimits says what is bounded.
func DocsLimits() string { return "/docs/limits" }

// DocsSources says where requests come from.
func DocsSources() string { return "/docs/sources" }
