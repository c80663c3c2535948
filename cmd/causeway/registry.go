package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/federation/tenant/bolt"
	"github.com/causeway-mcp/causeway/gateway"
	"github.com/causeway-mcp/causeway/gateway/config"
)

// maxSnapshot bounds what is imported, in bytes.
const maxSnapshot = 256 << 20

// importTries bounds how often an import that names no revision begins anew because
// somebody else has changed something.
const importTries = 5

// registryCommands are the subcommands of registry.
func registryCommands() []command {
	return []command{
		{"export", "write all that is registered as JSON", runRegistryExport},
		{"import", "replace all that is registered by an export", runRegistryImport},
		{"seal", "seal a secret for a registration", runRegistrySeal},
		{"reseal", "seal with the first key what older ones have sealed", runRegistryReseal},
	}
}

// runRegistry is `causeway registry`.
func runRegistry(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return runOneOf(ctx, "registry", "Exports and imports the registry: the tenants, upstreams and API keys that are kept\n"+
		"in the store, besides the tenants of the configuration file. Seals secrets for it, and\n"+
		"seals anew what is sealed in it, before an older key is taken away.",
		registryCommands(), args, stdin, stdout, stderr)
}

// storeFlags are what all commands have that open the registry.
type storeFlags struct {
	set    *flag.FlagSet
	config *configFlags
}

// registryFlags are what export and import have.
type registryFlags struct {
	storeFlags
	file     *string
	revision *uint64
}

func newRegistryFlags(name, about, file, revision string) *registryFlags {
	fs := newFlags("registry "+name, "", about)
	return &registryFlags{storeFlags{fs, addConfigFlags(fs)}, fs.String("file", "-", file), fs.Uint64("revision", 0, revision)}
}

// expect gives the revision that --revision names, or tenant.Any without it.
func (f *registryFlags) expect() uint64 {
	expect := tenant.Any
	f.set.Visit(func(one *flag.Flag) {
		if one.Name == "revision" {
			expect = *f.revision
		}
	})
	return expect
}

// open opens the registry of the configuration. Where it cannot be opened stderr
// says why.
func (f *storeFlags) open(ctx context.Context, stderr io.Writer) (*gateway.Registry, *config.Config, bool) {
	cfg, err := f.config.loader().Load(*f.config.path)
	if err != nil {
		writeFaults(stderr, *f.config.path, err)
		return nil, nil, false
	}
	if cfg.StoreType() == config.StoreMemory {
		f.fail(stderr, errors.New("the configuration keeps the registry in memory (store.type: memory), where no other process reaches it"))
		return nil, nil, false
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	r, err := gateway.OpenRegistry(ctx, cfg, os.LookupEnv, log)
	var faults config.Faults
	switch {
	case errors.As(err, &faults):
		writeFaults(stderr, *f.config.path, err)
	case errors.Is(err, bolt.ErrLocked):
		f.fail(stderr, fmt.Errorf("%w (stop the gateway first)", err))
	case err != nil:
		f.fail(stderr, err)
	}
	return r, cfg, err == nil
}

func (f *storeFlags) fail(stderr io.Writer, err error) {
	fmt.Fprintf(stderr, "causeway %s: %v\n", f.set.Name(), err)
}

// runRegistryExport is `causeway registry export`.
func runRegistryExport(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	f := newRegistryFlags("export", "Writes all that is registered in the store as JSON, as of one moment, with the\nhashes of API keys: whoever reads it cannot use the keys, but learns whose they are.\nSecrets of registrations are in it sealed, and good only with the same keys. What users\nhave let the gateway have, such as their tokens for upstreams, is not in it.",
		"write to this `file` (mode 0600) and not to standard output (-)", "export only while this is the registry's revision")
	if code, ok := parseFlags(f.set, args, 0, 0, stdout, stderr); !ok {
		return code
	}
	r, _, ok := f.open(ctx, stderr)
	if !ok {
		return exitFailure
	}
	s, err := r.Export(ctx)
	if err == nil && f.expect() != tenant.Any && f.expect() != s.Revision {
		err = fmt.Errorf("the registry has revision %d, not %d", s.Revision, f.expect())
	}
	if err == nil {
		err = writeSnapshot(s, *f.file, stdout)
	}
	if err = errors.Join(err, r.Close()); err != nil {
		f.fail(stderr, err)
		return exitFailure
	}
	fmt.Fprintf(stderr, "exported %s and %s at revision %d\n", plural(len(s.Tenants), "tenant"), plural(len(s.Keys), "key"), s.Revision)
	return exitOK
}

// writeSnapshot writes to a file, which appears whole or not at all, or to stdout.
func writeSnapshot(s *tenant.Snapshot, path string, stdout io.Writer) (err error) {
	data, err := tenant.EncodeSnapshot(s)
	if err != nil {
		return err
	}
	if path == "-" {
		if _, err = stdout.Write(data); err != nil {
			return fmt.Errorf("write the export: %w", err)
		}
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write the export: %w", err), os.Remove(f.Name()))
	}
	return nil
}

// runRegistryImport is `causeway registry import`.
func runRegistryImport(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	f := newRegistryFlags("import", "Makes an export all that is registered in the store, at once or not at all, and\nprints what has changed. What is registered and not in the export is deleted,\ntogether with what users of such a tenant have let the gateway have; what users of\nother tenants have, stays. Secrets in an older export may be sealed by an older key: run\nreseal afterwards.\n\n"+
		"It is also how a registry is put right that Redis has lost: gateways that go on with\nwhat they know take over what is imported.",
		"read this `file` and not standard input (-)", "import only while this is the registry's revision, so that nothing is\nlost that was changed since")
	if code, ok := parseFlags(f.set, args, 0, 0, stdout, stderr); !ok {
		return code
	}
	s, err := readSnapshot(*f.file, stdin)
	var faults tenant.Faults
	if errors.As(err, &faults) {
		fmt.Fprintf(stderr, "%s: %s\n", sourceName(*f.file), plural(len(faults), "fault"))
		for _, fault := range faults {
			fmt.Fprintf(stderr, "  %s\n", fault)
		}
		return exitFailure
	} else if err != nil {
		f.fail(stderr, err)
		return exitFailure
	}
	r, cfg, ok := f.open(ctx, stderr)
	if !ok {
		return exitFailure
	}
	before, after, err := importSnapshot(ctx, r, s, f.expect())
	if err = errors.Join(err, r.Close()); err != nil {
		f.fail(stderr, err)
		return exitFailure
	}
	writeChanges(stdout, before, after)
	warnUnopened(stderr, cfg, after)
	return exitOK
}

// warnUnopened tells of secrets that came with an import and cannot be used, since the
// key that has sealed them is not among the configuration's.
func warnUnopened(stderr io.Writer, cfg *config.Config, s *tenant.Snapshot) {
	if len(gateway.UnopenedSecrets(s.Tenants, seal.NewRandom())) == 0 {
		return // there are none, and no keys are needed
	}
	ring, err := gateway.NewRing(cfg, os.LookupEnv)
	if err != nil {
		fmt.Fprintf(stderr, "warning: whether the secrets of the import can be opened was not looked at: %v\n", err)
		return
	}
	for _, at := range gateway.UnopenedSecrets(s.Tenants, ring) {
		fmt.Fprintf(stderr, "warning: %s cannot be opened with the keys that are configured: put the key back that has sealed it, or enter it anew\n", at)
	}
}

func sourceName(path string) string {
	if path == "-" {
		return "standard input"
	}
	return path
}

// readSnapshot reads what an export wrote. The error may be tenant.Faults.
func readSnapshot(path string, stdin io.Reader) (*tenant.Snapshot, error) {
	from := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("read the export: %w", err)
		}
		defer f.Close()
		from = f
	}
	var data bytes.Buffer
	if _, err := data.ReadFrom(io.LimitReader(from, maxSnapshot+1)); err != nil {
		return nil, fmt.Errorf("read the export: %w", err)
	}
	if data.Len() > maxSnapshot {
		return nil, fmt.Errorf("read the export %s: %w", sourceName(path), errSnapshotSize)
	}
	return tenant.DecodeSnapshot(data.Bytes(), config.CheckPolicy)
}

var errSnapshotSize = errors.New("it is larger than 256 MiB")

// importSnapshot imports over the revision that is expected, and gives what was there
// and what is there now.
func importSnapshot(ctx context.Context, r tenant.Registry, s *tenant.Snapshot, expect uint64) (before, after *tenant.Snapshot, err error) {
	for range importTries {
		before, err = r.Export(ctx)
		if err != nil {
			return nil, nil, err
		}
		if expect != tenant.Any && expect != before.Revision {
			return nil, nil, fmt.Errorf("the registry has revision %d, not %d: nothing was imported", before.Revision, expect)
		}
		var revision uint64
		revision, err = r.Import(ctx, s, before.Revision)
		if err == nil {
			return before, &tenant.Snapshot{Revision: revision, Tenants: s.Tenants, Keys: s.Keys}, nil
		}
		if !errors.Is(err, tenant.ErrConflict) {
			return nil, nil, err
		}
	}
	return nil, nil, fmt.Errorf("nothing was imported: %w", err)
}
