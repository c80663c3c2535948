package redis

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"
)

// TestBreaker has operations come to an end with certain errors, each after a time
// from the one before.
func TestBreaker(t *testing.T) {
	const timeout = 25 * time.Millisecond
	type step struct {
		times int
		after time.Duration
		err   error
	}
	refused := errors.New("connection refused")
	late := context.DeadlineExceeded
	tests := []struct {
		name  string
		steps []step
		want  gobreaker.State
	}{
		{"a few failures", []step{{4, timeout, late}}, gobreaker.StateClosed},
		{"timeouts one after the other", []step{{5, timeout, late}}, gobreaker.StateOpen},
		{"many timeouts at once", []step{{100, 0, late}}, gobreaker.StateClosed},
		{"many timeouts at once, and again", []step{{100, 0, late}, {1, 2 * timeout, late}}, gobreaker.StateClosed},
		{"many timeouts at once, and on and on", []step{{100, 0, late}, {1, timeout, late}, {1, timeout, late}, {1, timeout, late}}, gobreaker.StateOpen},
		{"refused connections", []step{{5, 0, refused}}, gobreaker.StateOpen},
		{"an answer in between", []step{{3, timeout, late}, {1, 0, nil}, {4, timeout, late}}, gobreaker.StateClosed},
		{"moments of timeouts", []step{{20, 0, late}, {20, 0, nil}, {20, 3 * time.Second, nil}, {20, 0, late}}, gobreaker.StateClosed},
		{"one of three, for a while", []step{
			{60, 0, nil}, {4, timeout, late}, {8, 0, nil}, {4, timeout, late}, {8, 0, nil}, {4, timeout, late}, {8, 0, nil},
			{4, timeout, late}, {8, 0, nil}, {4, timeout, late}, {8, 0, nil}, {4, timeout, late}, {8, 0, nil}, {4, timeout, late}, {8, 0, nil},
			{4, timeout, late}, {8, 0, nil}, {4, timeout, late}, {8, 0, nil}, {4, timeout, late}, {8, 0, nil}, {4, timeout, late},
		}, gobreaker.StateOpen},
		{"callers who leave", []step{{100, timeout, notCounted{late}}}, gobreaker.StateClosed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Hour)
				b := newBreaker(timeout, func() {})
				for _, s := range tt.steps {
					for range s.times {
						time.Sleep(s.after)
						_, _ = b.Execute(func() (struct{}, error) { return struct{}{}, s.err })
					}
				}
				if got := b.State(); got != tt.want {
					t.Errorf("the breaker is %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// TestBreakerWaitsForTheProbe holds that no caller is the one to find out whether
// Redis answers again.
func TestBreakerWaitsForTheProbe(t *testing.T) {
	opened := false
	s := &Store{
		opts:    Options{Timeout: time.Second},
		turns:   newTurns(),
		breaker: newBreaker(time.Second, func() { opened = true }),
		health:  newHealth(slog.New(slog.DiscardHandler), prometheus.NewGauge(prometheus.GaugeOpts{})),
	}
	fails := func(context.Context) error { return errors.New("no answer") }
	for range maxInARow {
		_ = s.guard(t.Context(), fails)
	}
	if !opened {
		t.Fatal("the breaker has not opened")
	}
	eventually(t, "the breaker lets a probe through", func() bool { return s.breaker.State() == gobreaker.StateHalfOpen })
	err := s.guard(t.Context(), func(context.Context) error {
		t.Error("a caller was let through")
		return nil
	})
	if !errors.Is(err, ErrUnavailable) {
		t.Errorf("the error is %v, want %v", err, ErrUnavailable)
	}
}
