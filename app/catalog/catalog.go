// Package catalog is the pull side: what may happen (event types), what did happen (events), and the state it led to (resources).
//
// It promises that a tenant reads its own events and no others, each with the exact bytes that are sent to endpoints; that a reader who follows
// the cursor sees every event exactly once, in the order of dispatch, also under concurrent publishers, and is told when events that it
// had not read are no longer kept; that a page is found in bounded time at any depth; and that test events are no part of it.
package catalog
