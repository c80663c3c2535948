// Package causeway is the repository's root. It holds no code: only the tests
// that keep the repository's own rules (who imports whom, sizes, habits). The
// program is in cmd/causeway.
package causeway
