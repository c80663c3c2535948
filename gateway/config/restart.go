package config

import (
	"reflect"
	"strings"
	"unicode"
)

// NeedRestart gives the keys whose values differ between started and next and
// which a running process does not take over: all but tenants and what upstreams
// inherit. They are in the order of the reference.
func NeedRestart(started, next *Config) []string {
	var keys []string
	differ := func(key string, a, b any) {
		if !reflect.DeepEqual(a, b) {
			keys = append(keys, key)
		}
	}
	differ("listen", started.Listen, next.Listen)
	differ("publicURL", started.PublicURL, next.PublicURL)
	differ("admin.listen", started.Admin.Listen, next.Admin.Listen)
	differ("store.dataDir", started.DataDir, next.DataDir)
	eachField("store.", started.Store, next.Store, differ)
	eachField("redis.", orEmpty(started.Redis), orEmpty(next.Redis), differ)
	eachField("peer.", started.Peer, next.Peer, differ)
	differ("keys", started.Keys, next.Keys)
	differ("allowedOrigins", started.AllowedOrigins, next.AllowedOrigins)
	differ("trustedProxies", started.TrustedProxies, next.TrustedProxies)
	differ("allowUnauthenticated", started.AllowUnauthenticated, next.AllowUnauthenticated)
	eachField("egress.", started.Egress, next.Egress, differ)
	differ("log.level", started.Log.Level, next.Log.Level)
	differ("log.format", started.Log.Format, next.Log.Format)
	eachField("server.", started.Server, next.Server, differ)
	eachField("limits.", started.Limits, next.Limits, differ)
	differ("timeouts.revalidate", started.Timeouts.Revalidate, next.Timeouts.Revalidate)
	differ("timeouts.idle", started.Timeouts.Idle, next.Timeouts.Idle)
	eachField("breaker.", started.Breaker, next.Breaker, differ)
	return keys
}

// orEmpty gives what a pointer points to, or the zero value.
func orEmpty[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// eachField compares two structs field by field. A field's key is its name with
// a small first letter, or in small letters where the name is an abbreviation.
func eachField[T any](prefix string, a, b T, differ func(key string, a, b any)) {
	eachValue(prefix, reflect.ValueOf(a), reflect.ValueOf(b), differ)
}

func eachValue(prefix string, a, b reflect.Value, differ func(key string, a, b any)) {
	for i := range a.NumField() {
		field := a.Type().Field(i)
		if field.Anonymous {
			eachValue(prefix, a.Field(i), b.Field(i), differ)
			continue
		}
		name := []rune(field.Name)
		name[0] = unicode.ToLower(name[0])
		if strings.ToUpper(field.Name) == field.Name {
			name = []rune(strings.ToLower(field.Name))
		}
		differ(prefix+string(name), a.Field(i).Interface(), b.Field(i).Interface())
	}
}
