package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/causeway-mcp/causeway/cache/redis"
	"github.com/causeway-mcp/causeway/gateway/config"
)

// reachTimeout is how long a Redis may take to answer --connect.
const reachTimeout = 5 * time.Second

// runCheck reads a configuration as serve does and tells all that is wrong with
// it, or explains a decision of its policy.
func runCheck(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	fs := newFlags("check", "", "Reads a configuration file as serve does, and tells all that is wrong with it.\nThe exit code is 0 when nothing is.\n"+
		"With --explain it tells, from the file alone, which rule lets somebody see and use\nsomething, or does not; the exit code is 0 in both cases. Upstreams are not asked: whether\nthey have it, and what pins and credentials hide, is not looked at. For example\n\n"+
		"  causeway check --explain --as '{\"groups\":[\"finance\"]}' --tool travel_bookHotel")
	files := addConfigFlags(fs)
	var explain explainFlags
	explain.register(fs)
	noSecrets := fs.Bool("skip-secrets", false, "do not look whether the secrets that the file refers to are there")
	connect := fs.Bool("connect", false, "also ask each Redis that the file names whether it answers; needs its secrets")
	if code, ok := parseFlags(fs, args, 0, 0, stdout, stderr); !ok {
		return code
	}
	if err := explain.check(fs); err != nil {
		fmt.Fprintf(stderr, "causeway check: %v\n", err)
		return exitUsage
	}
	cfg, err := files.loader().Load(*files.path)
	if err == nil && explain.explain {
		if err := explain.run(cfg, stdout); err != nil {
			return fail("check", err, stderr)
		}
		return exitOK
	}
	if err == nil && !*noSecrets {
		err = checkSecrets(cfg)
	}
	if err == nil && *connect {
		err = checkReach(ctx, cfg)
	}
	if err != nil {
		writeFaults(stderr, *files.path, err)
		return exitFailure
	}
	for _, w := range cfg.Warnings() {
		fmt.Fprintf(stderr, "warning: %s\n", w)
	}
	fmt.Fprintf(stdout, "OK: %s, %s\n", plural(len(cfg.Tenants), "tenant"), plural(countUpstreams(cfg), "upstream"))
	return exitOK
}

// checkSecrets looks whether all that the configuration refers to is there.
func checkSecrets(cfg *config.Config) error {
	var all config.Faults
	_, keys := cfg.SealKeys(os.LookupEnv)
	for _, err := range []error{keys, cfg.CheckConnections(os.LookupEnv), cfg.CheckIssuers(os.LookupEnv), cfg.CheckCredentials(os.LookupEnv), cfg.CheckVariables(os.LookupEnv)} {
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

// checkReach asks each Redis of the configuration whether it answers.
func checkReach(ctx context.Context, cfg *config.Config) error {
	var all config.Faults
	ask := func(path string, resolve func(func(string) (string, bool)) (redis.Connection, error)) {
		conn, err := resolve(os.LookupEnv)
		if err == nil {
			err = ping(ctx, conn)
		}
		var faults config.Faults
		if errors.As(err, &faults) {
			all = append(all, faults...)
		} else if err != nil {
			all = append(all, config.Fault{Path: path, Message: err.Error()})
		}
	}
	if cfg.StoreType() == config.StoreRedis {
		ask("store", cfg.StoreConnection)
	}
	if cfg.Redis != nil {
		ask("redis", cfg.RedisConnection)
	}
	if len(all) > 0 {
		return all
	}
	return nil
}

// ping sends PING.
func ping(ctx context.Context, conn redis.Connection) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	client, err := redis.Dial(conn, reachTimeout)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("does not answer: %w", err)
	}
	return nil
}
