package upstream

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// Era says which kind of protocol revision an upstream speaks (2026-07-28,
// basic/versioning, Terminology).
type Era string

// Eras.
const (
	EraAuto      Era = "auto"      // found out by asking the server
	EraModern    Era = "modern"    // 2026-07-28: each request stands for itself
	EraHandshake Era = "handshake" // 2025-11-25 and earlier: sessions that initialize begins
)

// Sessions bounds the sessions with a server of the handshake era, and the calls
// that wait for a user's answer in them. Zero values mean the named defaults.
type Sessions struct {
	// Shared lets all users share sessions, which then declare no client
	// capabilities. Otherwise no two users ever share one.
	Shared bool
	Idle   time.Duration // DefaultSessionIdle; an unused session is closed after it
	Max    int           // DefaultMaxSessions at the same time; for a Process MaxProcesses
	// MaxProcesses is Max for a Process where Max is not set; DefaultMaxProcesses.
	MaxProcesses int

	ParkMax               time.Duration // DefaultParkMax that a call waits for an answer
	MaxParked             int           // DefaultMaxParked calls wait at the same time
	MaxParkedPerPrincipal int           // DefaultMaxParkedPerPrincipal of them are one user's
}

// Defaults of Sessions.
const (
	DefaultSessionIdle           = 5 * time.Minute
	DefaultMaxSessions           = 1000
	DefaultMaxProcesses          = 32
	DefaultParkMax               = 5 * time.Minute
	DefaultMaxParked             = 1000
	DefaultMaxParkedPerPrincipal = 32
)

// fill puts the defaults where nothing is set.
func (s *Sessions) fill(process bool) {
	fill(&s.Idle, DefaultSessionIdle)
	fill(&s.MaxProcesses, DefaultMaxProcesses)
	if process {
		fill(&s.Max, s.MaxProcesses)
	}
	fill(&s.Max, DefaultMaxSessions)
	fill(&s.ParkMax, DefaultParkMax)
	fill(&s.MaxParked, DefaultMaxParked)
	fill(&s.MaxParkedPerPrincipal, DefaultMaxParkedPerPrincipal)
}

// Process says how to start a server that is spoken to over its standard streams
// (2026-07-28, basic/transports/stdio).
type Process struct {
	Command []string   // the program and its arguments
	Env     []Variable // besides what every process gets
	Dir     string     // the working directory; empty means the gateway's own
}

// Variable is one variable of a process's environment: FromFile, FromEnv or else
// Value says where its value is.
type Variable struct {
	Name     string
	Value    string // the value itself
	FromEnv  string // a variable of the gateway's own environment
	FromFile string // a file, without the white space around its content
}

// maxVariable bounds the file of a variable, in bytes.
const maxVariable = 64 << 10

// environ gives the process's own variables as NAME=value. It is called at each
// start, so that a secret may be replaced meanwhile. Errors never show a value.
// lookup is os.LookupEnv or stands for it.
func (p *Process) environ(lookup func(string) (string, bool)) ([]string, error) {
	list := make([]string, 0, len(p.Env))
	for _, v := range p.Env {
		value := v.Value
		switch {
		case v.FromFile != "":
			data, err := readVariable(v.FromFile)
			if err != nil {
				return nil, fmt.Errorf("variable %s: %w", v.Name, err)
			}
			value = data
		case v.FromEnv != "":
			var ok bool
			if value, ok = lookup(v.FromEnv); !ok {
				return nil, fmt.Errorf("variable %s: environment variable %s is not set", v.Name, v.FromEnv)
			}
		}
		list = append(list, v.Name+"="+value)
	}
	return list, nil
}

func readVariable(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("read its file: %w", err)
	}
	if info.Size() > maxVariable {
		return "", fmt.Errorf("its file %s is larger than 64 KiB", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read its file: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}
