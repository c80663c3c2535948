package config

// Override is one key that the environment can set.
type Override struct {
	Env string // the variable; an empty value counts as unset
	Key string // of the file
	// Secret tells that the variable may hold a secret: the key becomes a reference
	// to it.
	Secret bool
}

// Overrides gives all keys that the environment can set. Lists are separated by
// commas.
func Overrides() []Override {
	return []Override{
		{Env: "CAUSEWAY_LISTEN", Key: "listen"},
		{Env: "CAUSEWAY_PUBLIC_URL", Key: "publicURL"},
		{Env: "CAUSEWAY_ADMIN_LISTEN", Key: "admin.listen"},
		{Env: "CAUSEWAY_DATA_DIR", Key: "store.dataDir"},
		{Env: "CAUSEWAY_REDIS_URL", Key: "redis.url", Secret: true},
		{Env: "CAUSEWAY_PEER_LISTEN", Key: "peer.listen"},
		{Env: "CAUSEWAY_PEER_ADDRESS", Key: "peer.address"},
		{Env: "CAUSEWAY_LOG_LEVEL", Key: "log.level"},
		{Env: "CAUSEWAY_LOG_FORMAT", Key: "log.format"},
		{Env: "CAUSEWAY_ALLOWED_ORIGINS", Key: "allowedOrigins"},
		{Env: "CAUSEWAY_TRUSTED_PROXIES", Key: "trustedProxies"},
		{Env: "CAUSEWAY_ALLOW_UNAUTHENTICATED", Key: "allowUnauthenticated"},
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
			root.set(o.Key, o.node(v))
		}
	}
	for _, o := range Overrides() {
		if v := l.Flags[o.Key]; v != "" {
			root.set(o.Key, &node{kind: kindString, text: v, source: "command line", loose: true})
		}
	}
}

// node stands for the variable, which has that value, in the tree.
func (o *Override) node(value string) *node {
	n := &node{kind: kindString, text: value, source: "environment " + o.Env, loose: true}
	if o.Secret {
		n.text = o.Env
		n = &node{kind: kindMap, entries: []entry{{key: "env", value: n}}, source: n.source}
	}
	return n
}
