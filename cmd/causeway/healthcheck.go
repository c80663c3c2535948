package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/causeway-mcp/causeway/gateway/config"
)

// healthTimeout bounds a health check; orchestrators usually allow a few seconds.
const healthTimeout = 3 * time.Second

// maxHealthBody bounds what is shown of the answer, in bytes.
const maxHealthBody = 1 << 10

// runHealthcheck asks the admin listener whether the gateway is ready, for
// container images that hold nothing but this binary.
func runHealthcheck(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	fs := newFlags("healthcheck", "", "Asks the admin listener of a gateway on this machine whether it is ready.\nThe exit code is 0 when it is.")
	listen := cmp.Or(os.Getenv("CAUSEWAY_ADMIN_LISTEN"), config.DefaultAdminListen)
	address := fs.String("admin-listen", listen, "`address` of the admin listener, as in the configuration; its default can be set with CAUSEWAY_ADMIN_LISTEN")
	timeout := fs.Duration("timeout", healthTimeout, "how long to wait for the answer")
	if code, ok := parseFlags(fs, args, 0, 0, stdout, stderr); !ok {
		return code
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	if err := askReady(ctx, *address); err != nil {
		fmt.Fprintf(stderr, "causeway healthcheck: %v\n", err)
		return exitFailure
	}
	fmt.Fprintln(stdout, "ready")
	return exitOK
}

// askReady gives an error unless /readyz at address answers 200.
func askReady(ctx context.Context, address string) error {
	target, err := dialable(address)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+target+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	// The environment's proxies are for other machines.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxHealthBody))
		if err != nil {
			return fmt.Errorf("not ready: %s", resp.Status)
		}
		return fmt.Errorf("not ready: %s: %s", resp.Status, strings.TrimSpace(string(body)))
	}
	return nil
}

// dialable turns an address to listen at into one to connect to: one that stands
// for all of this machine's becomes loopback.
func dialable(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("admin listener: %w", err)
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "" || err == nil && ip.Is4() && ip.IsUnspecified():
		host = "127.0.0.1"
	case err == nil && ip.IsUnspecified():
		host = "::1"
	}
	return net.JoinHostPort(host, port), nil
}
