package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/gateway/config"
)

// up gives a file with one upstream that has these keys more, each in a line of
// its own; the first is line 5.
func up(keys ...string) string {
	return "tenants:\n- name: a\n  upstreams:\n  - {alias: b, url: 'http://h/'}\n  - alias: c\n    url: http://h/\n    " +
		strings.Join(keys, "\n    ") + "\n"
}

// faultCase is a faulty file and the exact text of its faults.
type faultCase struct {
	name, text string
	want       []string
}

func (tt *faultCase) run(t *testing.T) {
	_, err := config.Parse([]byte(tt.text))
	var faults config.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("error %v, want Faults", err)
	}
	if diff := cmp.Diff(tt.want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	if strings.Contains(err.Error(), "hush") {
		t.Error("a fault shows a secret")
	}
}

// TestFaultsOfYAML holds what is not a configuration in form.
func TestFaultsOfYAML(t *testing.T) {
	tests := []faultCase{
		{"syntax", "a: [1, 2", []string{"not YAML: sequence end token ']' not found (line 1)"}},
		{"syntax does not show the line", "keys: 'hush", []string{"not YAML: could not find end character of single-quoted text (line 1)"}},
		{"list at the top", "- a", []string{"must be a mapping of keys, not a list (line 1)"}},
		{"text at the top", "hello", []string{"must be a mapping of keys, not a string (line 1)"}},
		{"two documents", "listen: ':1'\n---\nlisten: ':2'", []string{"one document only; here a second one begins (line 3)"}},
		{"tag", "listen: !!str x", []string{`the tag "!!str" is not supported (line 1)`}},
		{"no such anchor", "listen: *x", []string{`there is no anchor "x" before this alias (line 1)`}},
		{"anchor in itself", "tenants: &x [*x]", []string{`the alias "x" stands for itself (line 1)`}},
		{"too deep", "tenants: " + strings.Repeat("[", 40) + strings.Repeat("]", 40), []string{"nested deeper than 32 levels (line 1)"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

// TestFaultsOfKeys holds keys that this version does not know.
func TestFaultsOfKeys(t *testing.T) {
	tests := []faultCase{
		{"drain delay", "server: {drainDelay: 1m}", []string{"server.drainDelay: 1m0s must be less than shutdownGrace, 25s (line 1)"}},
		{"unknown key", "listen: 'localhost:1'\nspeed: 9", []string{"speed: unknown key (line 2)"}},
		{"unknown key like a known one", "public_url: x", []string{`public_url: unknown key; did you mean "publicURL"? (line 1)`}},
		{"slips of the hand", "lisen: x\npublicURLs: x\nstroe: {}\nlogg: {}\namdin: {}\nlistener: x\nlgo: {}\nke: []", []string{
			`lisen: unknown key; did you mean "listen"? (line 1)`,
			`publicURLs: unknown key; did you mean "publicURL"? (line 2)`,
			`stroe: unknown key; did you mean "store"? (line 3)`,
			`logg: unknown key; did you mean "log"? (line 4)`,
			`amdin: unknown key; did you mean "admin"? (line 5)`,
			"listener: unknown key (line 6)",
			`lgo: unknown key; did you mean "log"? (line 7)`,
			"ke: unknown key (line 8)",
		}},
		{"unknown key that is no word", "\"a b\": 1", []string{`["a b"]: unknown key (line 1)`}},
		{"unknown key deep down", up("timeouts: {total: 1s}"), []string{"tenants[0].upstreams[1].timeouts.total: unknown key (line 7)"}},
		{"duplicate key", "listen: 'localhost:1'\nlog: {}\nlisten: ':2'\nlisten: ':3'", []string{
			"listen: duplicate key; the first is on line 1 (line 3)",
			"listen: duplicate key; the first is on line 1 (line 4)",
		}},
		{"later keys", "admin: {token: {env: X}}", []string{"admin.token: not supported by this version (line 1)"}},
		{"discovery", "tenants: [{name: a, discovery: {mode: fast, pinned: ['', '[a']}}]", []string{
			`tenants[0].discovery.mode: "fast" must be full, search or auto (line 1)`,
			`tenants[0].discovery.pinned[0]: "" must be a name or a pattern such as ledger_* (line 1)`,
			`tenants[0].discovery.pinned[1]: "[a" must be a name or a pattern such as ledger_* (line 1)`,
		}},
		{"auth mode", "tenants: [{name: a, auth: {mode: basic}}]", []string{
			`tenants[0].auth.mode: "basic" must be none, oauth or keys (line 1)`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

// TestFaultsOfTypes holds values of the wrong form.
func TestFaultsOfTypes(t *testing.T) {
	tests := []faultCase{
		{"integer for a string", "listen: 8080", []string{"listen: must be a string in quotes, not an integer (line 1)"}},
		{"mapping for a string", "listen: {}", []string{"listen: must be a string, not a mapping (line 1)"}},
		{"string for a mapping", "log: info", []string{"log: must be a mapping, not a string (line 1)"}},
		{"mapping for a list", "tenants:\n  name: a", []string{"tenants: must be a list, not a mapping (line 2)"}},
		{"nothing in a list", "tenants:\n-\n- name: a", []string{"tenants[0]: must be a mapping, not null (line 2)"}},
		{"string for a boolean", "allowUnauthenticated: 'yes'", []string{"allowUnauthenticated: must be true or false, not a string (line 1)"}},
		{"float for a count", "limits: {pages: 1.5}", []string{"limits.pages: must be an integer, not a float (line 1)"}},
		{"count out of range", "limits: {pages: 0, items: -3, listenQueue: 99999999999999999999}", []string{
			"limits.pages: 0 must be between 1 and 2147483647 (line 1)",
			"limits.items: -3 must be between 1 and 2147483647 (line 1)",
			"limits.listenQueue: must be an integer, not a string (line 1)",
		}},
		{"integer for a duration", "timeouts: {call: 60}", []string{"timeouts.call: must be a duration such as 2s, not an integer (line 1)"}},
		{"durations", "timeouts: {call: soon, list: -2s, connect: 0s}\ncache: {listTTL: -1s}", []string{
			`timeouts.call: "soon" must be a duration such as 2s or 1m30s (line 1)`,
			"timeouts.list: -2s must not be negative (line 1)",
			"timeouts.connect: must be more than 0 (line 1)",
			"cache.listTTL: -1s must not be negative (line 2)",
		}},
		{"sizes", "limits: {body: 4 megs, message: -1, depth: true, cacheBytes: 0, bufferedBytes: 99999999999GiB, instructions: 2GiB}", []string{
			`limits.body: "4 megs" must be a size such as 512KiB or 4MiB (line 1)`,
			`limits.message: "-1" must be a size such as 512KiB or 4MiB (line 1)`,
			"limits.depth: must be an integer, not a boolean (line 1)",
			"limits.cacheBytes: must be more than 0 (line 1)",
			`limits.bufferedBytes: "99999999999GiB" must be a size such as 512KiB or 4MiB (line 1)`,
			"limits.instructions: 2GiB must be less than 2GiB (line 1)",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

// TestFaultsOfProcess holds keys of the process.
func TestFaultsOfProcess(t *testing.T) {
	tests := []faultCase{
		{"listen", "listen: '8080'", []string{`listen: "8080" must be host:port, such as 127.0.0.1:8080 or :8080 (line 1)`}},
		{"listen on no port", "admin: {listen: '127.0.0.1:http'}", []string{`admin.listen: "127.0.0.1:http" must be host:port, such as 127.0.0.1:8080 or :8080 (line 1)`}},
		{"both on one address", "listen: 127.0.0.1:9090", []string{`admin.listen: "127.0.0.1:9090" is the address of listen too`}},
		{"reachable without authentication", "listen: 0.0.0.0:8080\ntenants: [{name: a}]", []string{
			`listen: "0.0.0.0:8080" can be reached from other machines, and a tenant has no authentication (auth.mode: none): listen on a loopback address, or acknowledge it with allowUnauthenticated: true (line 1)`,
		}},
		{"public URL", "publicURL: ftp://x", []string{"publicURL: must be an http or https URL such as https://mcp.example.com (line 1)"}},
		{"public URL with a password", "publicURL: https://u:hush@x/", []string{"publicURL: must not hold a user or password (line 1)"}},
		{"public URL with a query", "publicURL: https://x/?a", []string{`publicURL: "https://x/?a" must not have a query or fragment (line 1)`}},
		{"origins", "allowedOrigins: ['*', 'https://A.example.com', 'https://a.example.com/', 'https://a.example.com:444']", []string{
			`allowedOrigins[0]: "*" must be an http or https origin such as https://app.example.com, in lower case and without a path (line 1)`,
			`allowedOrigins[1]: "https://A.example.com" must be an http or https origin such as https://app.example.com, in lower case and without a path (line 1)`,
			`allowedOrigins[2]: "https://a.example.com/" must be an http or https origin such as https://app.example.com, in lower case and without a path (line 1)`,
		}},
		{"proxies", "trustedProxies: [proxy, 10.0.0.0/40]", []string{
			`trustedProxies[0]: "proxy" must be an address such as 10.1.2.3 or a network such as 10.0.0.0/8 (line 1)`,
			`trustedProxies[1]: "10.0.0.0/40" must be an address such as 10.1.2.3 or a network such as 10.0.0.0/8 (line 1)`,
		}},
		{"egress", "egress: {allow: [internal, 10.0.0.0/40], trustProxy: maybe, deny: []}", []string{
			`egress.allow[0]: "internal" must be an address such as 10.1.2.3 or a network such as 10.0.0.0/8 (line 1)`,
			`egress.allow[1]: "10.0.0.0/40" must be an address such as 10.1.2.3 or a network such as 10.0.0.0/8 (line 1)`,
			`egress.trustProxy: must be true or false, not a string (line 1)`,
			`egress.deny: unknown key (line 1)`,
		}},
		{"log", "log: {level: loud, format: xml}", []string{
			`log.level: "loud" must be debug, info, warn or error (line 1)`,
			`log.format: "xml" must be text or json (line 1)`,
		}},
		{"data directory", "store: {dataDir: ''}", []string{"store.dataDir: must not be empty (line 1)"}},
		{"keys", "keys:\n- {id: k1, secret: {env: A}}\n- {id: k1, secret: {file: b}}\n- {secret: {env: A, file: b}}\n- {id: 'a b'}", []string{
			`keys[1].id: "k1" is the id of keys[0] too (line 3)`,
			"keys[2].id: is required (line 4)",
			"keys[2].secret: must be a reference: either {env: NAME} or {file: path} (line 4)",
			`keys[3].id: "a b" must match ^[A-Za-z0-9._-]{1,32}$ (line 5)`,
			"keys[3].secret: must be a reference: either {env: NAME} or {file: path} (line 5)",
		}},
		{"literal secret", "keys: [{id: k, secret: hush}]", []string{
			"keys[0].secret: must be a reference, {env: NAME} or {file: path}, and never the secret itself (line 1)",
		}},
		{"unknown kind of secret", "keys: [{id: k, secret: {value: hush}}]", []string{"keys[0].secret.value: unknown key (line 1)"}},
		{"limits", "limits: {depth: 10001, pageSize: 100001, body: 2MiB, bufferedBytes: 1MiB}", []string{
			"limits.depth: 10001 must be at most 10000 (line 1)",
			"limits.pageSize: 100001 must be at most 100000 (line 1)",
			"limits.body: 2097152 bytes are more than limits.bufferedBytes (1048576 bytes) has room for (line 1)",
		}},
		{"call times", "timeouts: {call: 20m}", []string{"timeouts.call: call (20m0s) must not be longer than callMax (10m0s) (line 1)"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

// TestFaultsOfTenants holds tenants and upstreams.
func TestFaultsOfTenants(t *testing.T) {
	tests := []faultCase{
		{"tenant names", "tenants:\n- {}\n- name: Acme\n- name: -a\n- name: a\n- name: a", []string{
			"tenants[0].name: is required (line 2)",
			`tenants[1].name: "Acme" must match ^[a-z0-9][a-z0-9-]{0,62}$ (line 3)`,
			`tenants[2].name: "-a" must match ^[a-z0-9][a-z0-9-]{0,62}$ (line 4)`,
			`tenants[4].name: "a" is the name of tenants[3] too (line 6)`,
		}},
		{"tenant values", "tenants: [{name: a, separator: '-', pageSize: 100001}]", []string{
			`tenants[0].separator: "-" must be "_" or "__" (line 1)`,
			"tenants[0].pageSize: 100001 must be between 0 and 100000 (line 1)",
		}},
		{"alias as in the documentation", "tenants:\n- name: a\n- name: b\n  upstreams:\n  - url: http://h/\n    alias: Search", []string{
			`tenants[1].upstreams[0].alias: "Search" must match ^[a-z][a-z0-9]{0,19}$ (line 6)`,
		}},
		{"aliases", "tenants:\n- name: a\n  upstreams:\n" +
			"  - {url: 'http://h/'}\n  - {alias: 1a, url: 'http://h/'}\n  - {alias: a_b, url: 'http://h/'}\n" +
			"  - {alias: git, url: 'http://h/'}\n  - {alias: ok, url: 'http://h/'}\n  - {alias: ok, url: 'http://h/'}\n" +
			"  - {alias: abcdefghijklmnopqrstu, url: 'http://h/'}", []string{
			"tenants[0].upstreams[0].alias: is required (line 4)",
			`tenants[0].upstreams[1].alias: "1a" must match ^[a-z][a-z0-9]{0,19}$ (line 5)`,
			`tenants[0].upstreams[2].alias: "a_b" must match ^[a-z][a-z0-9]{0,19}$ (line 6)`,
			`tenants[0].upstreams[3].alias: "git" is reserved (line 7)`,
			`tenants[0].upstreams[5].alias: "ok" is that of upstreams[4] too (line 9)`,
			`tenants[0].upstreams[6].alias: "abcdefghijklmnopqrstu" must match ^[a-z][a-z0-9]{0,19}$ (line 10)`,
		}},
		{"urls", "tenants:\n- name: a\n  upstreams:\n" +
			"  - {alias: a}\n  - {alias: b, url: h/mcp}\n  - {alias: c, url: 'file:///mcp'}\n  - {alias: d, url: 'http:///mcp'}\n" +
			"  - {alias: e, url: 'http://u:hush@h/'}\n  - {alias: f, url: 'http://h/#x'}\n  - {alias: g, url: 'http://h:99999/'}\n" +
			"  - {alias: h, url: 'http://h:/'}\n  - {alias: i, url: 'http://h/%zz'}\n  - {alias: j, url: 'https://h:8443/mcp?k=v'}", []string{
			"tenants[0].upstreams[0].url: is required, or command in its place (line 4)",
			"tenants[0].upstreams[1].url: must be an http or https URL such as http://127.0.0.1:7001/mcp (line 5)",
			"tenants[0].upstreams[2].url: must be an http or https URL such as http://127.0.0.1:7001/mcp (line 6)",
			"tenants[0].upstreams[3].url: must be an http or https URL such as http://127.0.0.1:7001/mcp (line 7)",
			"tenants[0].upstreams[4].url: must not hold a user or password (line 8)",
			"tenants[0].upstreams[5].url: must not have a fragment (line 9)",
			"tenants[0].upstreams[6].url: must be an http or https URL such as http://127.0.0.1:7001/mcp (line 10)",
			"tenants[0].upstreams[7].url: must be an http or https URL such as http://127.0.0.1:7001/mcp (line 11)",
			"tenants[0].upstreams[8].url: must be an http or https URL such as http://127.0.0.1:7001/mcp (line 12)",
		}},
		{"upstream values", up("prefix: maybe", "tags: [ok, 'not ok', ok, 3]", "inFlight: 0"), []string{
			`tenants[0].upstreams[1].prefix: "maybe" must be alias or none (line 7)`,
			"tenants[0].upstreams[1].tags[3]: must be a string in quotes, not an integer (line 8)",
			`tenants[0].upstreams[1].tags[1]: "not ok" must match ^[A-Za-z0-9._:/-]{1,63}$ (line 8)`,
			`tenants[0].upstreams[1].tags[2]: "ok" is there twice (line 8)`,
			"tenants[0].upstreams[1].inFlight: 0 must be between 1 and 2147483647 (line 9)",
		}},
		{"eras and sessions", up("era: old", "sessions: mine", "limits: {sessions: 0, parkMax: 0s, parkedperprincipal: 1}"), []string{
			`tenants[0].upstreams[1].era: "old" must be auto, modern or handshake (line 7)`,
			`tenants[0].upstreams[1].sessions: "mine" must be perPrincipal or shared (line 8)`,
			"tenants[0].upstreams[1].limits.sessions: 0 must be between 1 and 2147483647 (line 9)",
			"tenants[0].upstreams[1].limits.parkMax: must be more than 0 (line 9)",
			`tenants[0].upstreams[1].limits.parkedperprincipal: unknown key; did you mean "parkedPerPrincipal"? (line 9)`,
		}},
		{"url and command", up("command: [npx]"), []string{
			"tenants[0].upstreams[1].command: command, env and dir are for an upstream without a url (line 7)",
		}},
		{"programs", "tenants:\n- name: a\n  upstreams:\n" +
			"  - {alias: a, command: []}\n  - {alias: b, dir: x}\n  - {alias: c, command: ['']}\n  - {alias: d, command: npx -y}\n" +
			"  - {alias: e, command: [x, 5]}\n  - {alias: f, command: [\"x\\0\"], dir: \"\\0\", forwardHeaders: [X-Ok]}", []string{
			"tenants[0].upstreams[0].command: must name a program (line 4)",
			"tenants[0].upstreams[1].command: must name a program (line 5)",
			"tenants[0].upstreams[2].command: must name a program (line 6)",
			"tenants[0].upstreams[3].command: must be a list, not a string (line 7)",
			"tenants[0].upstreams[4].command[1]: must be a string in quotes, not an integer (line 8)",
			"tenants[0].upstreams[5].command[0]: must not contain a null character (line 9)",
			"tenants[0].upstreams[5].dir: must not contain a null character (line 9)",
			"tenants[0].upstreams[5].forwardHeaders: a program takes no headers (line 9)",
		}},
		{"variables of a program", "tenants:\n- name: a\n  upstreams:\n  - alias: a\n    command: [x]\n    env:\n      OK: hush\n      9A: hush\n" +
			"      'A B': hush\n      N: 5\n      E:\n      B: {env: X, file: y}\n      V: {value: hush}\n      OK: hush\n      Z: \"hush\\0\"", []string{
			"tenants[0].upstreams[0].env.9A: the name of a variable must match ^[A-Za-z_][A-Za-z0-9_]{0,255}$ (line 8)",
			`tenants[0].upstreams[0].env["A B"]: the name of a variable must match ^[A-Za-z_][A-Za-z0-9_]{0,255}$ (line 9)`,
			"tenants[0].upstreams[0].env.N: must be a string in quotes, not an integer (line 10)",
			"tenants[0].upstreams[0].env.E: must be a string, not null (line 11)",
			"tenants[0].upstreams[0].env.B: must be a value, or a reference: either {env: NAME} or {file: path} (line 12)",
			"tenants[0].upstreams[0].env.V.value: unknown key (line 13)",
			"tenants[0].upstreams[0].env.OK: duplicate key; the first is on line 7 (line 14)",
			"tenants[0].upstreams[0].env.Z: must not contain a null character (line 15)",
		}},
		{"forwarded headers", up("forwardHeaders: [X-Ok, 'x ok', authorization, COOKIE, mcp-name, Connection, X-Forwarded-For, last-event-id]"), []string{
			`tenants[0].upstreams[1].forwardHeaders[1]: "x ok" is not a header name (line 7)`,
			`tenants[0].upstreams[1].forwardHeaders[2]: "authorization" is made anew by the gateway and cannot be forwarded (line 7)`,
			`tenants[0].upstreams[1].forwardHeaders[3]: "COOKIE" is made anew by the gateway and cannot be forwarded (line 7)`,
			`tenants[0].upstreams[1].forwardHeaders[4]: "mcp-name" is made anew by the gateway and cannot be forwarded (line 7)`,
			`tenants[0].upstreams[1].forwardHeaders[5]: "Connection" is made anew by the gateway and cannot be forwarded (line 7)`,
			`tenants[0].upstreams[1].forwardHeaders[6]: "X-Forwarded-For" is made anew by the gateway and cannot be forwarded (line 7)`,
			`tenants[0].upstreams[1].forwardHeaders[7]: "last-event-id" is made anew by the gateway and cannot be forwarded (line 7)`,
		}},
		{"upstream call times", up("timeouts: {callMax: 30s}"), []string{
			"tenants[0].upstreams[1].timeouts.callMax: call (1m0s) must not be longer than callMax (30s) (line 7)",
		}},
		{"upstream call times against the process's", "timeouts: {call: 1m, callMax: 2m}\n" + up("timeouts: {call: 3m}"), []string{
			"tenants[0].upstreams[1].timeouts.call: call (3m0s) must not be longer than callMax (2m0s) (line 8)",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

// TestFaultsTogether holds that all faults come at once, in the order of the file, without those
// that only follow from others.
func TestFaultsTogether(t *testing.T) {
	tests := []faultCase{
		{"many", "speed: 9\ntenants:\n- name: Bad\n  upstreams:\n  - alias: 5\n    url: [x]\n  - what\nlisten: 1.5\nkeys: [{id: a, secret: {env: 5}}]\nlog: {level: loud}", []string{
			"speed: unknown key (line 1)",
			`tenants[0].name: "Bad" must match ^[a-z0-9][a-z0-9-]{0,62}$ (line 3)`,
			"tenants[0].upstreams[0].alias: must be a string in quotes, not an integer (line 5)",
			"tenants[0].upstreams[0].url: must be a string, not a list (line 6)",
			"tenants[0].upstreams[1]: must be a mapping, not a string (line 7)",
			"listen: must be a string in quotes, not a float (line 8)",
			"keys[0].secret.env: must be a string in quotes, not an integer (line 9)",
			`log.level: "loud" must be debug, info, warn or error (line 10)`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

// TestAliasBomb holds the bound on what aliases stand for.
func TestAliasBomb(t *testing.T) {
	var text strings.Builder
	text.WriteString("a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]\n")
	for i := 1; i < 10; i++ {
		line := "aN: &aN [*aM, *aM, *aM, *aM, *aM, *aM, *aM, *aM, *aM, *aM]\n"
		text.WriteString(strings.NewReplacer("N", string(rune('0'+i)), "M", string(rune('0'+i-1))).Replace(line))
	}
	_, err := config.Parse([]byte(text.String()))
	if err == nil || !strings.Contains(err.Error(), "aliases stand for more than 100000 values") {
		t.Errorf("error %v, want one about aliases", err)
	}
}

// TestFaultFromOverride holds that values of the environment are checked too,
// and that the fault says where they are from.
func TestFaultFromOverride(t *testing.T) {
	l := config.Loader{LookupEnv: env(map[string]string{
		"CAUSEWAY_LISTEN": "8080", "CAUSEWAY_ALLOWED_ORIGINS": "https://a.example.com,*",
		"CAUSEWAY_ALLOW_UNAUTHENTICATED": "sure", "CAUSEWAY_LOG_LEVEL": "loud",
	}), Flags: map[string]string{"admin.listen": "nine"}}
	_, err := l.Parse([]byte("listen: 127.0.0.1:1\nspeed: 1\nadmin: 5"))
	want := []string{
		`log.level: "loud" must be debug, info, warn or error (environment CAUSEWAY_LOG_LEVEL)`,
		`allowUnauthenticated: "sure" must be true or false (environment CAUSEWAY_ALLOW_UNAUTHENTICATED)`,
		`listen: "8080" must be host:port, such as 127.0.0.1:8080 or :8080 (environment CAUSEWAY_LISTEN)`,
		`allowedOrigins[1]: "*" must be an http or https origin such as https://app.example.com, in lower case and without a path (environment CAUSEWAY_ALLOWED_ORIGINS)`,
		"speed: unknown key (line 2)",
		"admin: must be a mapping, not an integer (line 3)",
	}
	if err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

// TestValidate holds the same checks for a Config that was made in code.
func TestValidate(t *testing.T) {
	c := config.Default()
	if err := c.Validate(); err != nil {
		t.Errorf("Validate of the default: %v", err)
	}
	c.Listen = "nowhere"
	want := `listen: "nowhere" must be host:port, such as 127.0.0.1:8080 or :8080`
	if err := c.Validate(); err == nil || err.Error() != want {
		t.Errorf("Validate = %v, want %s", err, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "listen: ':1'", up("tags: [a]", "timeouts: {call: 1s}"), "a: &a [*a]", "a: &x {b: 1}\nc: {<<: *x}",
		"keys: [{id: k, secret: {env: A}}]", "{\"a\": [1, 2.5, true, null]}", "limits: {body: 4MiB}",
		keyed("redis: {url: 'rediss://u@h:1/0?addr=i:2', mode: sentinel, master: m, tls: {ca: a}}\npeer: {listen: ':9', address: 'h:1'}"),
		keyed("store: {type: redis, url: {env: A}, password: {file: b}}"), "- ? a\n  : b", "a: |\n  x\n%TAG",
		tenantWith("policy: {default: deny, rules: [{name: r, when: 'tool.name == \"x\"', effect: allow, scopes: [s]}]}", "toolsets: [{name: t, include: ['a_*']}]", "hosts: [{name: b, url: 'https://b'}]"),
		up("auth: {mode: headers, headers: {X-Key: {env: A}}}", "pinning: all", "pins: {a.b: 'sha256:0'}"),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := config.Parse(data)
		if err != nil {
			var faults config.Faults
			if !errors.As(err, &faults) || len(faults) == 0 {
				t.Fatalf("error %v, want Faults", err)
			}
			return
		}
		if err := c.Validate(); err != nil {
			t.Errorf("what was accepted does not validate: %v", err)
		}
		again, err := config.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, again, equateNetip()); diff != "" {
			t.Errorf("read twice, it differs:\n%s", diff)
		}
	})
}
