package main

import (
	"context"
	"fmt"
	"io"
	"os"
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
		_, err = cfg.SealKeys(os.LookupEnv)
	}
	if err != nil {
		writeFaults(stderr, *files.path, err)
		return exitFailure
	}
	fmt.Fprintf(stdout, "OK: %s, %s\n", plural(len(cfg.Tenants), "tenant"), plural(countUpstreams(cfg), "upstream"))
	return exitOK
}
