package broker

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
)

//go:embed pages
var pageFiles embed.FS

// Bounds of what others have written and a page shows, in characters.
const (
	maxShown  = 200
	maxDetail = 500
)

// pageTime is how long a browser may take to take a page.
const pageTime = 10 * time.Second

// pages makes the pages that people see: no scripts, nothing from elsewhere.
type pages struct {
	style    template.CSS
	policy   string // Content-Security-Policy
	byName   map[string]*template.Template
	fallback []byte
}

// page is what all pages have. Types that embed it add what their templates show.
type page struct {
	Title string
	Style template.CSS
	Leave string // a URL that the browser goes on to; empty for none
}

func (p *page) base() *page { return p }

// shownPage is a page with its template's data.
type shownPage interface{ base() *page }

// messagePage tells something.
type messagePage struct {
	page
	Text   []string
	Detail string // what a server said
	Links  []pageLink
}

type pageLink struct{ Name, URL string }

func newPages() *pages {
	read := func(name string) string {
		raw, err := pageFiles.ReadFile("pages/" + name)
		if err != nil {
			panic(err) // it is embedded
		}
		return string(raw)
	}
	style := read("style.css")
	sum := sha256.Sum256([]byte(style))
	p := &pages{
		style: template.CSS(style), byName: map[string]*template.Template{},
		// form-action holds for the redirects that follow too, so a form never leads
		// elsewhere: see leave.html.
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
			"'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
		fallback: []byte("Something went wrong.\n"),
	}
	for _, name := range []string{"message", "consent", "leave", "connections"} {
		p.byName[name] = template.Must(template.Must(template.New(name).Parse(read("layout.html"))).Parse(read(name + ".html")))
	}
	return p
}

// headers sets those of all pages and redirects.
func (p *pages) headers(h http.Header) {
	h.Set("Content-Security-Policy", p.policy)
	h.Set("X-Frame-Options", "DENY") // for browsers that do not know frame-ancestors
	h.Set("X-Content-Type-Options", "nosniff")
	// URLs hold tickets and codes, which are no other site's business; and forms are
	// posted with their origin, as they would not be without any referrer.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// show writes a page.
func (p *pages) show(w http.ResponseWriter, status int, name string, data shownPage) {
	data.base().Style = p.style
	var buf bytes.Buffer
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	if err := p.byName[name].ExecuteTemplate(&buf, "layout", data); err != nil {
		h.Set("Content-Type", "text/plain; charset=utf-8")
		status = http.StatusInternalServerError
		buf.Reset()
		buf.Write(p.fallback)
	}
	// The connection may still have the deadline of its last response, or none.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(pageTime))
	h.Set("Content-Length", strconv.Itoa(buf.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes()) // a client that left is no error
}

// shown gives a text of somebody else as a page may show it: bounded, and without
// characters that turn other text around or cannot be seen.
func shown(s string, most int) string {
	n := 0
	out := strings.Map(func(r rune) rune {
		n++
		switch {
		case n > most:
			return -1
		case r == unicode.ReplacementChar, unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co):
			return '\uFFFD'
		}
		return r
	}, s)
	if n > most {
		out += "…"
	}
	return out
}

// hostOf gives the host of a URL, for people to see; empty for others, and for one that is
// not what it looks like.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || !isHost(u.Host) {
		return ""
	}
	return shown(u.Host, maxShown)
}

// pageError is an answer that tells what went wrong: to the user, and to the log.
type pageError struct {
	status int
	title  string
	text   []string
	detail string
	links  []pageLink
	err    error // for the log; nil where a user did nothing unusual
}

// Error is for the log.
func (e *pageError) Error() string {
	if e.err != nil {
		return e.title + ": " + e.err.Error()
	}
	return e.title
}

// Unwrap gives the cause.
func (e *pageError) Unwrap() error { return e.err }
