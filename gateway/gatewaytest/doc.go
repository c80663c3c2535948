// Package gatewaytest starts a gateway and the independent programs that tests
// put before and behind it. It is for tests only, and may import all that the
// gateway may.
package gatewaytest
