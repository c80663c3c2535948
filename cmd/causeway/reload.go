package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway/config"
)

// reloader brings changes of the configuration file into a running gateway. A
// faulty file is refused as a whole, and what runs stays.
type reloader struct {
	path    string
	loader  config.Loader
	log     *slog.Logger
	tenants *tenant.Memory // those of the file
	started *config.Config // what the process runs with, but for tenants

	seen      [sha256.Size]byte // the content that was last taken over or refused
	candidate [sha256.Size]byte // other content that the last poll found
	missing   bool              // the last poll could not read the file
}

// watch reloads at each hangup, and when a tick finds other content. The content
// counts and not the time or the inode, so that the way in which Kubernetes swaps
// a mounted ConfigMap, by a symbolic link to another directory, is seen too. It
// returns when ctx ends.
func (r *reloader) watch(ctx context.Context, hangups <-chan os.Signal, tick <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			r.hangup()
		case <-tick:
			r.poll()
		}
	}
}

// hangup reloads whether or not the file has changed.
func (r *reloader) hangup() {
	data, err := config.ReadFile(r.path)
	if err != nil {
		r.log.Error("the configuration cannot be read; the running one stays", "error", err)
		return
	}
	r.apply(data, sha256.Sum256(data))
}

// poll reloads when the file holds other content than before, and still the same
// as one poll ago: a file that is being written is not taken for a short one.
func (r *reloader) poll() {
	data, err := config.ReadFile(r.path)
	if err != nil {
		if !r.missing {
			r.log.Warn("the configuration cannot be read; the running one stays", "error", err)
		}
		r.missing = true
		return
	}
	r.missing = false
	digest := sha256.Sum256(data)
	switch {
	case digest == r.seen:
		r.candidate = digest
	case digest != r.candidate:
		r.candidate = digest
	default:
		r.apply(data, digest)
	}
}

// apply takes content over, or refuses it and says why.
func (r *reloader) apply(data []byte, digest [sha256.Size]byte) {
	r.seen, r.candidate = digest, digest
	loader := r.loader
	loader.Dir = filepath.Dir(r.path)
	next, err := loader.Parse(data)
	if err != nil {
		r.refuse(err)
		return
	}
	for _, key := range config.NeedRestart(r.started, next) {
		r.log.Warn("a changed key takes effect with a restart only", "file", r.path, "key", key)
	}
	r.warn(next)
	r.tenants.Replace(next.Tenants)
	r.log.Info("configuration reloaded", "file", r.path, "tenants", len(next.Tenants), "upstreams", countUpstreams(next))
}

// warn logs what is valid and most likely not meant. Secrets that are read when they are
// used are looked for too: the gateway serves without them, and they may still come.
func (r *reloader) warn(cfg *config.Config) {
	for _, w := range cfg.Warnings() {
		r.log.Warn("configuration", "file", r.path, "warning", w.String())
	}
	for _, check := range []func(func(string) (string, bool)) error{cfg.CheckIssuers, cfg.CheckCredentials, cfg.CheckVariables} {
		var missing config.Faults
		errors.As(check(r.loader.LookupEnv), &missing)
		for _, f := range missing {
			r.log.Warn("a secret cannot be had; what needs it fails until it can", "file", r.path, "fault", f.String())
		}
	}
}

// refuse logs all faults.
func (r *reloader) refuse(err error) {
	var faults config.Faults
	if !errors.As(err, &faults) {
		r.log.Error("configuration refused; the running one stays", "file", r.path, "error", err)
		return
	}
	for _, f := range faults {
		r.log.Error("configuration fault", "file", r.path, "fault", f.String())
	}
	r.log.Error("configuration refused; the running one stays", "file", r.path, "faults", len(faults))
}
