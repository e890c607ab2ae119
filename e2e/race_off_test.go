//go:build !race

package e2e

// raced says that the tests run with the race detector; then the program does too.
const raced = false
