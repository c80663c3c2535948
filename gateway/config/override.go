package config

// Override is one key that the environment can set.
type Override struct {
	Env string // the variable; an empty value counts as unset
	Key string // of the file
}

// Overrides gives all keys that the environment can set. Lists are separated by
// commas.
func Overrides() []Override {
	return []Override{
		{"CAUSEWAY_LISTEN", "listen"},
		{"CAUSEWAY_PUBLIC_URL", "publicURL"},
		{"CAUSEWAY_ADMIN_LISTEN", "admin.listen"},
		{"CAUSEWAY_DATA_DIR", "store.dataDir"},
		{"CAUSEWAY_LOG_LEVEL", "log.level"},
		{"CAUSEWAY_LOG_FORMAT", "log.format"},
		{"CAUSEWAY_ALLOWED_ORIGINS", "allowedOrigins"},
		{"CAUSEWAY_TRUSTED_PROXIES", "trustedProxies"},
		{"CAUSEWAY_ALLOW_UNAUTHENTICATED", "allowUnauthenticated"},
	}
}

// override puts values of the environment, then of the command line, into the
// tree, so that they are checked like those of the file.
func (l Loader) override(root *node) {
	for _, o := range Overrides() {
		if l.LookupEnv == nil {
			break
		}
		if v, ok := l.LookupEnv(o.Env); ok && v != "" {
			root.set(o.Key, &node{kind: kindString, text: v, source: "environment " + o.Env, loose: true})
		}
	}
	for _, o := range Overrides() {
		if v := l.Flags[o.Key]; v != "" {
			root.set(o.Key, &node{kind: kindString, text: v, source: "command line", loose: true})
		}
	}
}
