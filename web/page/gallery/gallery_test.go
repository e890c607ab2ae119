package gallery_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"waybill/web/page/gallery"
	"waybill/web/path"
)

func TestGalleryShowsEverything(t *testing.T) {
	t.Parallel()
	handler := gallery.Handler()
	for name, address := range addresses() {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest("GET", address+"?theme=dark", nil))
		body := recorder.Body.String()
		if recorder.Code != 200 || !strings.Contains(body, `<html data-frozen data-theme="dark"`) || strings.Contains(body, "data-live=") {
			t.Errorf("%s: %d, not frozen, not dark or following a stream", name, recorder.Code)
		}
		if policy := recorder.Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", name, policy)
		}
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest("GET", path.Gallery(), nil))
	for name, address := range addresses() {
		if strings.Contains(name, "__") && !strings.Contains(recorder.Body.String(), `href="`+address+`"`) {
			t.Errorf("the index has no link to %s", name)
		}
	}
}
