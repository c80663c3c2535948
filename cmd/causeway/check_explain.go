package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	jsonx "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/causeway-mcp/causeway/federation/policy"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway/config"
)

// explainFlags are the flags of `causeway check --explain`.
type explainFlags struct {
	explain                bool
	tenant, toolset, alias string
	names                  map[policy.Kind]*string
	as, arguments          string
	title, annotations     string
	json                   bool
	given                  map[string]bool // names of flags that are there
}

func (f *explainFlags) register(fs *flag.FlagSet) {
	fs.BoolVar(&f.explain, "explain", false, "tell which rule of the file lets somebody use --tool, --prompt or --resource, or does not")
	fs.StringVar(&f.as, "as", "", "with --explain: who asks, as `JSON`: an object with issuer, subject, clientID, scopes and groups")
	f.names = map[policy.Kind]*string{
		policy.KindTool:     fs.String("tool", "", "with --explain: the exposed `name` of a tool, such as travel_bookHotel"),
		policy.KindPrompt:   fs.String("prompt", "", "with --explain: the exposed `name` of a prompt"),
		policy.KindResource: fs.String("resource", "", "with --explain: the exposed `URI` of a resource, or a template"),
	}
	fs.StringVar(&f.tenant, "tenant", "", "with --explain: the `name` of a tenant; by default the one named default, or the only one")
	fs.StringVar(&f.toolset, "toolset", "", "with --explain: the `name` of the toolset through which it is used")
	fs.StringVar(&f.alias, "alias", "", "with --explain: the `alias` of the upstream that has it, where its name does not tell")
	fs.StringVar(&f.arguments, "arguments", "", "with --explain: the arguments of a call, as `JSON`; without them it is told what lists show")
	fs.StringVar(&f.title, "title", "", "with --explain: the `title` that the upstream gives it")
	fs.StringVar(&f.annotations, "annotations", "", "with --explain: the annotations that the upstream gives it, as `JSON`")
	fs.BoolVar(&f.json, "json", false, "with --explain: print JSON")
}

// check looks whether the flags that are given fit together.
func (f *explainFlags) check(fs *flag.FlagSet) error {
	f.given = map[string]bool{}
	var lone []string
	fs.Visit(func(set *flag.Flag) {
		f.given[set.Name] = true
		if strings.HasPrefix(set.Usage, "with --explain: ") {
			lone = append(lone, "--"+set.Name)
		}
	})
	if !f.explain {
		if len(lone) > 0 {
			return fmt.Errorf("%s: only with --explain", strings.Join(lone, ", "))
		}
		return nil
	}
	asked := 0
	for k := range f.names {
		if f.given[string(k)] {
			asked++
		}
	}
	switch {
	case asked != 1 || f.asked().Name == "":
		return errors.New("--explain needs one of --tool, --prompt and --resource")
	case f.given["arguments"] && f.given["resource"]:
		return errors.New("--arguments: a resource takes none")
	case f.given["annotations"] && f.given["prompt"]:
		return errors.New("--annotations: a prompt has none")
	}
	for _, name := range []string{"as", "arguments", "annotations"} {
		if text := fs.Lookup(name).Value.String(); f.given[name] && jsontext.Value(text).Kind() != '{' {
			return fmt.Errorf("--%s: must be a JSON object", name)
		} else if f.given[name] && !jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(name == "arguments")) {
			return fmt.Errorf("--%s: is not JSON", name)
		}
	}
	if _, err := f.principal(); err != nil {
		return fmt.Errorf("--as: %w", err)
	}
	return nil
}

// asked gives kind and exposed name of what is asked for.
func (f *explainFlags) asked() *policy.Item {
	it := &policy.Item{}
	for k, name := range f.names {
		if f.given[string(k)] {
			it.Kind, it.Name = k, *name
		}
	}
	return it
}

// principal reads who asks.
func (f *explainFlags) principal() (*tenant.Principal, error) {
	var as struct {
		Issuer   string   `json:"issuer"`
		Subject  string   `json:"subject"`
		ClientID string   `json:"clientID"`
		Scopes   []string `json:"scopes"`
		Groups   []string `json:"groups"`
	}
	err := jsonx.Unmarshal([]byte(cmp.Or(f.as, "{}")), &as, jsonx.RejectUnknownMembers(true))
	var semantic *jsonx.SemanticError
	switch {
	case errors.As(err, &semantic) && errors.Is(err, jsonx.ErrUnknownName):
		return nil, fmt.Errorf("%q is no field of a principal: it has issuer, subject, clientID, scopes and groups", semantic.JSONPointer.LastToken())
	case errors.As(err, &semantic):
		field, _, _ := strings.Cut(strings.TrimPrefix(string(semantic.JSONPointer), "/"), "/")
		return nil, fmt.Errorf("%q has the wrong type: scopes and groups are lists of strings, the others strings", field)
	case err != nil:
		return nil, errors.New("is not a JSON object")
	}
	return &tenant.Principal{Issuer: as.Issuer, Subject: as.Subject, ClientID: as.ClientID, Scopes: as.Scopes, Groups: as.Groups}, nil
}

// explanation is what is told.
type explanation struct {
	*policy.Explanation
	tenant  *tenant.Tenant
	who     *tenant.Principal
	item    *policy.Item
	call    *policy.Call
	unknown []string // fields of the item
	lacks   []string // scopes that any use of the tenant needs, and who has not
}

// run explains one decision of a configuration.
func (f *explainFlags) run(cfg *config.Config, stdout io.Writer) error {
	e, err := f.decide(cfg)
	if err != nil {
		return err
	}
	if f.json {
		return e.writeJSON(stdout)
	}
	return e.write(stdout)
}

func (f *explainFlags) decide(cfg *config.Config) (*explanation, error) {
	t, err := f.tenantOf(cfg)
	if err != nil {
		return nil, err
	}
	if f.toolset != "" && !slices.ContainsFunc(t.Toolsets, func(s tenant.Toolset) bool { return s.Name == f.toolset }) {
		return nil, fmt.Errorf("the tenant %s has no toolset %q", t.Name, f.toolset)
	}
	e := &explanation{tenant: t, item: f.asked()}
	if e.who, err = f.principal(); err != nil {
		return nil, err
	}
	e.who.Tenant, e.who.Scopes = t.Name, withImplied(e.who.Scopes, t.Auth.Implies)
	for _, s := range t.Auth.Scopes {
		if !slices.Contains(e.who.Scopes, s) {
			e.lacks = append(e.lacks, s)
		}
	}
	if err := f.describe(e); err != nil {
		return nil, err
	}
	if f.given["arguments"] {
		method := map[policy.Kind]string{policy.KindTool: "tools/call", policy.KindPrompt: "prompts/get"}[e.item.Kind]
		e.call = &policy.Call{Method: method, Arguments: json.RawMessage(f.arguments)}
	}
	e.Explanation, err = policy.ExplainWithout(t, e.who, f.toolset, e.item, e.call, e.unknown...)
	return e, err
}

// tenantOf finds the tenant that is asked about.
func (f *explainFlags) tenantOf(cfg *config.Config) (*tenant.Tenant, error) {
	var names []string
	for _, t := range cfg.Tenants {
		if t.Name == cmp.Or(f.tenant, tenant.DefaultName) || f.tenant == "" && len(cfg.Tenants) == 1 {
			return t, nil
		}
		names = append(names, t.Name)
	}
	switch {
	case len(names) == 0:
		return nil, errors.New("the file has no tenants; those of the registry are not in it")
	case f.tenant == "":
		return nil, fmt.Errorf("--tenant is needed: the file has %s", strings.Join(names, ", "))
	default:
		return nil, fmt.Errorf("the file has no tenant %q; it has %s", f.tenant, strings.Join(names, ", "))
	}
}

// withImplied adds the scopes that those of a token stand for.
func withImplied(scopes []string, implies map[string][]string) []string {
	all := slices.Clone(scopes)
	for i := 0; i < len(all); i++ {
		for _, s := range implies[all[i]] {
			if !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}

// describe notes what is known of the item without asking its server, and what is not.
func (f *explainFlags) describe(e *explanation) error {
	it := e.item
	u, err := f.owner(e.tenant, it)
	if err != nil {
		return err
	}
	unknown := func(field string, is bool) {
		if is {
			e.unknown = append(e.unknown, field)
		}
	}
	it.Alias, it.Title, it.Annotations = f.alias, f.title, json.RawMessage(f.annotations)
	if u != nil {
		it.Alias, it.Tags = u.Alias, u.Tags
	}
	if it.Kind == policy.KindResource {
		it.URI, it.Template = it.Name, strings.Contains(it.Name, "{")
		if original, ok := originalURI(it.Name, it.Alias); ok {
			it.URI = original
		}
	} else {
		it.OwnName = strings.TrimPrefix(it.Name, it.Alias+e.tenant.Separator)
	}
	unknown("ownName", it.Kind == policy.KindResource || mayBeCleaned(it.Name))
	unknown("tags", u == nil)
	unknown("title", !f.given["title"])
	unknown("annotations", !f.given["annotations"] && it.Kind != policy.KindPrompt)
	return nil
}

// owner finds the upstream that has the item, by its name; nil for one that the file
// does not know, which --alias may name.
func (f *explainFlags) owner(t *tenant.Tenant, it *policy.Item) (*tenant.Upstream, error) {
	var named, bare []*tenant.Upstream
	for i := range t.Upstreams {
		u := &t.Upstreams[i]
		if f.alias == u.Alias {
			return u, nil
		}
		is := strings.HasPrefix(it.Name, u.Alias+t.Separator)
		if it.Kind == policy.KindResource {
			_, is = originalURI(it.Name, u.Alias)
		}
		if is {
			named = append(named, u)
		}
		if u.Prefix == tenant.PrefixNone {
			bare = append(bare, u)
		}
	}
	switch {
	case f.alias != "":
		return nil, nil
	case len(named) == 1:
		return named[0], nil
	case len(bare) == 1:
		return bare[0], nil
	}
	return nil, fmt.Errorf("the name %q does not tell which upstream of the tenant %s has it: say so with --alias", it.Name, t.Name)
}

// originalURI undoes how the URI of an upstream's resource is exposed.
func originalURI(uri, alias string) (original string, ok bool) {
	const ui = "ui://"
	if len(uri) >= len(ui) && strings.EqualFold(uri[:len(ui)], ui) {
		rest, ok := strings.CutPrefix(uri[len(ui):], alias+"+")
		return uri[:len(ui)] + rest, ok
	}
	return strings.CutPrefix(uri, alias+"+")
}

// mayBeCleaned tells whether an exposed name may stand for another one, of which it
// then ends in a hash.
func mayBeCleaned(name string) bool {
	const digits = 8
	cut := len(name) - digits
	return cut > 0 && name[cut-1] == '_' && strings.Trim(name[cut:], "0123456789abcdef") == ""
}
