package path

// Inboxes is the list of inboxes; its POST makes one.
func Inboxes() string { return "/inboxes" }

// Inbox is one inbox with what it has received, showing the latest.
func Inbox(id string) string { return join("inboxes", id) }

// InboxLive is the stream that says when something has come.
func InboxLive(id string) string { return join("inboxes", id, "live") }

// InboxRequest is the inbox's page showing the given request, its body in one of the views.
func InboxRequest(id, number, view string) string {
	return with(join("inboxes", id, "requests", number), "view", view)
}

// InboxBody is what is kept of a request's body, as text in a sandbox.
func InboxBody(id, number string) string { return join("inboxes", id, "requests", number, "body") }

// InboxAnswer takes the POST that sets what the inbox answers.
func InboxAnswer(id string) string { return join("inboxes", id, "answer") }

// InboxExtend takes the POST that lets the inbox live on.
func InboxExtend(id string) string { return join("inboxes", id, "extend") }

// InboxDelete asks before deleting (GET) and deletes (POST).
func InboxDelete(id string) string { return join("inboxes", id, "delete") }
