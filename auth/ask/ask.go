// Package ask sends questions to authorization servers, bounded and with no secret
// going astray, and knows where their metadata is. It is a leaf: it imports none of our
// packages.
package ask

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// MaxAnswer bounds the body of an answer, in bytes.
const MaxAnswer = 512 << 10

// maxRedirects is how many are followed where the client does not say it itself.
const maxRedirects = 3

// Client gives a copy of c that sends a question nowhere else: it holds a token and a
// secret. Only what is read by GET is read elsewhere, as c allows, or else within the
// same origin.
func Client(c *http.Client) *http.Client {
	own, follow := *c, c.CheckRedirect
	own.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		switch {
		case via[0].Method != http.MethodGet:
			return http.ErrUseLastResponse
		case follow != nil:
			return follow(req, via)
		case req.URL.Scheme != via[0].URL.Scheme || req.URL.Host != via[0].URL.Host || len(via) >= maxRedirects:
			return errors.New("redirects too often, or to somebody else")
		}
		return nil
	}
	return &own
}

// Answer is what a server answered.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte // at most MaxAnswer bytes
}

// Do sends a request by a client that Client gave. It must go to an https URL; plain
// allows http too. Errors hold nothing of what was sent or answered but the URL.
func Do(c *http.Client, req *http.Request, plain bool) (*Answer, error) {
	where := req.URL.Redacted()
	if req.URL.Scheme != "https" && !(plain && req.URL.Scheme == "http") {
		return nil, fmt.Errorf("%s: not https", where)
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", where, err)
	case len(raw) > MaxAnswer:
		return nil, fmt.Errorf("%s: more than %d bytes", where, MaxAnswer)
	}
	return &Answer{resp.StatusCode, resp.Header, raw}, nil
}

// Places gives where an issuer's metadata may be, in the order in which to ask
// (2026-07-28, basic/authorization/authorization-server-discovery), and last where
// servers have it that append the path of RFC 8414 too.
func Places(issuer string) ([]string, error) {
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(issuer, "#") {
		return nil, errors.New("it is no issuer identifier (RFC 8414, section 2)")
	}
	const oauth, oidc = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	root := u.Scheme + "://" + u.Host
	if path == "" {
		return []string{root + oauth, root + oidc}, nil
	}
	return []string{root + oauth + path, root + oidc + path, root + path + oidc, root + path + oauth}, nil
}
