package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/causeway-mcp/causeway/gateway"
	"github.com/causeway-mcp/causeway/gateway/config"
)

// maxSecretInput bounds a secret that is sealed, in bytes.
const maxSecretInput = 16 << 10

// runRegistrySeal is `causeway registry seal`.
func runRegistrySeal(_ context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	fs := newFlags("registry seal", "", "Reads a secret from standard input, without the line end after it, and prints it sealed by\n"+
		"the configuration's first key: what stands for it, as sealed, in a registration that is\n"+
		"imported. It opens no store.")
	f := &storeFlags{fs, addConfigFlags(fs)}
	if code, ok := parseFlags(f.set, args, 0, 0, stdout, stderr); !ok {
		return code
	}
	cfg, err := f.config.loader().Load(*f.config.path)
	if err != nil {
		writeFaults(stderr, *f.config.path, err)
		return exitFailure
	}
	secret, err := io.ReadAll(io.LimitReader(stdin, maxSecretInput+1))
	secret = bytes.TrimSuffix(bytes.TrimSuffix(secret, []byte("\n")), []byte("\r"))
	switch {
	case err != nil:
		err = fmt.Errorf("read the secret: %w", err)
	case len(secret) == 0:
		err = errors.New("there is no secret on standard input")
	case len(secret) > maxSecretInput:
		err = fmt.Errorf("the secret is longer than %d bytes", maxSecretInput)
	}
	if err != nil {
		f.fail(stderr, err)
		return exitFailure
	}
	ring, err := gateway.NewRing(cfg, os.LookupEnv)
	var faults config.Faults
	switch {
	case errors.As(err, &faults):
		writeFaults(stderr, *f.config.path, err)
		return exitFailure
	case err != nil:
		f.fail(stderr, err)
		return exitFailure
	}
	fmt.Fprintln(stdout, gateway.SealSecret(ring, secret).Sealed)
	return exitOK
}
