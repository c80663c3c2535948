//go:build !unix

package gatewaytest

import "testing"

// NeedFiles does nothing: the system has no such limit.
func NeedFiles(testing.TB, uint64) {}
