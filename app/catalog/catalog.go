// Package catalog is what a platform publishes, as its tenants can read it: the types of events with their documentation.
//
// It promises that the catalog is one for all tenants and written by the platform alone, that a type need not stand in it to be published or
// subscribed to, and that schemas and examples are JSON, kept as they were written.
package catalog
