package upstream

import (
	"errors"
	"fmt"
)

// statusError is an HTTP status that says no more than itself.
type statusError struct {
	status      int
	contentType string
}

// Error gives the status.
func (e *statusError) Error() string {
	if e.contentType == "" {
		return fmt.Sprintf("status %d", e.status)
	}
	return fmt.Sprintf("status %d with content type %q", e.status, e.contentType)
}

// httpStatusOf gives the HTTP status that err is about, or 0.
func httpStatusOf(err error) int {
	var s *statusError
	if errors.As(err, &s) {
		return s.status
	}
	return 0
}
