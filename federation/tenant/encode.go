package tenant

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// formatVersion is that of everything written here. It rises when an older program
// would misread what a newer one has written; fields that are only added are
// refused by older ones as unknown, so that none of them serves a tenant without
// the rules that it does not know.
const formatVersion = 1

// document is a Snapshot as JSON.
type document struct {
	Version  int       `json:"version"`
	Revision uint64    `json:"revision"`
	Tenants  []*Tenant `json:"tenants"`
	Keys     []APIKey  `json:"keys"`
}

// tenantRecord and keyRecord are what back ends keep.
type tenantRecord struct {
	Version int     `json:"v"`
	Tenant  *Tenant `json:"tenant"`
}

type keyRecord struct {
	Version int    `json:"v"`
	Key     APIKey `json:"key"`
}

// format gives how values are written: equal ones in equal bytes.
func format() json.Options {
	return json.JoinOptions(
		json.Deterministic(true),
		json.WithMarshalers(json.MarshalToFunc(func(enc *jsontext.Encoder, d time.Duration) error {
			return enc.WriteToken(jsontext.String(d.String()))
		})),
	)
}

// EncodeTenant gives a tenant as back ends keep it: JSON in one line, with the
// version of its format. Equal tenants are equal bytes.
func EncodeTenant(t *Tenant) ([]byte, error) {
	raw, err := json.Marshal(tenantRecord{formatVersion, t}, format())
	if err != nil {
		return nil, fmt.Errorf("encode tenant %q: %w", t.Name, err)
	}
	return raw, nil
}

// EncodeKey gives a key as back ends keep it: JSON in one line, with the version of
// its format. Equal keys are equal bytes.
func EncodeKey(k APIKey) ([]byte, error) {
	raw, err := json.Marshal(keyRecord{formatVersion, k}, format())
	if err != nil {
		return nil, fmt.Errorf("encode key %q: %w", k.ID, err)
	}
	return raw, nil
}

// EncodeSnapshot gives a snapshot as JSON for people and for DecodeSnapshot. Equal
// snapshots are equal bytes. Keys are in it by their hashes only.
func EncodeSnapshot(s *Snapshot) ([]byte, error) {
	raw, err := json.Marshal(document{formatVersion, s.Revision, s.Tenants, s.Keys}, format(), jsontext.WithIndent("  "))
	if err != nil {
		return nil, fmt.Errorf("encode snapshot: %w", err)
	}
	return append(raw, '\n'), nil
}

// DecodeTenant reads what EncodeTenant wrote. Unknown fields and versions are
// errors.
func DecodeTenant(raw []byte) (*Tenant, error) {
	var r tenantRecord
	if err := decode(raw, &r, &r.Version).err(); err != nil {
		return nil, fmt.Errorf("read stored tenant: %w", err)
	}
	if r.Tenant == nil {
		r.Tenant = &Tenant{}
	}
	return r.Tenant, nil
}

// DecodeKey reads what EncodeKey wrote. Unknown fields and versions are errors.
func DecodeKey(raw []byte) (APIKey, error) {
	var r keyRecord
	if err := decode(raw, &r, &r.Version).err(); err != nil {
		return APIKey{}, fmt.Errorf("read stored key: %w", err)
	}
	return r.Key, nil
}

// DecodeSnapshot reads a snapshot strictly: unknown and double fields, other
// versions and all that Snapshot.Stored refuses are Faults, reported together, and so
// is what checks find wrong with one of its tenants. Errors of checks are Faults.
func DecodeSnapshot(data []byte, checks ...func(*Tenant) error) (*Snapshot, error) {
	var d document
	faults := decode(data, &d, &d.Version)
	s := &Snapshot{Revision: d.Revision, Tenants: d.Tenants, Keys: d.Keys}
	for i, t := range s.Tenants {
		if t == nil { // null, or something else than an object
			s.Tenants[i] = &Tenant{}
		}
	}
	stored, others := s.stored()
	faults = append(faults, faults.unrelated(others)...)
	for _, check := range checks {
		faults = append(faults, faults.unrelated(s.checked(check))...)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	stored.Revision = d.Revision
	for i, t := range s.Tenants {
		stored.Tenants[i].Revision = t.Revision
	}
	stored.sort()
	return stored, nil
}

// checked gives what check finds wrong with tenants.
func (s *Snapshot) checked(check func(*Tenant) error) Faults {
	var faults Faults
	for i, t := range s.Tenants {
		var wrong Faults
		if err := check(t); err != nil && !errors.As(err, &wrong) {
			wrong = Faults{{Message: err.Error()}}
		}
		faults.below(fmt.Sprintf("tenants[%d]", i), wrong)
	}
	return faults
}
