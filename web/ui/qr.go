package ui

import (
	"strconv"
	"strings"

	"rsc.io/qr"
)

// quiet is how many light modules a reader wants around a code (ISO/IEC 18004).
const quiet = 4

// qrCode is the picture of a text: how many modules it is wide, its margin included, and the dark ones as a path of SVG; a text that is too long for any
// picture has none.
func qrCode(text string) (size int, dark string) {
	code, err := qr.Encode(text, qr.M)
	if err != nil {
		return 0, ""
	}
	var path strings.Builder
	for y := range code.Size {
		for x := 0; x < code.Size; x++ {
			run := 0
			for code.Black(x+run, y) {
				run++
			}
			if run > 0 {
				n := strconv.Itoa
				path.WriteString("M" + n(x+quiet) + " " + n(y+quiet) + "h" + n(run) + "v1h-" + n(run) + "z")
				x += run
			}
		}
	}
	return code.Size + 2*quiet, path.String()
}

func qrBox(size int) string { return "0 0 " + strconv.Itoa(size) + " " + strconv.Itoa(size) }
