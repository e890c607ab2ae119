package page_test

import (
	"reflect"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"waybill/web/page"
	"waybill/web/ui"
)

// hostile are the texts of CASES B58, and some that other escapers have tripped over.
var hostile = []string{
	`javascript:alert(1)`,
	`"><img src=x onerror=alert(1)>`,
	`</script><script>alert(1)</script>`,
	`</textarea></title></style></noscript><svg onload=alert(1)>`,
	`'" onmouseover=alert(1) style=position:fixed x='`,
	`{{7*7}} ${7*7} <%= 7*7 %>`,
	"line\u2028separator\u2029 \x00 \x1b[31m \u202Eright to left",
	`data:text/html,<script>alert(1)</script>`,
	`//evil.test/path`,
	` java` + "\t" + `script:alert(1)`,
	`<!--`, `-->`, `]]>`, `&lt;img src=x onerror=alert(1)&gt;`, "`", "\\",
}

// poisoned is a copy of v with every text in it replaced. Texts of types that are small closed sets (tones,
// reasons) keep their value: the program chooses them.
func poisoned(v reflect.Value, poison string) reflect.Value {
	switch v.Kind() {
	case reflect.String:
		if v.Type() != reflect.TypeFor[string]() {
			return v
		}
		return reflect.ValueOf(poison)
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		fresh := reflect.New(v.Type().Elem())
		fresh.Elem().Set(poisoned(v.Elem(), poison))
		return fresh
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		fresh := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			fresh.Index(i).Set(poisoned(v.Index(i), poison))
		}
		return fresh
	case reflect.Array:
		fresh := reflect.New(v.Type()).Elem()
		for i := range v.Len() {
			fresh.Index(i).Set(poisoned(v.Index(i), poison))
		}
		return fresh
	case reflect.Map:
		fresh := reflect.MakeMap(v.Type())
		for entry := v.MapRange(); entry.Next(); {
			fresh.SetMapIndex(entry.Key(), poisoned(entry.Value(), poison))
		}
		return fresh
	case reflect.Interface:
		if v.IsNil() {
			return v
		}
		return poisoned(v.Elem(), poison)
	case reflect.Struct:
		fresh := reflect.New(v.Type()).Elem()
		fresh.Set(v)
		for i := range v.NumField() {
			if fresh.Field(i).CanSet() {
				fresh.Field(i).Set(poisoned(v.Field(i), poison))
			}
		}
		return fresh
	}
	return v
}

// actors lists what in a document could act: elements, attributes and addresses that only hostile text can have
// put there.
func actors(root *html.Node) []string {
	var found []string
	walk(root, func(n *html.Node) {
		switch n.Data {
		case "img", "object", "embed", "base", "style", "meta":
			if n.Data != "meta" {
				found = append(found, "an element "+n.Data)
			}
		case "script":
			if n.FirstChild != nil {
				found = append(found, "a script with text")
			}
		}
		for _, a := range n.Attr {
			switch {
			case strings.HasPrefix(a.Key, "on"), a.Key == "style", a.Key == "srcdoc", a.Key == "formaction":
				found = append(found, n.Data+" has the attribute "+a.Key)
			case a.Key == "href" || a.Key == "src" || a.Key == "action" || a.Key == "xlink:href":
				if acts(a.Val) {
					found = append(found, n.Data+" "+a.Key+" leads to "+a.Val)
				}
			}
		}
	})
	return found
}

// acts says that following the address would run something. A browser drops white space and control characters
// before it looks at the scheme.
func acts(address string) bool {
	bare := strings.ToLower(strings.Map(func(r rune) rune {
		if r <= ' ' {
			return -1
		}
		return r
	}, address))
	for _, scheme := range []string{"javascript:", "data:", "vbscript:"} {
		if strings.HasPrefix(bare, scheme) {
			return true
		}
	}
	return false
}

// TestHostileTextIsInert puts hostile text into every text of every view model and of the frame (CASES B58).
func TestHostileTextIsInert(t *testing.T) {
	t.Parallel()
	for _, fixture := range page.Fixtures() {
		t.Run(fixture.Name+"/"+fixture.State, func(t *testing.T) {
			t.Parallel()
			for _, poison := range hostile {
				bad := fixture
				bad.Page = poisoned(reflect.ValueOf(fixture.Page), poison).Interface().(page.Page)
				bad.Frame = poisoned(reflect.ValueOf(fixture.Frame), poison).Interface().(ui.Frame)
				for _, actor := range actors(parse(t, render(t, bad))) {
					t.Errorf("%q makes %s", poison, actor)
				}
			}
		})
	}
}

// TestPoisonReachesThePage: the test above would prove nothing if the poison did not get there. Pages that show
// none of their texts (a list that could not be loaded) are few.
func TestPoisonReachesThePage(t *testing.T) {
	t.Parallel()
	reached, all := 0, page.Fixtures()
	for _, fixture := range all {
		bad := fixture
		bad.Page = poisoned(reflect.ValueOf(fixture.Page), "p<o>ison").Interface().(page.Page)
		after := render(t, bad)
		if strings.Contains(after, "p&lt;o&gt;ison") {
			reached++
		}
		if strings.Contains(after, "p<o>ison") {
			t.Errorf("%s in state %s prints it as it is", fixture.Name, fixture.State)
		}
	}
	if reached*10 < len(all)*8 {
		t.Errorf("only %d of %d pages show a text of their model", reached, len(all))
	}
}
