package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway"
	"github.com/causeway-mcp/causeway/gateway/config"
	"github.com/causeway-mcp/causeway/gateway/telemetry"
)

// pollInterval is how often the configuration file is looked at.
const pollInterval = 2 * time.Second

// traceFlush bounds how long the end of the process waits for the last spans.
const traceFlush = 5 * time.Second

// runServe is `causeway serve`. hangups are the SIGHUPs of the process.
func runServe(ctx context.Context, hangups <-chan os.Signal, args []string, stdout, stderr io.Writer) int {
	fs := newFlags("serve", "", "Serves the tenants of a configuration file until SIGINT or SIGTERM; a second\nsignal ends the process at once. SIGHUP or a change of the file reloads it.")
	files := addConfigFlags(fs)
	if code, ok := parseFlags(fs, args, 0, 0, stdout, stderr); !ok {
		return code
	}
	loader := files.loader()
	data, err := config.ReadFile(*files.path)
	if err != nil {
		fmt.Fprintf(stderr, "causeway serve: %v\n", err)
		return exitFailure
	}
	cfg, err := loader.Parse(data)
	if err != nil {
		writeFaults(stderr, *files.path, err)
		return exitFailure
	}
	log, err := telemetry.NewLogger(stderr, cfg.Log.Format, cfg.Log.Level.String())
	if err != nil {
		fmt.Fprintf(stderr, "causeway serve: %v\n", err)
		return exitFailure
	}
	reload := &reloader{
		path: *files.path, loader: loader, log: log,
		tenants: tenant.NewMemory(cfg.Tenants), started: cfg, seen: sha256.Sum256(data),
	}
	var faults config.Faults
	switch err := serve(ctx, hangups, reload); {
	case errors.As(err, &faults): // of secrets, which are read now
		writeFaults(stderr, *files.path, err)
		return exitFailure
	case err != nil:
		log.Error("serve", "error", err)
		return exitFailure
	}
	return exitOK
}

// serve runs a gateway with the configuration that r was started with, until ctx
// ends or a listener fails.
func serve(ctx context.Context, hangups <-chan os.Signal, r *reloader) (err error) {
	info, _ := debug.ReadBuildInfo()
	tracing, err := telemetry.NewTracing(ctx, version(info))
	if err != nil {
		return err
	}
	defer flush(ctx, tracing, r.log)
	gw, err := gateway.FromConfig(ctx, r.started, gateway.Deps{
		Logger:    r.log,
		Tenants:   r.tenants,
		Tracer:    tracing.Provider.Tracer(telemetry.ServiceName),
		Version:   version(info),
		LookupEnv: os.LookupEnv,
	})
	if err != nil {
		return err
	}
	r.log.Info("configuration read", "file", r.path, "tenants", len(r.started.Tenants), "upstreams", countUpstreams(r.started))
	r.warn(r.started)
	if len(r.started.Tenants) == 0 {
		r.log.Warn("the configuration has no tenants, so nothing can be used", "file", r.path)
	}

	watching, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		tick := time.NewTicker(pollInterval)
		defer tick.Stop()
		r.watch(watching, hangups, tick.C)
	})
	defer watcher.Wait()
	defer stop()
	return gw.Run(ctx)
}

// flush sends the last spans when the process ends.
func flush(ctx context.Context, tracing *telemetry.Tracing, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), traceFlush)
	defer cancel()
	if err := tracing.Shutdown(ctx); err != nil {
		log.Warn("send the last spans", "error", err)
	}
}
