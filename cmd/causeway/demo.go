package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/cmd/causeway/demo"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway"
	"github.com/causeway-mcp/causeway/gateway/telemetry"
)

// demoGrace bounds how long the demo waits for what is under way when it ends.
const demoGrace = 5 * time.Second

// runDemo is `causeway demo`.
func runDemo(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	defaults := gateway.DefaultOptions()
	fs := newFlags("demo", "",
		"Runs a gateway in front of three sample servers, in one process, until Ctrl-C.\n"+
			"It needs no files and keeps nothing.")
	listen := fs.String("listen", defaults.Listen, "loopback `address` of the MCP endpoint; port 0 takes a free one")
	admin := fs.String("admin-listen", defaults.AdminListen, "`address` of metrics and health; empty for none; a free port is taken when the default one is not free")
	level := fs.String("log-level", "warn", "least `level` of what is logged: debug, info, warn or error")
	if code, ok := parseFlags(fs, args, 0, 0, stdout, stderr); !ok {
		return code
	}
	log, err := telemetry.NewLogger(stderr, telemetry.FormatText, *level)
	if err == nil {
		err = checkLoopback(*listen)
	}
	if err != nil {
		fmt.Fprintf(stderr, "causeway demo: %v\n", err)
		return exitUsage
	}
	d := &demonstration{listen: *listen, admin: *admin, adminMayMove: *admin == defaults.AdminListen, log: log}
	if err := d.start(ctx); err != nil {
		fmt.Fprintf(stderr, "causeway demo: %v\n", err)
		return exitFailure
	}
	d.describe(stdout, commandName(os.Args[0]))
	<-ctx.Done()
	fmt.Fprintln(stdout, "\nStopping.")
	if err := d.stop(); err != nil {
		fmt.Fprintf(stderr, "causeway demo: %v\n", err)
		return exitFailure
	}
	return exitOK
}

// checkLoopback refuses an address that others could reach, since the demo asks
// nobody who they are.
func checkLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("--listen: %q is not host:port, such as 127.0.0.1:8081", addr)
	}
	if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("--listen: %q is not a loopback address, such as 127.0.0.1:8081; the demo asks nobody who they are, so it must not be reached from elsewhere", addr)
}

// demonstration is a running demo.
type demonstration struct {
	listen, admin string
	adminMayMove  bool // to a free port
	log           *slog.Logger

	samples *demo.Servers
	gateway *gateway.Gateway
}

// start starts the sample servers and the gateway. When it fails, nothing is left
// running.
func (d *demonstration) start(ctx context.Context) error {
	opts := demo.Options{}
	if d.log.Enabled(ctx, slog.LevelDebug) {
		opts.Logger = d.log // the SDK logs each request at the level info
	}
	var err error
	if d.samples, err = demo.Start(opts); err != nil {
		return err
	}
	err = d.startGateway(ctx)
	if d.adminMayMove && inUse(err, d.admin) {
		_ = d.gateway.Stop(ctx) // what it says was said by the failed start
		d.admin = "127.0.0.1:0"
		err = d.startGateway(ctx)
	}
	switch {
	case err == nil:
		return nil
	case inUse(err, d.listen):
		err = fmt.Errorf("%s is already in use; stop what listens there, or choose another address, such as --listen 127.0.0.1:8081 (port 0 takes a free one)", d.listen)
	case inUse(err, d.admin):
		err = fmt.Errorf("%s is already in use; choose another address with --admin-listen, or none with --admin-listen=", d.admin)
	}
	return errors.Join(err, d.stop())
}

func (d *demonstration) startGateway(ctx context.Context) error {
	info, _ := debug.ReadBuildInfo()
	registered := &tenant.Tenant{Name: tenant.DefaultName, Separator: "_"}
	for _, sample := range d.samples.Upstreams() {
		u := tenant.Upstream{
			Alias: sample.Alias, URL: sample.URL, Prefix: tenant.PrefixAlias, Description: sample.Description,
			ManagedBy: tenant.ManagedByFile, // they are on loopback addresses
		}
		u.Version = u.Digest()
		registered.Upstreams = append(registered.Upstreams, u)
	}
	registry := telemetry.NewRegistry()
	opts := gateway.DefaultOptions()
	opts.Listen, opts.AdminListen = d.listen, d.admin
	opts.Version = version(info)
	opts.Limits.ShutdownGrace = demoGrace
	opts.Store = tenant.NewMemory([]*tenant.Tenant{registered})
	opts.Cache = cache.NewMemory(0)
	opts.Ring = seal.NewRandom()
	opts.Logger = d.log
	opts.Registerer, opts.Gatherer = registry, registry
	gw, err := gateway.New(opts)
	if err != nil {
		return fmt.Errorf("make the gateway: %w", err)
	}
	d.gateway = gw
	return gw.Start(ctx)
}

// inUse tells whether an error says that another process listens on addr.
func inUse(err error, addr string) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && errors.Is(err, syscall.EADDRINUSE) && op.Addr != nil && samePort(op.Addr.String(), addr)
}

// samePort tells whether two addresses have the same port; the hosts may be
// written in different ways.
func samePort(a, b string) bool {
	_, p, errA := net.SplitHostPort(a)
	_, q, errB := net.SplitHostPort(b)
	return errA == nil && errB == nil && p == q
}

// stop ends the gateway and then the servers behind it.
func (d *demonstration) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*demoGrace)
	defer cancel()
	var errs []error
	if d.gateway != nil {
		errs = append(errs, d.gateway.Stop(ctx))
	}
	return errors.Join(append(errs, d.samples.Stop(ctx))...)
}

// describe prints where everything is and what to try. program is how to call
// this one.
func (d *demonstration) describe(w io.Writer, program string) {
	url := "http://" + d.gateway.Addr().String() + "/mcp"
	fmt.Fprintf(w, "Causeway is running, with three sample servers behind it.\n\n  MCP endpoint  %s\n", url)
	if admin := d.gateway.AdminAddr(); admin != nil {
		fmt.Fprintf(w, "  metrics       http://%s/metrics\n", admin)
	}
	fmt.Fprint(w, "\n")
	for _, u := range d.samples.Upstreams() {
		fmt.Fprintf(w, "  %-12s  %s  %s\n", u.Alias, u.URL, u.Description)
	}
	more := ""
	if url != defaultURL {
		more = " --url " + url
	}
	fmt.Fprintf(w, `
Try, in another terminal:

  %[1]s tools%[2]s
  %[1]s call%[2]s travel_searchFlights '{"origin":"NYC","destination":"Barcelona","date":"2026-06-15"}'
  %[1]s call%[2]s travel_bookHotel '{"city":"Barcelona","checkIn":"2026-06-15","nights":3}'

The last one asks you to confirm. Ctrl-C ends the demo.
`, program, more)
}

// commandName is how a user can call this program again: arg0, unless that is a
// file that "go run" made for the moment.
func commandName(arg0 string) string {
	if strings.Contains(arg0, "go-build") {
		return "go run ./cmd/causeway"
	}
	return cmp.Or(arg0, "causeway")
}
