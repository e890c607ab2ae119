//go:build !race

package lane

const raced = false
