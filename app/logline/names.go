package logline

// The names of what stands in the canonical lines.
const (
	RequestID    = "request_id"
	Method       = "method"
	Route        = "route"
	Status       = "status"
	Bytes        = "bytes"
	TookMS       = "took_ms"
	Caller       = "caller"
	TenantID     = "tenant_id"
	Error        = "error"
	AttemptCount = "attempts"
	Delivered    = "delivered"
	Undelivered  = "undelivered"
	Retried      = "retried"
	Classes      = "classes"
	Endpoints    = "endpoints"
	EndpointID   = "endpoint_id"
	SlowestMS    = "slowest_ms"
	WorkerID     = "worker_id"
)

// Names are the names of all attributes of the program's log, with what each holds; a test holds the program to them. Ids are ours; what people have
// written is in none but error, panic and stack, which are escaped.
var Names = map[string]string{
	RequestID:    "id of a request, also its X-Request-Id",
	Method:       "method of a request",
	Route:        "pattern of its route",
	Status:       "status that was answered",
	Bytes:        "length of the answer's body",
	TookMS:       "milliseconds that something took",
	Caller:       "id of the key or person who asked",
	TenantID:     "id of a tenant",
	Error:        "what went wrong, in one line",
	AttemptCount: "attempts in a batch",
	Delivered:    "deliveries that ended well with them",
	Undelivered:  "deliveries that ended otherwise",
	Retried:      "deliveries that go on",
	Classes:      "attempts by how they ended",
	Endpoints:    "how many endpoints they went to",
	EndpointID:   "id of an endpoint",
	SlowestMS:    "milliseconds of the slowest attempt",
	WorkerID:     "id under which a process holds lanes",

	"addr":                 "address that a process listens on",
	"again_in":             "how long until the next try",
	"attempt":              "number of a try",
	"code":                 "code of an answer or of a database error",
	"data":                 "the data folder",
	"day":                  "day of a partition",
	"deliveries":           "how many deliveries",
	"delivery_id":          "id of a delivery",
	"drain":                "how long the web serves on",
	"end":                  "how a process ended",
	"events":               "how many events",
	"failure":              "what a demonstration's seller made of it",
	"first":                "kind of the first of several",
	"folder":               "a folder",
	"from":                 "where something is fetched",
	"hanging":              "lanes that wait for an answer",
	"host":                 "host that the proxy was asked for, at level debug",
	"id":                   "id of a thing of ours",
	"index":                "name of an index",
	"interrupted_attempts": "attempts of a process that is gone",
	"job_id":               "number of a job",
	"kind":                 "kind of a job or a mail",
	"lanes":                "how many lanes",
	"mail":                 "id of a mail",
	"migration":            "name of a migration",
	"newest":               "how many are sealed by the newest key",
	"news":                 "how many news",
	"panic":                "what a panic said",
	"pid":                  "number of a process",
	"port":                 "a port of this machine",
	"reason":               "why a mail is not sent",
	"results":              "how many attempts wait",
	"rev":                  "revision of an endpoint",
	"ring":                 "ids of the keys of the ring",
	"roles":                "what a process does",
	"rows":                 "how many rows were changed",
	"seconds":              "how far a clock is off",
	"secret_id":            "id of a signing secret",
	"seller":               "uid of a demonstration's seller",
	"stack":                "where a panic was",
	"steps":                "how many steps",
	"sweep":                "name of a sweep",
	"table":                "name of a table",
	"tenants":              "how many tenants",
	"total":                "how many there are",
	"trace":                "where a panic was",
	"try":                  "number of a try",
	"url":                  "our public address",
	"user":                 "account that the embedded server runs as",
	"verdict":              "what the proxy decided",
	"version":              "version of Postgres",
	"what":                 "what kind of sealed thing",
}
