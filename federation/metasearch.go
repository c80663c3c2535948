package federation

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Bounds of what the tools that find tools take and give.
const (
	searchLimit     = 5 // results, where the caller says nothing
	searchLimitMost = 50
	detailsMost     = 20
	oneLine         = 120 // characters of a tool's description
	aboutLine       = 400 // of an upstream's description, and of its instructions
)

// allTools gives the view of all tools, as a list would, and what it is made of.
func (d *roster) allTools(ctx context.Context, c *Call) (*roster, *view, *toolAnswer, error) {
	at := Endpoint{Tenant: d.name, Toolset: c.Endpoint.Toolset, Discovery: tenant.DiscoveryFull}
	d, members, parts, err := d.collect(ctx, c, at, kindTools)
	if err != nil {
		return nil, nil, nil, err
	}
	return d, d.merge(viewKey{kind: kindTools}, members, parts), &toolAnswer{members: members, parts: parts}, nil
}

// searchArguments are those of search_tools.
type searchArguments struct {
	Query    string   `json:"query"`
	Limit    *float64 `json:"limit"` // 5.0 is an integer (JSON Schema 2020-12 validation, 6.1.1)
	Upstream string   `json:"upstream"`
	Detail   string   `json:"detail"`
}

// check gives the answer to arguments that are wrong, else nil, and how many results
// are wanted.
func (a *searchArguments) check(d *roster) (limit int, bad *toolAnswer) {
	limit = searchLimit
	if a.Limit != nil {
		if *a.Limit != math.Trunc(*a.Limit) || *a.Limit < 1 || *a.Limit > searchLimitMost {
			return 0, mistake("limit must be an integer between 1 and %d", searchLimitMost)
		}
		limit = int(*a.Limit)
	}
	switch {
	case strings.TrimSpace(a.Query) == "":
		return 0, mistake("query is missing: say in a few words what is to be done")
	case !slices.Contains([]string{"", "name", "description", "full"}, a.Detail):
		return 0, mistake("detail must be name, description or full")
	case a.Upstream != "" && !d.hasTools(a.Upstream):
		return 0, mistake("there is no upstream %q: list_upstreams tells which there are", a.Upstream)
	}
	return limit, nil
}

// hasTools tells whether the caller may know of an upstream: whether any of its tools
// are for them, or whether that is not known.
func (d *roster) hasTools(alias string) bool {
	m := d.byAlias[alias]
	if m == nil || !d.audience.hidden {
		return m != nil
	}
	return m.known(kindTools) == nil || d.view("", kindTools).holds(m)
}

// searchTools answers search_tools.
func (d *roster) searchTools(ctx context.Context, c *Call) (*Reply, error) {
	var args searchArguments
	if bad := argumentsOf(c, &args); bad != nil {
		return d.replyTool(c, bad), nil
	}
	limit, bad := args.check(d)
	if bad != nil {
		return d.replyTool(c, bad), nil
	}
	d.fed.metrics.searches.Inc()
	d.warm(kindDiscover) // for the next search: it says what an upstream is for
	d, v, a, err := d.allTools(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := nothingHad(a.members, a.parts); err != nil {
		return nil, err
	}
	found, total, err := d.find(ctx, v, args.Query, args.Upstream, limit)
	if err != nil {
		return nil, err
	}
	a.structured = append(a.structured, `{"results":[`...)
	given := 0
	for ; given < len(found); given++ {
		one, line := found[given].show(v, args.Detail)
		if given > 0 {
			if a.size()+len(one)+len(line) > metaBytes {
				break
			}
			a.structured, a.text = append(a.structured, ','), append(a.text, '\n')
		}
		a.structured, a.text = append(a.structured, one...), append(a.text, line...)
	}
	a.structured = strconv.AppendInt(append(a.structured, `],"total":`...), int64(total), 10)
	switch {
	case total == 0:
		a.text = append(a.text, "No tool was found for this (0 of 0). Try other words, or list_upstreams."...)
	default:
		a.text = fmt.Appendf(a.text, "\n(%d of %d)", given, total)
	}
	a.unavailable()
	return d.replyTool(c, a), nil
}

// show gives a result as structured content and as a line of text.
func (f *foundTool) show(v *view, detail string) (structured, line []byte) {
	alias := f.entry.member.conf.Alias
	structured = mcp.AppendQuote([]byte(`{"name":`), f.entry.exposed)
	structured = mcp.AppendQuote(append(structured, `,"upstream":`...), alias)
	score := strconv.AppendFloat(nil, f.score, 'g', 3, 64)
	line = append([]byte(f.entry.exposed), " ("+alias+", "+string(score)+")"...)
	switch raw := v.list[f.entry.start:f.entry.end]; detail {
	case "name":
	case "full":
		structured = append(append(structured, `,"definition":`...), raw...)
		line = append(append(line, ": "...), raw...)
	default:
		text, _ := mcp.String(raw, mcp.Find(raw, whole(raw), "description"))
		if text = firstSentence(text, oneLine); text == "" {
			text = shortLine(titleOf(raw), oneLine)
		}
		structured = mcp.AppendQuote(append(structured, `,"description":`...), text)
		if text != "" {
			line = append(append(line, ": "...), text...)
		}
	}
	structured = append(append(structured, `,"score":`...), score...)
	return append(structured, '}'), line
}

// firstSentence makes one line of a text's first sentence.
func firstSentence(text string, most int) string {
	// Longer texts are cut, so what comes after that makes no difference.
	text = shortLine(text, 4*most)
	for from := 0; ; {
		i := strings.Index(text[from:], ". ")
		if i < 0 {
			break
		}
		end := from + i
		word := text[strings.LastIndexByte(text[:end], ' ')+1 : end]
		next, _ := utf8.DecodeRuneInString(text[end+2:])
		// Not after e.g. or the number of a list, nor where it goes on in lower case.
		if strings.Trim(word, "0123456789") != "" && !strings.Contains(word, ".") && !unicode.IsLower(next) {
			text = text[:end+1]
			break
		}
		from = end + 1
	}
	return shortLine(text, most)
}

// shortLine makes one line of a text, of at most so many characters.
func shortLine(text string, most int) string {
	line := strings.Join(strings.Fields(text), " ")
	runes := 0
	for i := range line {
		if runes++; runes > most {
			return strings.TrimRight(line[:i], " ") + "…"
		}
	}
	return line
}

// toolDetails answers get_tool_details.
func (d *roster) toolDetails(ctx context.Context, c *Call) (*Reply, error) {
	var args struct {
		Names []string `json:"names"`
	}
	if bad := argumentsOf(c, &args); bad != nil {
		return d.replyTool(c, bad), nil
	}
	if len(args.Names) < 1 || len(args.Names) > detailsMost {
		return d.replyTool(c, mistake("names must hold between 1 and %d names", detailsMost)), nil
	}
	d, v, a, err := d.allTools(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := nothingHad(a.members, a.parts); err != nil {
		return nil, err
	}
	a.structured = append(a.structured, `{"tools":[`...)
	var unknown []string
	for _, name := range args.Names {
		i, ok := v.index[name]
		if !ok {
			unknown = append(unknown, name)
			continue
		}
		raw := v.list[v.entries[i].start:v.entries[i].end]
		if len(a.text) > 0 {
			if a.size()+2*len(raw) > metaBytes {
				return d.replyTool(c, mistake("these definitions are too long for one answer: ask for fewer at once")), nil
			}
			a.structured, a.text = append(a.structured, ','), append(a.text, '\n')
		}
		a.structured, a.text = append(a.structured, raw...), append(a.text, raw...)
	}
	a.structured = append(a.structured, ']')
	if len(unknown) > 0 {
		a.failed = len(unknown) == len(args.Names)
		list, _ := json.Marshal(unknown) // strings never fail
		a.structured = append(append(a.structured, `,"unknown":`...), list...)
		if len(a.text) > 0 {
			a.text = append(a.text, '\n')
		}
		a.text = append(append(a.text, "Unknown: "...), strings.Join(unknown, ", ")...)
	}
	a.unavailable()
	return d.replyTool(c, a), nil
}

// listUpstreams answers list_upstreams.
func (d *roster) listUpstreams(ctx context.Context, c *Call) (*Reply, error) {
	if bad := argumentsOf(c, &struct{}{}); bad != nil {
		return d.replyTool(c, bad), nil
	}
	var wg sync.WaitGroup
	wg.Go(func() { d.gather(ctx, d.members, kindDiscover) })
	now, v, a, err := d.allTools(ctx, c)
	wg.Wait()
	if err != nil {
		return nil, err
	}
	counts := map[*member]int{}
	for i := range v.entries {
		counts[v.entries[i].member]++
	}
	a.structured = append(a.structured, `{"upstreams":[`...)
	told := 0
	for i, m := range a.members {
		if now.audience.hidden && counts[m] == 0 && a.parts[i].seg != nil {
			continue // none of its tools is for the caller
		}
		if told++; told > 1 {
			a.structured, a.text = append(a.structured, ','), append(a.text, '\n')
		}
		a.structured = mcp.AppendQuote(append(a.structured, `{"alias":`...), m.conf.Alias)
		a.text = append(a.text, m.conf.Alias...)
		if a.parts[i].seg != nil {
			a.structured = fmt.Appendf(a.structured, `,"tools":%d`, counts[m])
			a.text = fmt.Appendf(a.text, " (%d tools)", counts[m])
		}
		if a.size() < metaBytes {
			a.tellAbout(m)
		}
		a.structured = append(a.structured, '}')
	}
	a.structured = append(a.structured, ']')
	a.unavailable()
	return now.replyTool(c, a), nil
}

// tellAbout adds what an upstream is for, and what it says to models.
func (a *toolAnswer) tellAbout(m *member) {
	description, instructions := m.about()
	for _, f := range [...]struct{ key, value string }{{"description", description}, {"instructions", instructions}} {
		if f.value = shortLine(f.value, aboutLine); f.value == "" {
			continue
		}
		a.structured = append(append(append(a.structured, `,"`...), f.key...), `":`...)
		a.structured = mcp.AppendQuote(a.structured, f.value)
		a.text = append(append(a.text, ": "...), f.value...)
	}
}
