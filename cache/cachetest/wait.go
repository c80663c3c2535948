package cachetest

import (
	"testing"
	"time"
)

// patience is how long the suites wait for what has to come.
const patience = 10 * time.Second

// Times of what is to expire in a test, and of what is not.
const (
	short = 60 * time.Millisecond
	long  = time.Minute
)

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
	}
}
