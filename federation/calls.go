package federation

import (
	"bytes"
	"context"
	"crypto/sha256"
	"maps"
	"slices"
	"time"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// call routes tools/call and prompts/get by name.
func (d *roster) call(ctx context.Context, c *Call, k kind) (*Reply, error) {
	name := c.Request.Name
	if !name.IsString {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "params.name must be a string")
	}
	if err := checkArguments(c.Request); err != nil {
		return nil, err
	}
	if k == kindTools && d.modeOf(c.Endpoint) != modeFull {
		if t := metaTool(name.Value); t != nil {
			return t.call(d, ctx, c)
		}
	}
	t, err := d.resolve(ctx, c, k, name.Value)
	if err != nil {
		if m := d.connectOf(c.Endpoint.Alias, name.Value); m != nil && c.resumed && k == kindTools {
			return d.connect(ctx, c, m) // the tool has gone, since the user has signed in
		}
		return nil, err
	}
	t.field = name
	if t.item != nil && t.item.connect {
		return d.connect(ctx, c, t.member)
	}
	if err := d.checkNamed(c, k, t); err != nil {
		return nil, err
	}
	if k == kindTools && t.item != nil && len(t.item.params) > 0 && !c.NoHeaders {
		if err := mcp.CheckParamHeaders(c.Header, t.item.params, c.Request.Arguments.In(c.Request.Raw)); err != nil {
			return nil, err
		}
	}
	return d.relay(ctx, c, t)
}

// checkArguments refuses arguments that are no object.
func checkArguments(r *mcp.Request) error {
	if r.Arguments.Ok() && r.Raw[r.Arguments.Start] != '{' {
		return mcp.Errorf(mcp.CodeInvalidParams, "params.arguments must be an object")
	}
	return nil
}

// complete routes completion/complete by its ref.
func (d *roster) complete(ctx context.Context, c *Call) (*Reply, error) {
	ref := &c.Request.Ref
	switch {
	case ref.Type.Value == "ref/prompt" && ref.Name.IsString:
		t, err := d.resolve(ctx, c, kindPrompts, ref.Name.Value)
		if err != nil {
			return nil, err
		}
		t.field = ref.Name
		if err := d.checkNamed(c, kindPrompts, t); err != nil {
			return nil, err
		}
		return d.relay(ctx, c, t)
	case ref.Type.Value == "ref/resource" && ref.URI.IsString:
		t, err := d.locate(ctx, c, ref.URI.Value)
		if err != nil {
			return nil, err
		}
		t.field = ref.URI
		if err := d.checkResource(c, t); err != nil {
			return nil, err
		}
		return d.relay(ctx, c, t)
	}
	return nil, mcp.Errorf(mcp.CodeInvalidParams, "params.ref must be a ref/prompt with a name or a ref/resource with a uri")
}

// task routes the methods of the tasks extension by the id's alias.
func (d *roster) task(ctx context.Context, c *Call) (*Reply, error) {
	id := c.Request.TaskID
	t := d.locateTask(c.Endpoint.Alias, id.Value)
	if err := d.offersTasks(ctx, c, t); err != nil {
		return nil, err
	}
	if !id.IsString {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "params.taskId must be a string")
	}
	if t == nil || t.member.lacks(mcp.ExtensionTasks) {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Task not found")
	}
	t.field = id
	return d.relay(ctx, c, t)
}

// offersTasks refuses the tasks methods where the extension is not advertised,
// then clients that did not declare it (ext-tasks, Error Handling). Where it is
// not known whether the upstream of t, which may be nil, has tasks, that is its
// failure.
func (d *roster) offersTasks(ctx context.Context, c *Call, t *target) error {
	members := d.at(c.Endpoint.Alias)
	for _, wait := range []bool{false, true} {
		if wait {
			d.gather(ctx, members, kindDiscover)
		}
		for _, m := range members {
			if seg := m.known(kindDiscover); seg != nil && seg.discover.extensions[mcp.ExtensionTasks] {
				if !declares(c.Request, mcp.ExtensionTasks) {
					return missingTasks()
				}
				return nil
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if t != nil && t.member.known(kindDiscover) == nil {
		return unavailable(t.member.conf.Alias, t.member.failure(kindDiscover), "its capabilities could never be had")
	}
	return mcp.Errorf(mcp.CodeMethodNotFound, "Method not found")
}

// lacks tells whether the member is known not to offer an extension.
func (m *member) lacks(extension string) bool {
	seg := m.known(kindDiscover)
	return seg != nil && !seg.discover.extensions[extension]
}

// declares tells whether the request's client capabilities name the extension.
func declares(r *mcp.Request, extension string) bool {
	ext := mcp.Find(r.Raw, r.Meta.ClientCapabilities, "extensions")
	return mcp.Find(r.Raw, ext, extension).Ok()
}

// missingTasks is the error for clients that did not declare the extension.
func missingTasks() *mcp.Error {
	e := mcp.Errorf(mcp.CodeMissingClientCapability, "Missing required client capability")
	e.Data = []byte(`{"requiredCapabilities":{"extensions":{"` + mcp.ExtensionTasks + `":{}}}}`)
	return e
}

// serviceCredential is the authorization context of private answers while all
// users share one credential towards an upstream.
const serviceCredential = "service"

// read answers resources/read, from the cache where the upstream allowed it.
func (d *roster) read(ctx context.Context, c *Call) (*Reply, error) {
	r := c.Request
	if !r.URI.IsString {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "params.uri must be a string")
	}
	t, err := d.locate(ctx, c, r.URI.Value)
	if err != nil {
		return nil, err
	}
	t.field = r.URI
	if err := d.checkResource(c, t); err != nil {
		return nil, err
	}
	x := d.exchange(c, t)
	// Results of retries are never stored (2026-07-28, server/utilities/caching,
	// Cache Key).
	if r.InputResponses.Ok() || r.RequestState.Ok() || t.member.withdrawn(ctx) {
		d.fed.metrics.read(cacheBypass)
		return x.relay(ctx)
	}
	key := cache.Key{Topic: t.member.topic(r.Method), Credential: x.credential(), Param: t.name}
	for _, credential := range []string{"", key.Credential} {
		e, ok, err := d.fed.opts.Cache.Get(ctx, cache.Key{Topic: key.Topic, Credential: credential, Param: key.Param})
		if err != nil {
			// The cache cannot be used: what follows would only wait for it again.
			d.log.Debug("read from the cache", "error", err)
			d.fed.metrics.read(cacheMiss)
			return x.relay(ctx)
		}
		if left := e.Stored.Add(e.TTL).Sub(d.fed.now()); ok && left > 0 {
			d.fed.metrics.read(cacheHit)
			return x.replay(ctx, e.Body, left)
		}
	}
	d.fed.metrics.read(cacheMiss)
	gen, err := d.fed.opts.Cache.Generation(ctx, key.Topic)
	if err != nil {
		d.log.Debug("read a generation from the cache", "error", err)
		return x.relay(ctx)
	}
	x.keep = func(msg *mcp.Message) { t.member.keep(ctx, key, msg, gen) }
	return x.relay(ctx)
}

// credential names the authorization context that the upstream sees: while all
// users share one credential towards it, that and what the client may tell it by
// its headers.
func (x *exchange) credential() string {
	forwarded := x.forwarded()
	if len(forwarded) == 0 {
		return serviceCredential
	}
	var b []byte
	for _, name := range slices.Sorted(maps.Keys(forwarded)) {
		b = appendField(b, name)
		for _, value := range forwarded[name] {
			b = appendField(b, value)
		}
		b = append(b, '\n')
	}
	sum := sha256.Sum256(b)
	return serviceCredential + " " + string(sum[:])
}

// keep stores a complete result that may be reused.
func (m *member) keep(ctx context.Context, key cache.Key, msg *mcp.Message, gen uint64) {
	if msg.Kind != mcp.KindResult || (msg.ResultType.IsString && msg.ResultType.Value != mcp.ResultComplete) {
		return
	}
	ttl := m.ttlOf(msg, 0)
	if ttl <= 0 {
		return
	}
	f, log := m.domain.fed, m.domain.log
	e := cache.Entry{Body: bytes.Clone(msg.Raw), Stored: f.now(), TTL: ttl, Public: msg.CacheScope.Value == "public"}
	shared := key
	shared.Credential = ""
	if e.Public {
		key = shared
	}
	if _, err := f.opts.Cache.Put(ctx, key, e, gen); err != nil {
		log.Debug("write to the cache", "error", err)
	}
	if !e.Public {
		// What was public and became private must not stay for everybody.
		if err := f.opts.Cache.Delete(ctx, shared); err != nil {
			log.Debug("delete from the cache", "error", err)
		}
	}
}

// replay answers with a stored message of the upstream.
func (x *exchange) replay(ctx context.Context, raw []byte, left time.Duration) (*Reply, error) {
	msg, err := mcp.ParseMessage(raw, x.domain.fed.opts.Limits.MaxDepth)
	if err != nil {
		return nil, x.target.member.nonsense(classProtocol, "a stored answer: %w", err)
	}
	return x.result(ctx, msg, left)
}
