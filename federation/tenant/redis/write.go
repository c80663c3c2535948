package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// write runs a script that changes something, and brings what is known here up to
// it. It gives the registry's new revision.
func (r *Registry) write(ctx context.Context, what string, script *goredis.Script, args ...any) (uint64, error) {
	known := r.state.Load()
	return r.run(ctx, what, script, append([]any{r.channel, known.epoch, known.revision, rand.Text()}, args...))
}

// run is write for a script that has all its arguments.
func (r *Registry) run(ctx context.Context, what string, script *goredis.Script, args []any) (uint64, error) {
	revision, err := r.ask(ctx, what, script, args)
	if err != nil {
		return 0, err
	}
	// It is written. If it cannot be read now, it will be soon.
	if err := r.sync(ctx); err != nil && !errors.Is(err, context.Canceled) {
		r.log.Debug("read the registry after a change", "error", err)
	}
	return revision, nil
}

// ask runs a script that changes something, and gives the revision that it answers
// with.
func (r *Registry) ask(ctx context.Context, what string, script *goredis.Script, args []any) (uint64, error) {
	answer, err := script.Run(ctx, r.client, r.keys, args...).StringSlice()
	if err == nil && len(answer) == 0 {
		err = errAnswer
	}
	if err != nil {
		return 0, fmt.Errorf("%s: registry in redis: %w", what, err)
	}
	switch {
	case answer[0] == "done" && len(answer) == 2:
	case answer[0] == "missing":
		return 0, tenant.ErrNotFound
	case answer[0] == "conflict":
		return 0, tenant.ErrConflict
	case answer[0] == "other":
		return 0, fmt.Errorf("%s: %w: import an export to put that right", what, ErrLost)
	default:
		return 0, fmt.Errorf("%s: registry in redis: %w", what, errAnswer)
	}
	revision, err := strconv.ParseUint(answer[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: registry in redis: %w", what, errAnswer)
	}
	return revision, nil
}

// expected gives a revision as scripts want it.
func expected(revision uint64) string {
	if revision == tenant.Any {
		return "any"
	}
	return strconv.FormatUint(revision, 10)
}

// Put implements tenant.Registry. ErrLost, wrapped, tells that Redis does not hold
// what runs here; so do the other methods that write, but for Import.
func (r *Registry) Put(ctx context.Context, t *tenant.Tenant, expect uint64) (uint64, error) {
	t, err := tenant.Stored(t)
	if err != nil {
		return 0, err
	}
	encoded, err := tenant.EncodeTenant(t)
	if err != nil {
		return 0, err
	}
	return r.write(ctx, "write tenant "+t.Name, r.scripts.put, t.Name, encoded, expected(expect))
}

// Delete implements tenant.Registry.
func (r *Registry) Delete(ctx context.Context, name string, expect uint64) error {
	_, err := r.write(ctx, "delete tenant "+name, r.scripts.remove, name, expected(expect))
	return err
}

// encodeKey gives a key as it is kept: what it is named, its last use and the rest.
func encodeKey(k tenant.APIKey) (field string, used int64, encoded []byte, err error) {
	if !k.LastUsed.IsZero() {
		used = k.LastUsed.Unix()
	}
	k.LastUsed = time.Time{}
	encoded, err = tenant.EncodeKey(k)
	return k.Tenant + "/" + k.ID, used, encoded, err
}

// PutKey implements tenant.Registry.
func (r *Registry) PutKey(ctx context.Context, k tenant.APIKey) error {
	k, err := tenant.StoredKey(k)
	if err != nil {
		return err
	}
	field, used, encoded, err := encodeKey(k)
	if err != nil {
		return err
	}
	_, err = r.write(ctx, "write a key of "+k.Tenant, r.scripts.putKey, k.Tenant, field, used, encoded)
	return err
}

// TouchKey implements tenant.Registry. Only the first use of an hour that is noticed
// here asks Redis.
func (r *Registry) TouchKey(ctx context.Context, of, id string, used time.Time) error {
	used = used.UTC().Truncate(time.Hour)
	k, err := r.Key(ctx, of, id)
	if err != nil || !used.After(k.LastUsed) {
		return err
	}
	_, err = r.write(ctx, "write the use of a key of "+of, r.scripts.touchKey, of+"/"+id, used.Unix())
	return err
}

// DeleteKey implements tenant.Registry.
func (r *Registry) DeleteKey(ctx context.Context, of, id string) error {
	_, err := r.write(ctx, "delete a key of "+of, r.scripts.deleteKey, of+"/"+id)
	return err
}

// Import implements tenant.Registry. Everybody takes over what was imported, also
// those that run with something else than Redis held before.
func (r *Registry) Import(ctx context.Context, s *tenant.Snapshot, expect uint64) (uint64, error) {
	s, err := s.Stored()
	if err != nil {
		return 0, err
	}
	args := []any{r.channel, rand.Text(), expected(expect), len(s.Tenants)}
	for _, t := range s.Tenants {
		encoded, err := tenant.EncodeTenant(t)
		if err != nil {
			return 0, err
		}
		args = append(args, t.Name, encoded)
	}
	args = append(args, len(s.Keys))
	for _, k := range s.Keys {
		field, used, encoded, err := encodeKey(k)
		if err != nil {
			return 0, err
		}
		args = append(args, field, used, encoded)
	}
	return r.run(ctx, "import", r.scripts.imports, args)
}
