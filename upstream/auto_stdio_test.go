package upstream

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// programEnv makes TestEraProgram a server over stdio of the kind that it names.
const programEnv = "ERA_PROGRAM"

// TestEraProgram is no test of its own but the program that TestProbeProgram
// starts. It ends with a code that is not 0, since otherwise testing complains.
func TestEraProgram(*testing.T) {
	kind := os.Getenv(programEnv)
	if kind == "" {
		return
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(in.Bytes(), &m) != nil {
			os.Exit(2)
		}
		answer := func(text string) { fmt.Printf(`{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, text) }
		switch {
		case m.ID == nil:
		case m.Method == "tools/call":
			answer(`"result":{"content":[{"type":"text","text":"done"}]}`)
		case kind == "modern" && m.Method == "server/discover":
			answer(`"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}`)
		case kind == "modern":
			answer(`"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}`)
		case m.Method == "initialize":
			answer(`"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`)
		case kind == "strict":
			os.Exit(2)
		case kind == "silent":
		default:
			answer(`"error":{"code":-32602,"message":"no"}`)
		}
	}
	os.Exit(2)
}

// Programs of both eras are told apart, also those that end at an unknown message
// or say nothing (2026-07-28, basic/transports/stdio, Backward Compatibility).
func TestProbeProgram(t *testing.T) {
	tests := []struct {
		kind string
		want way
	}{
		{"modern", wayModern},
		{"handshake", wayHandshake},
		{"strict", wayHandshake},
		{"silent", wayHandshake},
	}
	for _, tt := range tests {
		t.Run(tt.kind, func(t *testing.T) {
			d := reach(t, "", func(c *Config) {
				c.Process = &Process{
					Command: []string{os.Args[0], "-test.run=^TestEraProgram$"},
					Env:     []Variable{{Name: programEnv, Value: tt.kind}},
				}
			})
			if tt.kind == "silent" {
				d.(*auto).patience = 3 * time.Second
			}
			for range 2 {
				wantDone(t, d)
			}
			if c := d.(*auto).current.Load(); c == nil || c.way != tt.want {
				t.Errorf("remembered %+v, want %s", c, tt.want)
			}
		})
	}
}

// A program that cannot be started is no server of any era, and is tried again.
func TestProbeWithoutProgram(t *testing.T) {
	d := reach(t, "", func(c *Config) { c.Process = &Process{Command: []string{"/does/not/exist"}} })
	_, err := readAll(d, toolCall())
	if failureClass(err) != ClassConnect || !strings.Contains(err.Error(), "/does/not/exist") {
		t.Errorf("the call ended with %v", err)
	}
	if d.(*auto).current.Load() != nil {
		t.Error("an era is remembered")
	}
}
