package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"
)

// checkServers looks whether the servers keep what they are given. Each primary of
// a cluster is looked at, since any may get the slot of the registry.
func (r *Registry) checkServers(ctx context.Context) error {
	cluster, ok := r.client.(*goredis.ClusterClient)
	if !ok {
		return r.checkServer(ctx, r.client, "")
	}
	var mu sync.Mutex
	var all []error
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *goredis.Client) error {
		err := r.checkServer(ctx, node, node.Options().Addr)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, err)
		return nil
	})
	return errors.Join(append(all, err)...)
}

// asker is the part of a client that tells about its server.
type asker interface {
	Info(ctx context.Context, sections ...string) *goredis.StringCmd
	ConfigGet(ctx context.Context, parameter string) *goredis.MapStringStringCmd
}

// checkServer looks at one server. addr names it where there are several.
func (r *Registry) checkServer(ctx context.Context, server asker, addr string) error {
	where := "redis"
	if addr != "" {
		where += " at " + addr
	}
	policy, err := evictionPolicy(ctx, server)
	if err != nil {
		return err
	}
	durable, err := durability(ctx, server)
	if err != nil {
		return err
	}
	var wrong []error
	switch policy {
	case "noeviction":
	case "":
		r.log.Warn("it cannot be found out whether redis may drop what is registered: let the user ask (+info +config|get), or make sure that maxmemory-policy is noeviction", "server", where)
	default:
		wrong = append(wrong, fmt.Errorf("%s may drop what is registered: set its maxmemory-policy to noeviction, not %s", where, policy))
	}
	switch durable {
	case yes:
	case unknown:
		r.log.Warn("it cannot be found out whether redis keeps the registry on disk: let the user ask (+info +config|get), or make sure that appendonly, or save, is set", "server", where)
	case no:
		wrong = append(wrong, fmt.Errorf("%s keeps the registry in memory only, and a restart would lose it: set appendonly yes, or save points (save 60 1)", where))
	}
	if err := errors.Join(wrong...); err != nil {
		if !r.opts.AllowVolatile {
			return err
		}
		r.log.Warn("the registry may be lost, which was allowed", "reason", err)
	}
	return nil
}

// answer to a question that may not be answered.
type answer int

const (
	unknown answer = iota
	no
	yes
)

// evictionPolicy gives what a full server drops; empty where it does not say.
func evictionPolicy(ctx context.Context, server asker) (string, error) {
	info, err := allowed(server.Info(ctx, "memory").Result())
	if err != nil {
		return "", err
	}
	if policy := infoField(info, "maxmemory_policy"); policy != "" {
		return policy, nil
	}
	config, err := allowed(server.ConfigGet(ctx, "maxmemory-policy").Result())
	return config["maxmemory-policy"], err
}

// durability tells whether a server keeps what it has on disk.
func durability(ctx context.Context, server asker) (answer, error) {
	info, err := allowed(server.Info(ctx, "persistence").Result())
	if err != nil {
		return unknown, err
	}
	if infoField(info, "aof_enabled") == "1" {
		return yes, nil
	}
	config, err := allowed(server.ConfigGet(ctx, "save").Result())
	if err != nil {
		return unknown, err
	}
	save, said := config["save"]
	if !said {
		return unknown, nil
	}
	if save != "" {
		return yes, nil
	}
	// Only without save points does it matter whether INFO was allowed.
	config, err = allowed(server.ConfigGet(ctx, "appendonly").Result())
	if err == nil && config["appendonly"] == "yes" {
		return yes, nil
	}
	return no, err
}

// allowed gives the zero value in place of an error that only says that the user
// may not ask, or that there is no such command, as some services have it.
func allowed[T any](value T, err error) (T, error) {
	if err == nil {
		return value, nil
	}
	var none T
	var refused goredis.Error
	if errors.As(err, &refused) {
		text := strings.ToLower(refused.Error())
		if strings.HasPrefix(text, "noperm") || strings.Contains(text, "unknown command") || strings.Contains(text, "unknown subcommand") {
			return none, nil
		}
	}
	return none, fmt.Errorf("ask about the server: %w", err)
}

// infoField gives one line of what INFO tells.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
