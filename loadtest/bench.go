package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// smallList is how many tools the small upstreams have.
const smallList = 20

// idleLoad is the load average, over one minute, up to which a machine counts as
// idle.
const idleLoad = 0.5

// readyTimeout is how long a system may take until it answers as it should.
const readyTimeout = 20 * time.Second

// measurement is what is sent to one upstream, at some concurrencies.
type measurement struct {
	name        string
	upstream    string
	method      string
	concurrency []int
	// beside names the measurement whose rounds this one takes turns in, so that
	// the two can be compared; empty for one with rounds of its own.
	beside string
}

// callHandshake is the measurement of modern clients before a handshake server.
const callHandshake = "call-handshake"

// handshakeCount is what the handshake upstream was asked for the sake of calls.
type handshakeCount struct {
	sent  int64 // tools/call by clients; 0 when not measured
	calls int64 // tools/call that came to the upstream meanwhile
	other int64 // its requests that were no tools/call, in the whole run
}

func measurements() []measurement {
	return []measurement{
		{name: "call-json", upstream: upJSON, method: methodCall, concurrency: []int{1, 16, 64}},
		{name: "call-sse", upstream: upSSE, method: methodCall, concurrency: []int{1, 16, 64}},
		{name: callSecured, upstream: upSecured, method: methodCall, concurrency: []int{1, 16, 64}, beside: "call-json"},
		{name: callHandshake, upstream: upHandshake, method: methodCall, concurrency: []int{1, 16, 64}, beside: "call-json"},
		{name: "list-20", upstream: upJSON, method: methodList, concurrency: []int{16}},
		{name: "list-527", upstream: upBig, method: methodList, concurrency: []int{16}},
	}
}

func systemNames() []string { return []string{sysDirect, sysProxy, sysNginx, sysCauseway} }

// selection says which systems and measurements run; one without systems, or
// without measurements, selects all of them. A measurement that takes turns in
// another one's rounds brings that one with it.
type selection struct{ systems, measurements []string }

func selectable() []string {
	names := systemNames()
	for _, m := range measurements() {
		names = append(names, m.name)
	}
	return append(names, measureDiscovery)
}

func parseSelection(list string) (selection, error) {
	var s selection
	for word := range strings.SplitSeq(list, ",") {
		switch word = strings.TrimSpace(word); {
		case word == "":
		case slices.Contains(systemNames(), word):
			s.systems = append(s.systems, word)
		case slices.Contains(selectable(), word):
			s.measurements = append(s.measurements, word)
		default:
			return s, fmt.Errorf("-only: %q is none of %s", word, strings.Join(selectable(), ", "))
		}
	}
	return s, nil
}

func (s selection) system(name string) bool {
	return len(s.systems) == 0 || slices.Contains(s.systems, name)
}

func (s selection) measurement(name string) bool {
	return len(s.measurements) == 0 || slices.ContainsFunc(measurements(), func(m measurement) bool {
		return slices.Contains(s.measurements, m.name) && (m.name == name || m.beside == name)
	})
}

// discovery tells whether progressive tool discovery is measured.
func (s selection) discovery() bool {
	return len(s.systems)+len(s.measurements) == 0 || slices.Contains(s.measurements, measureDiscovery)
}

// discoveryAlone tells whether nothing else is.
func (s selection) discoveryAlone() bool {
	return s.discovery() && len(s.systems) == 0 && len(s.measurements) == 1
}

// bench is one run: its processes and what it has found so far.
type bench struct {
	options   *options
	progress  io.Writer
	dir       string // for all files of the run; removed at the end
	catalogue *catalogue
	children  []*child // stopped last to first
	upstreams *system
	// handshakeAddr is where Causeway reaches the handshake upstream.
	handshakeAddr string
	issuer        *issuer // nil until Causeway is started

	systems []*system
	notes   []string
	// listRequests counts what the upstreams were asked while Causeway answered
	// tools/list; -1 when that was not measured.
	listRequests int64
	handshake    handshakeCount
}

func newBench(o *options, progress io.Writer) (*bench, error) {
	cat, err := loadCatalogue(o.catalogue)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "causeway-loadtest-")
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, progress: progress, dir: dir, catalogue: cat, listRequests: -1}
	if load, ok := loadAverage(); ok && load > idleLoad {
		b.note("other programs kept the machine busy before the run (load average %.2f), so the numbers say little", load)
	}
	if cat.madeUp {
		b.note("%s is missing, so the tools are made up: %d of about %d bytes", o.catalogue, len(cat.tools), madeUpBytes)
	}
	return b, nil
}

func (b *bench) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.progress, format+"\n", args...) }

func (b *bench) startChild(name string, cmd *exec.Cmd, addrs int) (*child, []string, error) {
	c, lines, err := startChild(b.dir, name, cmd, addrs)
	if err == nil {
		b.children = append(b.children, c)
	}
	return c, lines, err
}

// close ends all processes of the run and removes its files.
func (b *bench) close() error {
	var errs []error
	for _, c := range slices.Backward(b.children) {
		errs = append(errs, c.stop())
	}
	if b.issuer != nil {
		errs = append(errs, b.issuer.close())
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
}

// start starts the upstreams and the selected systems before them, and waits
// until each answers as it should.
func (b *bench) start(ctx context.Context) error {
	var err error
	if b.upstreams, err = b.startUpstreams(); err != nil {
		return err
	}
	starters := map[string]func() (*system, error){
		sysDirect:   func() (*system, error) { return b.upstreams, nil },
		sysProxy:    b.startProxy,
		sysNginx:    func() (*system, error) { return b.startNginx(ctx) },
		sysCauseway: func() (*system, error) { return b.startCauseway(ctx) },
	}
	for _, name := range systemNames() {
		if !b.options.only.system(name) {
			continue
		}
		b.say("starting %s", name)
		s, err := starters[name]()
		if err != nil {
			return err
		}
		if s != nil {
			b.systems = append(b.systems, s)
		}
	}
	for _, s := range b.systems {
		for _, m := range measurements() {
			if !b.options.only.measurement(m.name) || !s.serves(m) {
				continue
			}
			if err := b.ready(ctx, s, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// tools gives what an upstream lists.
func (b *bench) tools(up string) []tool {
	if up == upBig {
		return b.catalogue.tools
	}
	return b.catalogue.first(smallList)
}

// ready waits until a system answers a measurement's request as it should.
func (b *bench) ready(ctx context.Context, s *system, m measurement) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	r := newRequest(s.at[m.upstream], m.method, b.tools(m.upstream))
	for {
		_, err := once(ctx, s.at[m.upstream].addr, r)
		if err == nil {
			if l := r.list; l != nil && len(l.omitted) > 0 {
				b.note("%s leaves %d of %d tools out of %s, since their schemas are not valid: %s", s.label, len(l.omitted), len(l.names), m.name, strings.Join(l.omitted, ", "))
			}
			return nil
		}
		select {
		case <-ctx.Done():
			errs := []error{fmt.Errorf("%s does not answer %s as it should: %w", s.name, m.name, err)}
			for _, c := range b.children {
				if c.name == s.name {
					errs = append(errs, fmt.Errorf("%s wrote: %s", c.name, c.tail()))
				}
			}
			return errors.Join(errs...)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// once sends a request on a connection of its own, checks the whole answer, and
// gives its size.
func once(ctx context.Context, addr string, r *request) (int, error) {
	cn, err := dial(ctx, addr)
	if err != nil {
		return 0, err
	}
	defer cn.c.Close()
	if err := cn.c.SetDeadline(time.Now().Add(grace)); err != nil {
		return 0, err
	}
	cl := &client{conns: []*conn{cn}, request: r, wire: slices.Clone(r.bytes), next: firstID}
	return cl.first()
}

// row is the result of one system at one concurrency.
type row struct {
	measurement measurement
	concurrency int
	system      *system
	size        int // bytes of one answer
	sample      sample
	err         error
}

// turn is what is measured once in each round.
type turn struct {
	measurement measurement
	system      *system
}

// measureAll measures everything that is selected.
func (b *bench) measureAll(ctx context.Context) ([]row, error) {
	var rows []row
	for _, m := range measurements() {
		if !b.options.only.measurement(m.name) || m.beside != "" {
			continue
		}
		turns := b.turns(m)
		for _, c := range m.concurrency {
			b.say("measuring %s with %d clients", m.name, c)
			found, err := b.measurePoint(ctx, turns, c)
			if err != nil {
				return nil, err
			}
			rows = append(rows, found...)
		}
	}
	// A measurement beside another one gets its rows between the other one's.
	place := func(r row) int {
		return slices.IndexFunc(measurements(), func(m measurement) bool { return m.name == r.measurement.name })
	}
	slices.SortStableFunc(rows, func(x, y row) int { return place(x) - place(y) })
	return rows, nil
}

// turns gives a round of a measurement, and of those beside it: each system's
// turns follow each other.
func (b *bench) turns(m measurement) []turn {
	var turns []turn
	for _, s := range b.systems {
		for _, other := range measurements() {
			if (other.name == m.name || other.beside == m.name) && b.options.only.measurement(other.name) && s.serves(other) {
				turns = append(turns, turn{other, s})
			}
		}
	}
	return turns
}

// measurePoint measures all turns at one concurrency, round after round, so that
// what changes on the machine meanwhile meets all of them.
func (b *bench) measurePoint(ctx context.Context, turns []turn, c int) ([]row, error) {
	rows := make([]row, len(turns))
	samples := make([][]sample, len(turns))
	for i, t := range turns {
		rows[i] = row{measurement: t.measurement, concurrency: c, system: t.system}
	}
	for range b.options.rounds {
		for i, t := range turns {
			if rows[i].err != nil {
				continue
			}
			got, size, err := b.measureOnce(ctx, t.measurement, c, t.system)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			rows[i].err, rows[i].size = err, size
			samples[i] = append(samples[i], got)
		}
	}
	for i := range rows {
		if rows[i].err == nil {
			rows[i].sample = medianSample(samples[i])
		}
	}
	return rows, nil
}

func (b *bench) measureOnce(ctx context.Context, m measurement, c int, s *system) (sample, int, error) {
	at := s.at[m.upstream]
	r := newRequest(at, m.method, b.tools(m.upstream))
	size, err := once(ctx, at.addr, r)
	if err != nil {
		return sample{}, 0, err
	}
	if r.list != nil {
		r.list.size = size
	}
	counted, err := b.countAround(ctx, m, s)
	if err != nil {
		return sample{}, 0, err
	}
	got, err := generate(ctx, []string{at.addr}, r, c, b.options.duration, func() (time.Duration, bool) { return cpuTime(s.pids[m.upstream]) })
	if err == nil && got.rate == 0 {
		err = fmt.Errorf("no answer within %v", b.options.duration)
	}
	if err != nil {
		return got, size, err
	}
	return got, size, counted(got.sent)
}

func medianSample(samples []sample) sample {
	var rates []float64
	var p50, p99, cpu []time.Duration
	for _, s := range samples {
		rates, p50, p99, cpu = append(rates, s.rate), append(p50, s.p50), append(p99, s.p99), append(cpu, s.cpu)
	}
	return sample{rate: median(rates), p50: median(p50), p99: median(p99), cpu: median(cpu)}
}
