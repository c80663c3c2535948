package config

import (
	"reflect"
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
	differ("keys", started.Keys, next.Keys)
	differ("allowedOrigins", started.AllowedOrigins, next.AllowedOrigins)
	differ("trustedProxies", started.TrustedProxies, next.TrustedProxies)
	differ("allowUnauthenticated", started.AllowUnauthenticated, next.AllowUnauthenticated)
	differ("log.level", started.Log.Level, next.Log.Level)
	differ("log.format", started.Log.Format, next.Log.Format)
	eachField("server.", started.Server, next.Server, differ)
	eachField("limits.", started.Limits, next.Limits, differ)
	differ("timeouts.revalidate", started.Timeouts.Revalidate, next.Timeouts.Revalidate)
	differ("timeouts.idle", started.Timeouts.Idle, next.Timeouts.Idle)
	eachField("breaker.", started.Breaker, next.Breaker, differ)
	return keys
}

// eachField compares two structs field by field. A field's key is its name with
// a small first letter.
func eachField[T any](prefix string, a, b T, differ func(key string, a, b any)) {
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range va.NumField() {
		name := []rune(va.Type().Field(i).Name)
		name[0] = unicode.ToLower(name[0])
		differ(prefix+string(name), va.Field(i).Interface(), vb.Field(i).Interface())
	}
}
