package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The upstreams.
const (
	upJSON = "json" // 20 tools, calls answered as application/json
	upSSE  = "sse"  // 20 tools, calls answered as text/event-stream
	upBig  = "big"  // the whole catalogue
	// The same as upJSON, but of the handshake era. Clients reach it through
	// Causeway only: they all speak revision 2026-07-28.
	upHandshake = "handshake"
)

// The systems, in the order of each round.
const (
	sysDirect   = "direct"
	sysProxy    = "proxy"
	sysNginx    = "nginx"
	sysCauseway = "causeway"
)

// upstreamNames are the upstreams that clients can also reach without Causeway.
func upstreamNames() []string { return []string{upJSON, upSSE, upBig} }

// behindCauseway are the upstreams that Causeway leads to.
func behindCauseway() []string { return append(upstreamNames(), upHandshake, upSecured) }

// system is one way to reach the upstreams.
type system struct {
	name, label string
	at          map[string]endpoint // by upstream; those that it leads to
	pids        map[string]int      // by upstream: the process whose time is told, with its children
}

// endpoint is where a client reaches one upstream.
type endpoint struct {
	addr    string
	path    string
	prefix  string // of the names of its tools
	mayOmit int    // how many tools it may leave out of a list
	token   string // an access token for it; empty where none is wanted
}

// serves tells whether a system can be measured with m.
func (s *system) serves(m measurement) bool {
	_, ok := s.at[m.upstream]
	return ok
}

func samePid(pid int) map[string]int {
	pids := make(map[string]int)
	for _, up := range behindCauseway() {
		pids[up] = pid
	}
	return pids
}

// startUpstreams starts one process for each upstream, and gives those that
// clients can reach as a system.
func (b *bench) startUpstreams() (*system, error) {
	s := &system{name: sysDirect, label: "(a) upstream directly", at: map[string]endpoint{}, pids: map[string]int{}}
	for _, up := range append(upstreamNames(), upHandshake) {
		args := []string{cmdUpstream, "-catalogue", b.options.catalogue, "-tools", strconv.Itoa(smallList)}
		switch up {
		case upSSE:
			args = append(args, "-sse")
		case upBig:
			args = append(args, "-tools", strconv.Itoa(len(b.catalogue.tools)))
		case upHandshake:
			args = append(args, "-handshake")
		}
		cmd, err := self(args...)
		if err != nil {
			return nil, err
		}
		c, addrs, err := b.startChild("upstream-"+up, cmd, 1)
		if err != nil {
			return nil, err
		}
		if up == upHandshake {
			b.handshakeAddr = addrs[0]
			continue
		}
		s.at[up] = endpoint{addr: addrs[0], path: "/mcp"}
		s.pids[up] = c.cmd.Process.Pid
	}
	return s, nil
}

// startProxy starts the bare reverse proxy.
func (b *bench) startProxy() (*system, error) {
	args := []string{cmdProxy}
	for _, up := range upstreamNames() {
		args = append(args, b.upstreams.at[up].addr)
	}
	cmd, err := self(args...)
	if err != nil {
		return nil, err
	}
	c, addrs, err := b.startChild("proxy", cmd, len(upstreamNames()))
	if err != nil {
		return nil, err
	}
	s := &system{name: sysProxy, label: "(b) httputil.ReverseProxy", at: map[string]endpoint{}, pids: samePid(c.cmd.Process.Pid)}
	for i, up := range upstreamNames() {
		s.at[up] = endpoint{addr: addrs[i], path: "/mcp"}
	}
	return s, nil
}

// startNginx starts nginx in the foreground, with all its files in the run's own
// directory. It gives nil when nginx is not installed.
func (b *bench) startNginx(ctx context.Context) (*system, error) {
	bin := findNginx()
	if bin == "" {
		b.note("nginx is not installed, so (c) is left out")
		return nil, nil
	}
	version, err := exec.CommandContext(ctx, bin, "-v").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s -v: %w", bin, err)
	}
	_, number, _ := strings.Cut(strings.TrimSpace(string(version)), "/")
	ports, err := freePorts(len(upstreamNames()))
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.dir, "nginx")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	s := &system{name: sysNginx, label: "(c) nginx " + number, at: map[string]endpoint{}}
	var servers strings.Builder
	for i, up := range upstreamNames() {
		s.at[up] = endpoint{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[i])), path: "/mcp"}
		fmt.Fprintf(&servers, nginxServer, up, b.upstreams.at[up].addr, s.at[up].addr, up)
	}
	conf := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, nginxConf, dir, servers.String()), 0o600); err != nil {
		return nil, err
	}
	c, _, err := b.startChild("nginx", exec.Command(bin, "-p", dir, "-e", "stderr", "-c", conf), 0)
	if err != nil {
		return nil, err
	}
	s.pids = samePid(c.cmd.Process.Pid)
	return s, nil
}

// findNginx gives the program, or nothing when it is not installed. It also
// looks where Debian has it, which is not on the path of ordinary users.
func findNginx() string {
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} {
		if bin, err := exec.LookPath(name); err == nil {
			return bin
		}
	}
	return ""
}

const nginxConf = `daemon off;
worker_processes 2;
pid %[1]s/pid;
error_log stderr warn;
events { worker_connections 1024; }
http {
    access_log off;
    client_body_temp_path %[1]s/body;
    proxy_temp_path %[1]s/proxy;
    fastcgi_temp_path %[1]s/fastcgi;
    uwsgi_temp_path %[1]s/uwsgi;
    scgi_temp_path %[1]s/scgi;
    keepalive_requests 1000000000;
%[2]s}
`

const nginxServer = `    upstream %[1]s {
        server %[2]s;
        keepalive 256;
        keepalive_requests 1000000000;
    }
    server {
        listen %[3]s;
        location / {
            proxy_pass http://%[1]s;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
        }
    }
`

// maxInvalid is how many tools of the catalogue may have a schema that is not
// valid: the gateway leaves such tools out.
const maxInvalid = 5

// startCauseway starts the gateway as a user would: one tenant for each upstream, so
// that each merged endpoint shows one upstream's tools.
func (b *bench) startCauseway(ctx context.Context) (*system, error) {
	var err error
	if b.issuer, err = startIssuer(); err != nil {
		return nil, err
	}
	var tenants []byte
	for _, up := range append(upstreamNames(), upHandshake) {
		target := b.upstreams.at[up].addr
		if up == upHandshake {
			target = b.handshakeAddr
		}
		tenants = fmt.Appendf(tenants, causewayTenant, up, target)
	}
	tenants = append(tenants, securedTenant(b.issuer.url, b.upstreams.at[upJSON].addr)...)
	c, addr, err := b.startGateway(ctx, "causeway", tenants)
	if err != nil {
		return nil, err
	}
	s := &system{name: sysCauseway, label: "(d) Causeway", at: map[string]endpoint{}, pids: samePid(c.cmd.Process.Pid)}
	for _, up := range behindCauseway() {
		s.at[up] = endpoint{addr: addr, path: "/t/" + up + "/mcp", prefix: "bench_", mayOmit: maxInvalid}
	}
	secured := s.at[upSecured]
	if secured.token, err = b.issuer.token("http://" + addr + secured.path); err != nil {
		return nil, err
	}
	s.at[upSecured] = secured
	return s, nil
}

// startGateway builds the gateway, where that is wanted, and starts it with these
// tenants. It gives its address.
func (b *bench) startGateway(ctx context.Context, name string, tenants []byte) (c *child, addr string, err error) {
	if b.options.causeway, err = b.binary(ctx); err != nil {
		return nil, "", err
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, "", err
	}
	addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))
	conf := append(fmt.Appendf(nil, causewayConf, addr, ports[1], filepath.Join(b.dir, name+"-data")), tenants...)
	file := filepath.Join(b.dir, name+".yaml")
	if err := os.WriteFile(file, conf, 0o600); err != nil {
		return nil, "", err
	}
	c, _, err = b.startChild(name, serveCommand(b.options.causeway, file), 0)
	return c, addr, err
}

// binary gives the gateway's binary: one that was named, or one that is built.
func (b *bench) binary(ctx context.Context) (string, error) {
	if b.options.causeway != "" {
		return b.options.causeway, nil
	}
	return buildCauseway(ctx, b.dir)
}

// serveCommand makes the command that runs the gateway with a configuration, and
// with nothing but that.
func serveCommand(bin, file string) *exec.Cmd {
	cmd := exec.Command(bin, "serve", "--config", file)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "CAUSEWAY_") })
	return cmd
}

// causewayConf leaves everything at its default but the log: no other system
// here writes a line for each request.
const causewayConf = `listen: %[1]s
publicURL: http://%[1]s
admin: {listen: "127.0.0.1:%[2]d"}
store: {dataDir: %[3]q}
log: {level: warn}
tenants:
`

const causewayTenant = `  - name: %[1]s
    auth: {mode: none}
    upstreams: [{alias: bench, url: "http://%[2]s/mcp"}]
`
