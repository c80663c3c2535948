package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// envRedis names the redis-server that is started; else it is looked for in PATH.
const envRedis = "CAUSEWAY_REDIS"

// replica is one gateway process.
type replica struct {
	at    endpoint
	admin string // address of the admin listener
	child *child
}

func (r *replica) pid() int { return r.child.cmd.Process.Pid }

// startRedis starts a redis-server that keeps nothing, and gives it with its
// address and version.
func (b *bench) startRedis(ctx context.Context) (c *child, addr, version string, err error) {
	bin := os.Getenv(envRedis)
	if bin == "" {
		if bin, err = exec.LookPath("redis-server"); err != nil {
			return nil, "", "", fmt.Errorf("redis-server is needed, in PATH or named by %s: %w", envRedis, err)
		}
	}
	out, err := exec.CommandContext(ctx, bin, "--version").Output()
	if err != nil {
		return nil, "", "", fmt.Errorf("%s --version: %w", bin, err)
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, "", "", err
	}
	port := strconv.Itoa(ports[0])
	addr = net.JoinHostPort("127.0.0.1", port)
	cmd := exec.Command(bin, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", b.dir)
	if c, _, err = b.startChild("redis", cmd, 0); err != nil {
		return nil, "", "", err
	}
	return c, addr, redisVersion(string(out)), b.awaitChild(ctx, c, func(ctx context.Context) error { return pingRedis(ctx, addr) })
}

// redisVersion reads "Redis server v=7.0.15 sha=...".
func redisVersion(out string) string {
	for word := range strings.FieldsSeq(out) {
		if v, ok := strings.CutPrefix(word, "v="); ok {
			return v
		}
	}
	return strings.TrimSpace(out)
}

func pingRedis(ctx context.Context, addr string) error {
	cn, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	defer cn.c.Close()
	if err := cn.c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(cn.c, "PING\r\n"); err != nil {
		return err
	}
	line, err := readLine(bufio.NewReader(cn.c))
	if err == nil && line != "+PONG" {
		err = fmt.Errorf("redis-server answers %.60q", line)
	}
	return err
}

// awaitChild waits until a process that was started is as it should.
func (b *bench) awaitChild(ctx context.Context, c *child, is func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		err := is(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-c.exited:
			return fmt.Errorf("%s has ended: %s", c.name, c.tail())
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s is not as it should be after %v: %w", c.name, readyTimeout, err), fmt.Errorf("%s wrote: %s", c.name, c.tail()))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// gatewayPlan is what all gateways of a run have in common.
type gatewayPlan struct {
	bin      string
	upstream string // address
	key      string // file
	streams  int    // how many listen streams each takes
}

// newPlan builds the gateway and makes a key for all replicas.
func (b *bench) newPlan(ctx context.Context, upstream string, streams int) (*gatewayPlan, error) {
	bin, err := b.binary(ctx)
	if err != nil {
		return nil, err
	}
	p := &gatewayPlan{bin: bin, upstream: upstream, key: filepath.Join(b.dir, "key"), streams: streams}
	return p, os.WriteFile(p.key, []byte(rand.Text()+rand.Text()), 0o600)
}

// startReplica starts a gateway, one of those that share a Redis unless redis is
// empty, and waits until it answers.
func (b *bench) startReplica(ctx context.Context, p *gatewayPlan, name, redis string) (*replica, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))
	r := &replica{
		at:    endpoint{addr: addr, path: "/mcp", prefix: "bench_"},
		admin: net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[1])),
	}
	conf := fmt.Sprintf(replicaConf, addr, r.admin, filepath.Join(b.dir, name), p.key, p.streams, p.upstream)
	if redis != "" {
		conf += fmt.Sprintf(replicaRedis, redis)
	}
	file := filepath.Join(b.dir, name+".yaml")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return nil, err
	}
	if r.child, _, err = b.startChild(name, serveCommand(p.bin, file), 0); err != nil {
		return nil, err
	}
	return r, b.awaitChild(ctx, r.child, r.healthy)
}

// healthy fails unless the replica is ready, and not degraded: it has its Redis.
func (r *replica) healthy(ctx context.Context) error {
	text, err := get(ctx, "http://"+r.admin+"/readyz", 1<<10)
	if err != nil {
		return err
	}
	if text = strings.TrimSpace(text); text != "ok" {
		return errors.New(text)
	}
	return nil
}

// get gets a text of at most that many bytes.
func get(ctx context.Context, url string, most int64) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %.200s", resp.StatusCode, text)
	}
	return string(text), err
}

// replicaConf leaves what is not about being several at its default, but for the
// log. The limit of calls is never reached: it is there so that calls are counted.
const replicaConf = `listen: %[1]s
publicURL: http://%[1]s
admin: {listen: %[2]q}
store: {type: memory, dataDir: %[3]q}
keys: [{id: bench, secret: {file: %[4]q}}]
log: {level: warn}
limits: {streams: %[5]d, streamsPerPrincipal: %[5]d, listenStreams: %[5]d}
tenants:
  - name: default
    auth: {mode: none}
    limits: {callsPerMinute: 100000000}
    upstreams: [{alias: bench, url: "http://%[6]s/mcp"}]
`

const replicaRedis = `redis: {url: "redis://%s/0"}
peer: {listen: "127.0.0.1:0"}
`
