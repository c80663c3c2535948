package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
)

// source gives what shows the server who makes a request; nil for nobody. A program
// is shown nobody.
func (conf *Config) source(req *Request) CredentialSource {
	switch {
	case conf.Process != nil:
		return nil
	case req.Credentials != nil:
		return req.Credentials
	}
	return conf.Credentials
}

// show asks a source for the lines of a request.
func show(ctx context.Context, source CredentialSource) (http.Header, error) {
	lines, err := source.Credential(ctx)
	if err == nil {
		err = checkLines(lines)
	}
	if err != nil {
		return nil, unshown(ctx, fmt.Errorf("get credentials: %w", err))
	}
	return lines, nil
}

// refused tells a source that the server refused lines of it. again is true when the
// source may have others now.
func refused(ctx context.Context, source CredentialSource, sent http.Header, resp *http.Response) (again bool, err error) {
	again, err = source.Refused(ctx, sent, resp.StatusCode, resp.Header.Values("WWW-Authenticate"))
	if err != nil {
		return false, unshown(ctx, fmt.Errorf("the server refuses the credentials with status %d: %w", resp.StatusCode, err))
	}
	return again, nil
}

// unshown makes the error of a source that has failed. When who asked has left, it is
// why; a deadline that passes meanwhile is not the server's fault.
func unshown(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !isDeadline(cause) {
		return cause
	}
	return &linkError{&fault{Error: Error{Class: ClassUnauthorized, Err: err}, unshown: true}}
}

func isDeadline(err error) bool {
	return errors.Is(err, errDeadline) || errors.Is(err, context.DeadlineExceeded)
}

// isUnshown tells whether it was the source that failed.
func isUnshown(err error) bool {
	le, ok := errors.AsType[*linkError](err)
	return ok && le.fault.unshown
}

// refuses tells whether a status refuses who asks.
func refuses(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// exchange makes one HTTP request with the lines of a source, which may be nil, and
// makes it once more when the server refuses them and the source has others: what was
// refused was not carried out.
func exchange(ctx context.Context, source CredentialSource, send func(lines http.Header) (*http.Response, error)) (*http.Response, error) {
	if source == nil {
		return send(nil)
	}
	lines, err := show(ctx, source)
	if err != nil {
		return nil, err
	}
	for last := false; ; last = true {
		resp, err := send(lines)
		if err != nil || !refuses(resp.StatusCode) {
			return resp, err
		}
		again, err := refused(ctx, source, lines, resp)
		if err == nil && (last || !again) {
			return resp, nil
		}
		// A rest that is short is read, so that the connection can be used again.
		_, _ = io.CopyN(io.Discard, resp.Body, drainBytes)
		resp.Body.Close()
		if err != nil {
			return nil, err
		}
		if lines, err = show(ctx, source); err != nil {
			return nil, err
		}
	}
}

// sessionSource is the source of one session, which knows whether it is waited for.
type sessionSource struct {
	source CredentialSource
	waits  atomic.Int32
}

var _ CredentialSource = (*sessionSource)(nil)

// Credential implements CredentialSource.
func (s *sessionSource) Credential(ctx context.Context) (http.Header, error) {
	s.waits.Add(1)
	defer s.waits.Add(-1)
	return s.source.Credential(ctx)
}

// Refused implements CredentialSource.
func (s *sessionSource) Refused(ctx context.Context, sent http.Header, status int, challenges []string) (bool, error) {
	s.waits.Add(1)
	defer s.waits.Add(-1)
	return s.source.Refused(ctx, sent, status, challenges)
}

// blame makes a deadline that passes while the session waits for its source a failure
// of that, and not of the server.
func (s *session) blame(err error) error {
	if s.source == nil || s.source.waits.Load() == 0 || !isDeadline(err) {
		return err
	}
	return &linkError{&fault{Error: Error{Class: ClassUnauthorized, Err: fmt.Errorf("get credentials: %w", err)}, unshown: true}}
}
