package sender

import (
	"testing"
	"unicode/utf8"
)

// checkStorable holds what every outcome promises.
func checkStorable(t testing.TB, out Outcome) {
	t.Helper()
	_, known := phrases[out.Class]
	if !known && out.Class != Delivered {
		t.Errorf("an unknown class: %+v", out)
	}
	if (out.Err == "") != (out.Class == Delivered) {
		t.Errorf("the phrase of %q is %q", out.Class, out.Err)
	}
	if (out.Class == Delivered) != (out.Status >= 200 && out.Status <= 299) {
		t.Errorf("class %q with status %d", out.Class, out.Status)
	}
	texts, size := []string{out.StatusText, out.Proto, out.BodyNote, out.RemoteAddr, out.Err}, 0
	texts = append(texts, out.RetryAfter...)
	for _, h := range out.Header {
		texts = append(texts, h.Name, h.Value)
		size += len(h.Name) + len(h.Value)
	}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			t.Errorf("%q is not UTF-8", text)
		}
		for _, r := range text {
			if r < 0x20 || r >= 0x7f && r < 0xa0 {
				t.Errorf("%q has a control character", text)
			}
		}
	}
	if len(out.Header) > keptHeaders || size > keptHeaderText || len(out.Body) > KeptBody || len(out.StatusText) > keptReason ||
		int64(len(out.Body)) > out.BodySize || out.BodyTruncated != (out.BodySize > int64(len(out.Body))) || len(out.RetryAfter) > keptRetryAfter {
		t.Errorf("out of bounds: %d headers of %d bytes, body %d of %d, truncated %v", len(out.Header), size, len(out.Body), out.BodySize, out.BodyTruncated)
	}
	if out.Total <= 0 || out.Started.IsZero() {
		t.Errorf("no time: %+v", out)
	}
}
