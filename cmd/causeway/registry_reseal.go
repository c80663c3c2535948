package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/gateway"
	"github.com/causeway-mcp/causeway/gateway/config"
)

// errUnopened and errNotWritten tell that a key is still needed.
var (
	errUnopened   = errors.New("not everything could be opened: put back the key that has sealed it, or enter it anew")
	errNotWritten = errors.New("not everything could be sealed anew: the older keys are still needed")
)

// runRegistryReseal is `causeway registry reseal`.
func runRegistryReseal(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	fs := newFlags("registry reseal", "", "Opens what the store keeps sealed, the secrets of registrations and what users have let\n"+
		"the gateway have, with all of the configuration's keys, and seals with the first one what\n"+
		"another has sealed. When it has succeeded, the store needs no key but the first.\n\n"+
		"Running gateways do the same when they start. A registry in a file has to be free: stop\n"+
		"the gateway first.")
	f := &storeFlags{fs, addConfigFlags(fs)}
	if code, ok := parseFlags(f.set, args, 0, 0, stdout, stderr); !ok {
		return code
	}
	r, cfg, ok := f.open(ctx, stderr)
	if !ok {
		return exitFailure
	}
	ring, err := gateway.NewRing(cfg, os.LookupEnv)
	var faults config.Faults
	if errors.As(err, &faults) {
		writeFaults(stderr, *f.config.path, err)
		if err := r.Close(); err != nil {
			f.fail(stderr, err)
		}
		return exitFailure
	}
	if err == nil {
		err = reseal(ctx, r, ring, stdout, stderr)
	}
	if err = errors.Join(err, r.Close()); err != nil {
		f.fail(stderr, err)
		return exitFailure
	}
	return exitOK
}

// reseal does it and prints what was done. What could not be done is an error.
func reseal(ctx context.Context, r *gateway.Registry, ring *seal.Ring, stdout, stderr io.Writer) error {
	found, err := gateway.Reseal(ctx, r, ring)
	fmt.Fprintf(stdout, "sealed anew: %s of registrations and %s of users; sealed by the first key before: %d\n",
		plural(found.Secrets, "secret"), plural(found.Values, "value"), found.Current)
	for _, at := range found.UnopenedPlaces() {
		fmt.Fprintf(stderr, "%s: %d cannot be opened\n", at, found.Unopened[at])
	}
	for _, name := range slices.Sorted(maps.Keys(found.Refused)) {
		fmt.Fprintf(stderr, "tenant %s: its registration is refused as it is: %v\n", name, found.Refused[name])
	}
	if len(found.Refused) > 0 {
		err = errors.Join(err, errNotWritten)
	}
	if len(found.Unopened) > 0 {
		err = errors.Join(err, errUnopened)
	}
	return err
}
