//go:build race

package gatewaytest

// raceEnabled tells whether the tests run with the race detector.
const raceEnabled = true
