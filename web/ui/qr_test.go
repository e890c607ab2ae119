package ui

import (
	"strings"
	"testing"
)

// The picture is read back module by module: it is square, has its quiet margin and the three finder patterns.
func TestQRCode(t *testing.T) {
	t.Parallel()
	size, dark := qrCode("otpauth://totp/Waybill:meera@silkhouse.example?secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP&issuer=Waybill&algorithm=SHA1&digits=6&period=30")
	if size < 21+2*quiet || (size-2*quiet-21)%4 != 0 {
		t.Fatalf("%d modules are no size of a code", size)
	}
	modules := map[[2]int]bool{}
	for run := range strings.SplitSeq(strings.TrimSuffix(dark, "z"), "z") {
		var x, y, n int
		if !scan(run, &x, &y, &n) {
			t.Fatalf("the path holds %q", run)
		}
		for i := range n {
			modules[[2]int{x + i, y}] = true
		}
	}
	for at := range modules {
		if min(at[0], at[1]) < quiet || max(at[0], at[1]) >= size-quiet {
			t.Errorf("a module stands in the margin: %v", at)
		}
	}
	last := size - quiet - 7
	for _, corner := range [][2]int{{quiet, quiet}, {last, quiet}, {quiet, last}} {
		for i := range 7 {
			for j := range 7 {
				ring := max(abs(i-3), abs(j-3))
				if got := modules[[2]int{corner[0] + i, corner[1] + j}]; got != (ring != 2) {
					t.Fatalf("the finder pattern at %v is broken at %d, %d", corner, i, j)
				}
			}
		}
	}
	if size, dark := qrCode(strings.Repeat("x", 5000)); size != 0 || dark != "" {
		t.Errorf("a text that fits no code gives %d modules", size)
	}
}

func scan(run string, x, y, n *int) bool {
	rest := run
	for _, part := range []struct {
		sign string
		to   *int
	}{{"M", x}, {" ", y}, {"h", n}} {
		if !strings.HasPrefix(rest, part.sign) {
			return false
		}
		rest = rest[1:]
		*part.to = 0
		for rest != "" && rest[0] >= '0' && rest[0] <= '9' {
			*part.to = *part.to*10 + int(rest[0]-'0')
			rest = rest[1:]
		}
	}
	return strings.HasPrefix(rest, "v1h-")
}

func abs(n int) int { return max(n, -n) }
