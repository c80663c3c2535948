package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// measureDiscovery is the name of what is measured of progressive tool discovery.
const measureDiscovery = "discovery"

// searchesMeasured is how many searches are measured over HTTP.
const searchesMeasured = 1000

// serveServers is the subcommand "servers": one endpoint for each server of the
// catalogue, in the order of the file.
func serveServers(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	fs := flag.NewFlagSet(cmdServers, flag.ContinueOnError)
	file := fs.String("catalogue", "", "file of real tools")
	if err := fs.Parse(args); err != nil {
		return err
	}
	cat, err := loadCatalogue(*file)
	if err != nil {
		return err
	}
	var handlers []http.Handler
	for _, s := range cat.servers {
		u, err := newUpstream(s.tools, false)
		if err != nil {
			return err
		}
		name, err := json.Marshal(s.name)
		if err != nil {
			return err
		}
		u.info = fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":%s,"version":"1.0.0"}}`, name)
		handlers = append(handlers, u)
	}
	return serve(ctx, handlers, stdin, stdout)
}

// startServers starts a process that serves the servers of a catalogue, and gives
// the configuration of a tenant before them.
func startServers(dir, file string, cat *catalogue) (*child, []byte, error) {
	cmd, err := self(cmdServers, "-catalogue", file)
	if err != nil {
		return nil, nil, err
	}
	c, addrs, err := startChild(dir, "servers", cmd, len(cat.servers))
	if err != nil {
		return nil, nil, err
	}
	conf := []byte("  - name: default\n    auth: {mode: none}\n    discovery: {mode: search, fromURL: true}\n    upstreams:\n")
	taken := map[string]bool{}
	for i, s := range cat.servers {
		about, err := json.Marshal(s.description)
		if err != nil {
			return c, nil, err
		}
		conf = fmt.Appendf(conf, "      - {alias: %s, url: \"http://%s/mcp\", description: %s}\n", aliasOf(s.name, taken), addrs[i], about)
	}
	return c, conf, nil
}

// aliasOf makes an alias of a server's name that none of taken is.
func aliasOf(name string, taken map[string]bool) string {
	letters := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}
	base := strings.TrimLeft(strings.Map(letters, strings.ToLower(name)), "0123456789")
	base = "s" + base[:min(len(base), 15)]
	alias := base
	for n := 2; taken[alias]; n++ {
		alias = base + strconv.Itoa(n)
	}
	taken[alias] = true
	return alias
}

// discovery is what was found about a gateway whose lists show the tools that find
// tools.
type discovery struct {
	servers, tools int
	madeUp         bool
	full           int // bytes of the full list
	// Bytes that a client receives before it can call a tool: the list, one search
	// with five results and the details of one of them. The median and the most over
	// the queries.
	list, search, details, median, most int
	searches                            int
	p50, p99                            time.Duration // of searches by one client
	indexes                             []indexed
}

// mcpClient is a client that counts what it receives.
type mcpClient struct{ url string }

// ask sends a request and gives the body of its answer.
func (c *mcpClient) ask(ctx context.Context, query, method, name, params string) ([]byte, error) {
	if params != "" {
		params += ","
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"loadtest","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+query, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method},
	}
	if name != "" {
		req.Header.Set("Mcp-Name", name)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || !bytes.Contains(answer, []byte(`"result":`))) {
		err = fmt.Errorf("%s: status %d: %.200s", method, resp.StatusCode, answer)
	}
	return answer, err
}

// call calls a tool.
func (c *mcpClient) call(ctx context.Context, name string, args any) ([]byte, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	return c.ask(ctx, "", "tools/call", name, `"name":"`+name+`","arguments":`+string(raw))
}

// find searches for a tool, and gives the first one that is found.
func (c *mcpClient) find(ctx context.Context, query string) (answer []byte, first string, err error) {
	if answer, err = c.call(ctx, "search_tools", map[string]any{"query": query, "limit": 5}); err != nil {
		return nil, "", err
	}
	var m struct {
		Result struct {
			StructuredContent struct{ Results []struct{ Name string } }
		}
	}
	if err := json.Unmarshal(answer, &m); err != nil {
		return nil, "", err
	}
	if list := m.Result.StructuredContent.Results; len(list) > 0 {
		first = list[0].Name
	}
	return answer, first, nil
}

// economy measures what a client receives, and how long its searches take.
func (d *discovery) economy(ctx context.Context, url string, queries []string, searches int) error {
	c := &mcpClient{url}
	list, err := c.ask(ctx, "", "tools/list", "", "")
	if err != nil {
		return err
	}
	d.list = len(list)
	// The first lists may lack servers that have not answered yet.
	for d.full = 0; ; {
		full, err := c.ask(ctx, "?discovery=full", "tools/list", "", "")
		if err != nil {
			return err
		}
		if d.full = len(full); !bytes.Contains(full, []byte("io.github.causeway-mcp/partial")) {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	var sums, founds, details []int
	for _, query := range queries {
		answer, first, err := c.find(ctx, query)
		if err != nil {
			return err
		}
		if first == "" {
			return fmt.Errorf("nothing is found for %q", query)
		}
		detail, err := c.call(ctx, "get_tool_details", map[string]any{"names": []string{first}})
		if err != nil {
			return err
		}
		sums = append(sums, d.list+len(answer)+len(detail))
		founds, details = append(founds, len(answer)), append(details, len(detail))
	}
	d.search, d.details = median(founds), median(details)
	d.median, d.most = median(sums), slices.Max(sums)
	var times []time.Duration
	for i := range searches {
		start := time.Now()
		if _, _, err := c.find(ctx, queries[i%len(queries)]); err != nil {
			return err
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	d.searches, d.p50, d.p99 = searches, quantile(times, 0.5), quantile(times, 0.99)
	return nil
}

// discover measures progressive tool discovery with a gateway of its own.
func (b *bench) discover(ctx context.Context) (*discovery, error) {
	b.say("measuring %s", measureDiscovery)
	d := &discovery{servers: len(b.catalogue.servers), tools: len(b.catalogue.tools), madeUp: b.catalogue.madeUp}
	queries, err := loadQueries(b.options.catalogue, b.catalogue)
	if err != nil {
		return nil, err
	}
	servers, tenant, err := startServers(b.dir, b.options.catalogue, b.catalogue)
	if servers != nil {
		b.children = append(b.children, servers)
	}
	if err != nil {
		return nil, err
	}
	_, addr, err := b.startGateway(ctx, "causeway-discovery", tenant)
	if err != nil {
		return nil, err
	}
	url := "http://" + addr + "/mcp"
	until, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		if _, err := (&mcpClient{url}).ask(until, "", "tools/list", "", ""); err == nil {
			break
		}
		select {
		case <-until.Done():
			return nil, fmt.Errorf("the gateway before %d servers does not answer: %w", d.servers, until.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
	if err := d.economy(ctx, url, queries, searchesMeasured); err != nil {
		return nil, err
	}
	d.indexes, err = measureIndexes(ctx, b.catalogue, queries)
	return d, err
}

// loadQueries reads what is searched for: the queries beside a file of real tools,
// else the first words of what the tools are said to do.
func loadQueries(file string, cat *catalogue) (queries []string, err error) {
	data, err := os.ReadFile(filepath.Join(filepath.Dir(file), "queries-dev.jsonl"))
	if cat.madeUp || errors.Is(err, os.ErrNotExist) {
		for _, s := range cat.servers {
			for i := 0; i < len(s.tools); i += 8 {
				queries = append(queries, firstWords(s.tools[i].description, 10))
			}
		}
		return queries, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(data) {
		var q struct{ Query string }
		if err := json.Unmarshal(line, &q); err != nil {
			return nil, fmt.Errorf("read queries: %w", err)
		}
		queries = append(queries, q.Query)
	}
	return queries, nil
}

func firstWords(text string, n int) string {
	words := strings.Fields(text)
	return strings.Join(words[:min(n, len(words))], " ")
}
