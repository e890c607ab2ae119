package page_test

import (
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"waybill/assets"
	"waybill/web/page"
)

// walk visits every element.
func walk(n *html.Node, visit func(*html.Node)) {
	if n.Type == html.ElementNode {
		visit(n)
	}
	for child := n.FirstChild; child != nil; child = child.NextSibling {
		walk(child, visit)
	}
}

func attribute(n *html.Node, name string) (string, bool) {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

// text is what is read out of an element: its text and the names of pictures in it.
func text(n *html.Node) string {
	var all strings.Builder
	var visit func(*html.Node)
	visit = func(n *html.Node) {
		if n.Type == html.TextNode {
			all.WriteString(n.Data)
		}
		if label, ok := attribute(n, "aria-label"); ok {
			all.WriteString(label)
		}
		for child := n.FirstChild; child != nil; child = child.NextSibling {
			visit(child)
		}
	}
	visit(n)
	return strings.TrimSpace(all.String())
}

func parse(t *testing.T, document string) *html.Node {
	t.Helper()
	root, err := html.Parse(strings.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// faults lists what is wrong with a document for people who do not see it, and what a content security policy
// without exceptions would refuse.
func faults(root *html.Node) []string {
	var found []string
	fault := func(words ...string) { found = append(found, strings.Join(words, " ")) }
	ids, labelled, headings, titles := map[string]bool{}, map[string]bool{}, 0, 0
	walk(root, func(n *html.Node) {
		if id, ok := attribute(n, "id"); ok {
			if ids[id] {
				fault("two elements have the id", id)
			}
			ids[id] = true
		}
		if n.Data == "label" {
			if target, ok := attribute(n, "for"); ok {
				labelled[target] = true
			}
		}
	})
	walk(root, func(n *html.Node) {
		for _, a := range n.Attr {
			switch {
			case a.Key == "style", strings.HasPrefix(a.Key, "on"), a.Key == "srcdoc", a.Key == "formaction":
				fault(n.Data, "has the attribute", a.Key)
			case (a.Key == "href" || a.Key == "src" || a.Key == "action") && !local(a.Val):
				fault(n.Data, "leads elsewhere:", a.Val)
			case a.Key == "aria-labelledby" || a.Key == "aria-describedby" || a.Key == "popovertarget" || a.Key == "list" || a.Key == "for":
				for target := range strings.FieldsSeq(a.Val) {
					if !ids[target] {
						fault(n.Data, a.Key, "names", target, "which does not exist")
					}
				}
			}
		}
		id, _ := attribute(n, "id")
		_, named := attribute(n, "aria-label")
		switch n.Data {
		case "style", "object", "embed", "base":
			fault("there is an element", n.Data)
		case "script":
			if src, ok := attribute(n, "src"); !ok || !strings.HasPrefix(src, assets.Prefix) || n.FirstChild != nil {
				fault("there is a script that is not one of ours")
			}
		case "iframe":
			if _, ok := attribute(n, "sandbox"); !ok {
				fault("a frame without a sandbox")
			}
		case "input", "select", "textarea":
			if kind, _ := attribute(n, "type"); kind != "hidden" && !named && !labelled[id] && !inside(n, "label") {
				name, _ := attribute(n, "name")
				fault(n.Data, name, "has no label")
			}
		case "button", "a":
			if !named && text(n) == "" {
				fault(n.Data, "has no words")
			}
		case "img":
			if _, ok := attribute(n, "alt"); !ok {
				fault("a picture without words")
			}
		case "svg":
			role, _ := attribute(n, "role")
			hidden, _ := attribute(n, "aria-hidden")
			if role != "img" && hidden != "true" && !inside(n, "svg") {
				fault("a drawing that is neither named nor decoration")
			}
		case "h1":
			titles++
		case "form":
			if method, _ := attribute(n, "method"); method != "post" && method != "get" && method != "dialog" {
				fault("a form without a method")
			}
		}
		if level, ok := headingLevel(n.Data); ok && !inside(n, "dialog") {
			if level > headings+1 {
				fault("a heading", n.Data, "after one of level", strconv.Itoa(headings)+":", text(n))
			}
			headings = level
		}
	})
	if titles != 1 {
		fault("there are", strconv.Itoa(titles), "main headings")
	}
	if !ids["content"] {
		fault("there is no #content to skip to")
	}
	return found
}

func headingLevel(name string) (int, bool) {
	if len(name) != 2 || name[0] != 'h' || name[1] < '1' || name[1] > '6' {
		return 0, false
	}
	return int(name[1] - '0'), true
}

func inside(n *html.Node, name string) bool {
	for n = n.Parent; n != nil; n = n.Parent {
		if n.Data == name {
			return true
		}
	}
	return false
}

// local says that an address stays on our host.
func local(address string) bool {
	return address == "" || strings.HasPrefix(address, "#") || (strings.HasPrefix(address, "/") && !strings.HasPrefix(address, "//"))
}

func TestEveryPageIsSound(t *testing.T) {
	t.Parallel()
	for _, fixture := range page.Fixtures() {
		t.Run(fixture.Name+"/"+fixture.State, func(t *testing.T) {
			t.Parallel()
			for _, fault := range faults(parse(t, render(t, fixture))) {
				t.Error(fault)
			}
		})
	}
}

// TestFaultsAreFound: the checks above see what they claim to see.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]string{
		`<main id=content><h1>a</h1><p style="color:red">`:            "p has the attribute style",
		`<main id=content><h1>a</h1><p onclick="x()">`:                "p has the attribute onclick",
		`<main id=content><h1>a</h1><script>1</script>`:               "there is a script that is not one of ours",
		`<main id=content><h1>a</h1><input name=x>`:                   "input x has no label",
		`<main id=content><h1>a</h1><button></button>`:                "button has no words",
		`<main id=content><h1>a</h1><a href="//x.test">x</a>`:         "a leads elsewhere: //x.test",
		`<main id=content><h1>a</h1><a href="javascript:1">x</a>`:     "a leads elsewhere: javascript:1",
		`<main id=content><h1>a</h1><h3>b</h3>`:                       "a heading h3 after one of level 1: b",
		`<main id=content><h1>a</h1><i id=x></i><b id=x></b>`:         "two elements have the id x",
		`<main id=content><h1>a</h1><p aria-describedby=x>`:           "p aria-describedby names x which does not exist",
		`<main id=content><h1>a</h1><h1>b</h1>`:                       "there are 2 main headings",
		`<main id=content><h1>a</h1><iframe src="/x"></iframe>`:       "a frame without a sandbox",
		`<main id=content><h1>a</h1><svg><path d=""></path></svg>`:    "a drawing that is neither named nor decoration",
		`<main id=content><h1>a</h1><form action="/x"></form></main>`: "a form without a method",
	} {
		if got := strings.Join(faults(parse(t, document)), "; "); got != want {
			t.Errorf("%s: %q, want %q", document, got, want)
		}
	}
}

// TestHeaviestListIsLight holds the page, its stylesheet and its scripts under 100 kB, uncompressed.
func TestHeaviestListIsLight(t *testing.T) {
	t.Parallel()
	shared := 0
	for _, name := range assets.Names() {
		if strings.HasSuffix(name, ".css") || strings.HasSuffix(name, ".js") {
			shared += assets.Size(name)
		}
	}
	for _, fixture := range page.Fixtures() {
		if size := len(render(t, fixture)); size+shared >= 100_000 {
			t.Errorf("%s in state %s: %d bytes of HTML and %d of CSS and JS", fixture.Name, fixture.State, size, shared)
		}
	}
}
