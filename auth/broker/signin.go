package broker

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Paths below Options.PublicURL that Handler serves besides clientPath and
// callbackPath.
const (
	connectPath     = "/oauth/connect"     // where links lead to
	signInPath      = "/oauth/sign-in"     // sends users to their issuer, also those who are signed in
	signedInPath    = "/oauth/signed-in"   // where issuers send them back to
	consentPath     = "/oauth/consent"     // takes the answer
	connectionsPath = "/oauth/connections" // shows what a user has let the gateway have
	revokePath      = "/oauth/revoke"      // and takes it back
)

// Bounds of what browsers send, and of what is done for them.
const (
	maxQuery    = 16 << 10 // bytes; codes and tickets are in it
	maxForm     = 16 << 10 // bytes
	requestTime = 30 * time.Second
)

// site is where browsers reach the pages.
type site struct {
	root   string // Options.PublicURL, without a slash at its end
	path   string // of it
	secure bool   // whether it is https
}

// newSite gives the site at a URL; one without a root where there are no pages. They are
// at https URLs and on this machine only (2026-07-28, basic/authorization/
// security-considerations, Communication Security): cookies would be everybody's else.
func newSite(publicURL string) *site {
	u, err := url.Parse(publicURL)
	if err != nil || u.Host == "" || u.Scheme != "https" && !isLoopback(u.Hostname()) {
		return &site{}
	}
	return &site{strings.TrimSuffix(publicURL, "/"), strings.TrimSuffix(u.Path, "/"), u.Scheme == "https"}
}

// Handler gives the pages by which users sign in, agree, and take back what they have
// agreed to, at /oauth/ below Options.PublicURL; and the gateway's Client ID Metadata
// Document. The path of the public URL may be left in front of theirs, or not.
func (b *Broker) Handler() http.Handler { return http.HandlerFunc(b.signIns.serve) }

func (in *signIns) serve(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if below, ok := strings.CutPrefix(path, in.site.path); ok && strings.HasPrefix(below, "/oauth/") {
		path = below
	}
	if path == clientPath {
		in.b.serveClientMetadata(w, r)
		return
	}
	in.pages.headers(w.Header())
	ctx, cancel := context.WithTimeout(r.Context(), requestTime)
	defer cancel()
	if err := in.route(w, r.WithContext(ctx), path); err != nil {
		in.fail(w, r, err)
	}
}

// route answers a request, or gives an error for fail.
func (in *signIns) route(w http.ResponseWriter, r *http.Request, path string) error {
	type action = func(w http.ResponseWriter, r *http.Request, form url.Values) error
	gets := map[string]action{
		connectPath: in.connect, signInPath: in.signIn, signedInPath: in.signedIn,
		callbackPath: in.callback, connectionsPath: in.connections,
	}
	posts := map[string]action{consentPath: in.consent, revokePath: in.revoke}
	if in.site.root == "" {
		return &pageError{status: http.StatusNotFound, title: "There is no such page"}
	}
	do, method := gets[path], http.MethodGet
	if do == nil {
		do, method = posts[path], http.MethodPost
	}
	switch {
	case do == nil:
		return &pageError{status: http.StatusNotFound, title: "There is no such page"}
	case r.Method != method:
		w.Header().Set("Allow", method)
		return &pageError{status: http.StatusMethodNotAllowed, title: "This page cannot be used like that"}
	}
	form, err := readForm(w, r)
	if err != nil {
		return err
	}
	release, ok := in.slots.take(in.tenantOf(r, path, form))
	if !ok {
		w.Header().Set("Retry-After", "1")
		return &pageError{status: http.StatusServiceUnavailable, title: "Too many sign-ins at the same time", text: []string{"Try again in a moment."}}
	}
	defer release()
	return do(w, r, form)
}

// readForm gives the parameters of a request: of its query, or of its body where it is a
// POST. None may be there twice (RFC 6749, section 3.1).
func readForm(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	bad := &pageError{status: http.StatusBadRequest, title: "This request cannot be understood", text: []string{startAgain}}
	if len(r.URL.RawQuery) > maxQuery {
		return nil, bad
	}
	form, err := url.ParseQuery(r.URL.RawQuery)
	if r.Method == http.MethodPost {
		// Browsers that say where a form is from are believed; the others send the
		// token of the form, as all do.
		if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
			return nil, &pageError{status: http.StatusForbidden, title: "This form is from another site", text: []string{startAgain}}
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		err = r.ParseForm()
		form = r.PostForm
	}
	if err != nil {
		return nil, bad
	}
	for _, values := range form {
		if len(values) > 1 {
			return nil, bad
		}
	}
	return form, nil
}

// startAgain tells users what to do when something cannot go on.
const startAgain = "Go back to your application and start again there."

// fail shows what went wrong. What a user caused is not worth a line in the log.
func (in *signIns) fail(w http.ResponseWriter, r *http.Request, err error) {
	var p *pageError
	if !errors.As(err, &p) {
		p = &pageError{status: http.StatusServiceUnavailable, title: "That did not work", text: []string{"The gateway cannot do this at the moment.", startAgain}, err: err}
	}
	if p.err != nil && r.Context().Err() == nil {
		in.b.opts.Logger.Warn("a page of the sign-in failed", "path", r.URL.Path, "status", p.status, "error", p.err)
	}
	in.pages.show(w, p.status, "message", &messagePage{page: page{Title: p.title}, Text: p.text, Detail: p.detail, Links: p.links})
}

// redirect sends the browser elsewhere.
func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// withQuery adds parameters to a URL, in place of those of the same names.
func withQuery(address string, add url.Values) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return "", errors.New("an address of the server is no URL of a page")
	}
	q := u.Query()
	for name, values := range add {
		q[name] = slices.Clone(values)
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}
