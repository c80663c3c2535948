// Package redistest starts real Redis servers for tests: single ones, a cluster
// and a primary that Sentinels watch, and a proxy that makes one slow or cuts it
// off. They listen on loopback ports that were free, keep what they write in
// temporary directories, and end with the test. It is imported by tests only.
package redistest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Options are how a server is to be.
type Options struct {
	// Args are added to the command line: "--maxmemory", "1mb".
	Args []string
	// TLS, when set, has it speak nothing but TLS.
	TLS *Certificates
	// User, when set, is the only one besides Server.Do who may do anything, with
	// Password, and only to keys and channels that begin with Prefix.
	User, Password, Prefix string
	// ReplicaOf, when set, has it replicate another server.
	ReplicaOf *Server

	cluster bool
}

// Server is one redis-server.
type Server struct {
	tb    testing.TB
	opts  Options
	port  int
	bus   int    // port of the cluster's bus; 0 without one
	dir   string // configuration and data
	sock  string // for Do
	admin *goredis.Client
	proc  *process
}

const adminUser, adminPassword = "redistest", "redistest"

// Start starts a server that keeps what it is given also when it ends, until the
// end of the test. The test is skipped where redis-server is missing, and fails
// where CI is true.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return StartWith(tb, Options{Args: args})
}

// StartWith is Start with Options.
func StartWith(tb testing.TB, opts Options) *Server {
	tb.Helper()
	path := find(tb)
	var err error
	for range 20 {
		var s *Server
		if s, err = newServer(tb, path, opts); err == nil {
			return s
		}
		if !isPortTaken(err) {
			break
		}
	}
	tb.Fatal(err)
	return nil
}

func newServer(tb testing.TB, path string, opts Options) (*Server, error) {
	s := &Server{tb: tb, opts: opts, port: randomPort(), dir: tb.TempDir()}
	if opts.cluster {
		s.bus = randomPort()
	}
	// The name of a socket must be shorter than that of most test directories.
	short, err := os.MkdirTemp("", "redis")
	if err != nil {
		return nil, fmt.Errorf("make a directory for a socket: %w", err)
	}
	s.sock = filepath.Join(short, "s")
	s.proc = &process{path: path, args: append([]string{s.conf()}, opts.Args...), ready: "Ready to accept connections"}
	if err := s.start(); err != nil {
		return nil, err
	}
	s.admin = goredis.NewClient(&goredis.Options{
		Network: "unix", Addr: s.sock, Username: s.adminName(), Password: s.adminPassword(),
		ReadTimeout: startTimeout, MaxRetries: -1,
	})
	tb.Cleanup(func() {
		_ = s.admin.Close()
		s.proc.kill()
		_ = os.RemoveAll(short)
	})
	return s, nil
}

func (s *Server) start() error {
	if err := os.WriteFile(s.conf(), []byte(s.config()), 0o600); err != nil {
		return fmt.Errorf("configure redis-server: %w", err)
	}
	if err := s.proc.start(); err != nil {
		return fmt.Errorf("redis-server on port %d: %w", s.port, err)
	}
	return nil
}

func (s *Server) conf() string { return filepath.Join(s.dir, "redis.conf") }

// config gives the configuration file.
func (s *Server) config() string {
	var b strings.Builder
	line := func(words ...any) { fmt.Fprintln(&b, words...) }
	line("bind 127.0.0.1")
	line("dir", s.dir)
	line("unixsocket", s.sock)
	line(`save ""`)
	line("appendonly yes") // so that a restart can keep what there was
	line("appendfsync no")
	line("auto-aof-rewrite-percentage 0")
	line("repl-diskless-sync-delay 0")
	if c := s.opts.TLS; c == nil {
		line("port", s.port)
	} else {
		line("port 0")
		line("tls-port", s.port)
		line("tls-cert-file", c.server.cert)
		line("tls-key-file", c.server.key)
		line("tls-ca-cert-file", c.CA)
	}
	if s.opts.User != "" {
		line("user default off")
		line("user", adminUser, "on", ">"+adminPassword, "~* &* +@all")
		line("user", s.opts.User, "on", ">"+s.opts.Password, "~"+s.opts.Prefix+"*", "&"+s.opts.Prefix+"*", "+@all -@dangerous -@admin")
	}
	if s.opts.cluster {
		line("cluster-enabled yes")
		line("cluster-config-file nodes.conf")
		line("cluster-node-timeout 2000")
		line("cluster-port", s.bus)
	}
	if p := s.opts.ReplicaOf; p != nil {
		line("replicaof 127.0.0.1", p.port)
	}
	return b.String()
}

func (s *Server) adminName() string {
	if s.opts.User == "" {
		return ""
	}
	return adminUser
}

func (s *Server) adminPassword() string {
	if s.opts.User == "" {
		return ""
	}
	return adminPassword
}

// Addr gives its host and port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL gives its URL, with user and password.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", Host: s.Addr(), Path: "/0"}
	if s.opts.TLS != nil {
		u.Scheme = "rediss"
	}
	if s.opts.User != "" {
		u.User = url.UserPassword(s.opts.User, s.opts.Password)
	}
	return u.String()
}

// Do runs one command as somebody who may do everything, and gives what it
// answers; a command that fails, fails the test. It works without TCP.
func (s *Server) Do(args ...any) any {
	s.tb.Helper()
	v, err := s.Client().Do(context.Background(), args...).Result()
	if err != nil && err != goredis.Nil {
		s.tb.Fatalf("%v: %v", args[0], err)
	}
	return v
}

// Client gives a client that may do everything, also without TCP. It ends with the
// test.
func (s *Server) Client() *goredis.Client { return s.admin }

// Stop has it end as one that is told to (SIGTERM), and waits until it has.
func (s *Server) Stop() {
	s.tb.Helper()
	s.must(s.proc.terminate())
}

// Kill ends it at once (SIGKILL).
func (s *Server) Kill() { s.proc.kill() }

// Pause has it do nothing (SIGSTOP): connections stand, and nothing is answered.
func (s *Server) Pause() {
	s.tb.Helper()
	s.must(s.proc.signal("STOP"))
}

// Resume ends what Pause began (SIGCONT).
func (s *Server) Resume() {
	s.tb.Helper()
	s.must(s.proc.signal("CONT"))
}

// Restart starts it again on the same port, and ends it before if it runs. It has
// lost all that it knew if empty.
func (s *Server) Restart(empty bool) {
	s.tb.Helper()
	s.proc.kill()
	if empty {
		s.must(removeAll(s.dir))
	}
	s.must(s.start())
}

func (s *Server) must(err error) {
	s.tb.Helper()
	if err != nil {
		s.tb.Fatal(err)
	}
}

// removeAll removes what a directory holds.
func removeAll(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("empty a server's directory: %w", err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("empty a server's directory: %w", err)
		}
	}
	return nil
}

// await waits until is tells true, and fails the test when that does not come
// about.
func await(tb testing.TB, what string, is func() bool) {
	tb.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(startTimeout)
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			tb.Fatalf("%s: not within %s", what, startTimeout)
		}
	}
}
