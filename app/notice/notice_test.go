package notice

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"waybill/web/path"
)

var update = flag.Bool("update", false, "write the golden files anew")

const base = "https://waybill.test"

var at = sampleAt

// TestGolden holds what people are sent: run with -update after a change that was meant, and read the difference.
func TestGolden(t *testing.T) {
	t.Parallel()
	for name, sample := range Samples() {
		made, err := Render(sample, base)
		if err != nil {
			t.Fatal(err)
		}
		for file, got := range map[string]string{name + ".txt": "Subject: " + made.Subject + "\n\n" + made.Text, name + ".html": made.HTML} {
			file = filepath.Join("testdata", file)
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("%v (run with -update)", err)
			}
			if got != string(want) {
				t.Errorf("%s is now\n%s", file, got)
			}
		}
	}
}

// CASES B59: what people typed is shown as they typed it, and is nobody's markup, header or link.
func TestWhatPeopleTypedIsText(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"A & B", "<b>x</b>", `"><img src=x onerror=alert(1)>`, "{{.Secret}}", strings.Repeat("ö", 300), "https://evil.test/login", "javascript:alert(1)"} {
		for kind, n := range map[string]Notice{
			"failing":     Failing(Trouble{Tenant: name, Name: name, URL: name, Title: name, Happened: name, Fix: name, Excerpt: Excerpt([]byte(name))}),
			"disabled":    Disabled(Trouble{Tenant: name, URL: name, Title: name, Happened: name}),
			"undelivered": Undelivered(name, at, time.Hour, []Undone{{Trouble{Name: name, Title: name}, 3, name}}),
			"invitation":  Invitation(name, name, "Owner", "t", at), "welcome": Welcome(name, name),
			"facts": {Subject: words(name), Paragraphs: []string{name}, Facts: []Fact{{name, name}}, Excerpt: name, Button: Button{name, path.Team()}, Footer: []string{name}},
		} {
			made, err := Render(n, base)
			if err != nil {
				t.Fatal(err)
			}
			shown := words(name)
			if !strings.Contains(made.Text, shown) && !strings.Contains(strings.ReplaceAll(made.Text, "\n", " "), shown) {
				t.Errorf("%s: the text does not say %q:\n%s", kind, shown, made.Text)
			}
			root, err := html.Parse(strings.NewReader(made.HTML))
			if err != nil {
				t.Fatal(err)
			}
			var read strings.Builder
			var walk func(*html.Node)
			walk = func(n *html.Node) {
				switch {
				case n.Type == html.TextNode:
					read.WriteString(n.Data)
				case n.Data == "img" || n.Data == "script" || n.Data == "b":
					t.Errorf("%s: %q has become an element %s", kind, name, n.Data)
				}
				for _, a := range n.Attr {
					if a.Key == "href" && a.Val != base && !strings.HasPrefix(a.Val, base+"/") {
						t.Errorf("%s: a link leads to %q", kind, a.Val)
					}
				}
				for child := n.FirstChild; child != nil; child = child.NextSibling {
					walk(child)
				}
			}
			walk(root)
			if !strings.Contains(read.String(), shown) {
				t.Errorf("%s: the HTML does not say %q", kind, shown)
			}
		}
	}
	turned := Invitation("a\r\nBcc: v@t.test", "x\u202ey\u2028", "Owner", "t", at)
	if strings.ContainsAny(turned.Subject, "\r\n\u202e\u2028") {
		t.Errorf("the subject is %q", turned.Subject)
	}
}

func TestTextIsInLines(t *testing.T) {
	t.Parallel()
	for name, sample := range Samples() {
		made, err := Render(sample, base)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(made.Text) {
			if len([]rune(line)) > width+1 && strings.Contains(strings.TrimSpace(line), " ") && !strings.Contains(line, "http") {
				t.Errorf("%s: a line of %d characters: %s", name, len(line), line)
			}
		}
	}
}

func TestWaits(t *testing.T) {
	t.Parallel()
	for try, want := range map[int]time.Duration{1: 15 * time.Second, 2: 30 * time.Second, 5: 4 * time.Minute, 6: 5 * time.Minute, 1000: 5 * time.Minute} {
		if got := doubled(downFirst, downMost, try); got != want {
			t.Errorf("after try %d it waits %s, want %s", try, got, want)
		}
	}
}
