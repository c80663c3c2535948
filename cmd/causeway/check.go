package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/causeway-mcp/causeway/gateway/config"
)

// runCheck reads a configuration as serve does and tells all that is wrong with
// it.
func runCheck(_ context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	fs := newFlags("check", "", "Reads a configuration file as serve does, and tells all that is wrong with it.\nThe exit code is 0 when nothing is.")
	files := addConfigFlags(fs)
	noSecrets := fs.Bool("skip-secrets", false, "do not look whether the secrets that the file refers to are there")
	if code, ok := parseFlags(fs, args, 0, 0, stdout, stderr); !ok {
		return code
	}
	cfg, err := files.loader().Load(*files.path)
	if err == nil && !*noSecrets {
		err = checkSecrets(cfg)
	}
	if err != nil {
		writeFaults(stderr, *files.path, err)
		return exitFailure
	}
	fmt.Fprintf(stdout, "OK: %s, %s\n", plural(len(cfg.Tenants), "tenant"), plural(countUpstreams(cfg), "upstream"))
	return exitOK
}

// checkSecrets looks whether all that the configuration refers to is there.
func checkSecrets(cfg *config.Config) error {
	var all config.Faults
	_, keys := cfg.SealKeys(os.LookupEnv)
	for _, err := range []error{keys, cfg.CheckVariables(os.LookupEnv)} {
		var faults config.Faults
		if errors.As(err, &faults) {
			all = append(all, faults...)
		} else if err != nil {
			return err
		}
	}
	if len(all) > 0 {
		return all
	}
	return nil
}
