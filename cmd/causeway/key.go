package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/causeway-mcp/causeway/auth"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway"
	"github.com/causeway-mcp/causeway/gateway/config"
)

// keyCommands are the subcommands of key.
func keyCommands() []command {
	return []command{
		{"create", "make an API key and print it, once", runKeyCreate},
		{"list", "list the API keys of a tenant", runKeyList},
		{"delete", "delete an API key", runKeyDelete},
	}
}

// runKey is `causeway key`.
func runKey(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return runOneOf(ctx, "key", "Makes, lists and deletes API keys, which are kept in the store. A registry in a file has\n"+
		"to be free: stop the gateway first.", keyCommands(), args, stdin, stdout, stderr)
}

// keyFlags are what all of them have.
type keyFlags struct {
	storeFlags
	tenant *string
}

func newKeyFlags(name, operands, about string) *keyFlags {
	fs := newFlags("key "+name, operands, about)
	return &keyFlags{storeFlags{fs, addConfigFlags(fs)}, fs.String("tenant", tenant.DefaultName, "the `name` of the tenant that the key opens")}
}

// do opens the registry, does something with it and closes it.
func (f *keyFlags) do(ctx context.Context, stderr io.Writer, do func(*gateway.Registry, *config.Config) error) int {
	r, cfg, ok := f.open(ctx, stderr)
	if !ok {
		return exitFailure
	}
	if err := errors.Join(do(r, cfg), r.Close()); err != nil {
		f.fail(stderr, err)
		return exitFailure
	}
	return exitOK
}

// runKeyCreate is `causeway key create`.
func runKeyCreate(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	f := newKeyFlags("create", "", "Makes an API key and prints it. It is kept as a hash only and cannot be shown again.\n"+
		"Clients show it as \"Authorization: Bearer KEY\".")
	name := f.set.String("name", "", "a `text` for people")
	subject := f.set.String("subject", "", "the `name` of whom the key stands for; default: one that no other key has")
	scopes := f.set.String("scopes", "", "the scopes that it has, a `list` with commas")
	groups := f.set.String("groups", "", "the groups that it is in, a `list` with commas")
	expires := f.set.String("expires", "", "a `time` such as 2027-01-31T00:00:00Z, or from now such as 720h; default: never")
	if code, ok := parseFlags(f.set, args, 0, 0, stdout, stderr); !ok {
		return code
	}
	now := time.Now()
	until, err := parseExpiry(*expires, now)
	if err != nil {
		f.fail(stderr, err)
		return exitUsage
	}
	plain, key := auth.NewKey(tenant.APIKey{
		Tenant: *f.tenant, Name: *name, Subject: *subject, Scopes: commas(*scopes), Groups: commas(*groups), Created: now, Expires: until,
	})
	if key.Subject == "" {
		key.Subject = "key:" + key.ID
	}
	return f.do(ctx, stderr, func(r *gateway.Registry, cfg *config.Config) error {
		mode, err := haveTenant(ctx, r, cfg, key.Tenant)
		if err != nil {
			return err
		}
		if err := r.PutKey(ctx, key); err != nil {
			return fmt.Errorf("write the key: %w", err)
		}
		fmt.Fprintln(stdout, plain)
		fmt.Fprintf(stderr, "made key %s of tenant %s; it is not shown again\n", key.ID, key.Tenant)
		if mode == "" || mode == tenant.AuthNone {
			fmt.Fprintf(stderr, "tenant %s has no authentication (auth.mode: none), so nobody needs the key\n", key.Tenant)
		}
		return nil
	})
}

// haveTenant makes sure that the registry knows a tenant, which a key needs, and gives
// its mode. One of the file is made known without anything of its own; should the file
// lose it, it would still be closed to all without a key.
func haveTenant(ctx context.Context, r tenant.Registry, cfg *config.Config, name string) (tenant.AuthMode, error) {
	stored, err := r.Tenant(ctx, name)
	if err != nil && !errors.Is(err, tenant.ErrNotFound) {
		return "", fmt.Errorf("look up the tenant: %w", err)
	}
	for _, t := range cfg.Tenants {
		if t.Name != name {
			continue
		}
		if stored == nil {
			_, err := r.Put(ctx, &tenant.Tenant{Name: name, Auth: tenant.Auth{Mode: tenant.AuthKeys}}, 0)
			if err != nil && !errors.Is(err, tenant.ErrConflict) { // somebody else did the same
				return "", fmt.Errorf("make the tenant known to the registry: %w", err)
			}
		}
		return t.Auth.Mode, nil
	}
	if stored == nil {
		return "", fmt.Errorf("there is no tenant %q", name)
	}
	return stored.Auth.Mode, nil
}

// parseExpiry reads when a key expires; zero for never.
func parseExpiry(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if d, derr := time.ParseDuration(s); derr == nil {
		at, err = now.Add(d), nil
	}
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("--expires: %q is neither a time such as 2027-01-31T00:00:00Z nor a duration such as 720h", s)
	case !at.After(now):
		return time.Time{}, fmt.Errorf("--expires: %q is over already", s)
	}
	return at, nil
}

// commas splits a list.
func commas(s string) []string {
	var list []string
	for one := range strings.SplitSeq(s, ",") {
		if one = strings.TrimSpace(one); one != "" {
			list = append(list, one)
		}
	}
	return list
}

// runKeyList is `causeway key list`.
func runKeyList(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	f := newKeyFlags("list", "", "Lists the API keys of a tenant. What opens something is not kept and not listed.")
	if code, ok := parseFlags(f.set, args, 0, 0, stdout, stderr); !ok {
		return code
	}
	return f.do(ctx, stderr, func(r *gateway.Registry, _ *config.Config) error {
		keys, err := r.Keys(ctx, *f.tenant)
		if err != nil && !errors.Is(err, tenant.ErrNotFound) {
			return fmt.Errorf("list keys: %w", err)
		}
		w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "ID\tNAME\tSUBJECT\tSCOPES\tGROUPS\tCREATED\tEXPIRES\tLAST USED")
		for _, k := range keys {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, dash(k.Name), dash(k.Subject),
				dash(strings.Join(k.Scopes, ",")), dash(strings.Join(k.Groups, ",")), when(k.Created), when(k.Expires), when(k.LastUsed))
		}
		return w.Flush()
	})
}

// dash gives text for a column, without what would break it.
func dash(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	if s == "" {
		return "-"
	}
	return s
}

// when gives a time for a column.
func when(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format("2006-01-02T15:04Z")
}

// runKeyDelete is `causeway key delete`.
func runKeyDelete(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	f := newKeyFlags("delete", "ID", "Deletes the API key with an id. Running gateways refuse it at once.")
	if code, ok := parseFlags(f.set, args, 1, 1, stdout, stderr); !ok {
		return code
	}
	return f.do(ctx, stderr, func(r *gateway.Registry, _ *config.Config) error {
		id := f.set.Arg(0)
		if err := r.DeleteKey(ctx, *f.tenant, id); errors.Is(err, tenant.ErrNotFound) {
			return fmt.Errorf("tenant %s has no key %s", *f.tenant, id)
		} else if err != nil {
			return fmt.Errorf("delete the key: %w", err)
		}
		fmt.Fprintf(stderr, "deleted key %s of tenant %s\n", id, *f.tenant)
		return nil
	})
}
