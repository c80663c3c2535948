package config

import (
	"fmt"
	"strings"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
)

// reach checks how an upstream is reached: by a URL, or as a program.
func (v *checker) reach(path string, u *tenant.Upstream) {
	switch upstream.Era(u.Era) {
	case "", upstream.EraAuto, upstream.EraModern, upstream.EraHandshake:
	default:
		v.fault(path+".era", "%q must be auto, modern or handshake", u.Era)
	}
	switch {
	case u.Process == nil:
		v.upstreamURL(path+".url", u.URL)
	case u.URL != "":
		v.fault(path+".command", "command, env and dir are for an upstream without a url")
	default:
		v.process(path, u)
	}
}

// process checks the program of an upstream.
func (v *checker) process(path string, u *tenant.Upstream) {
	p := u.Process
	if len(p.Command) == 0 || p.Command[0] == "" {
		v.fault(path+".command", "must name a program")
	}
	for i, arg := range p.Command {
		if strings.Contains(arg, "\x00") {
			v.fault(fmt.Sprintf("%s.command[%d]", path, i), "must not contain a null character")
		}
	}
	if strings.Contains(p.Dir, "\x00") {
		v.fault(path+".dir", "must not contain a null character")
	}
	for _, e := range p.Env {
		at := join(path+".env", e.Name)
		switch {
		case !matches(e.Name, 256, false, "_") || e.Name[0] >= '0' && e.Name[0] <= '9':
			v.fault(at, "the name of a variable must match ^[A-Za-z_][A-Za-z0-9_]{0,255}$")
		case strings.Contains(e.Value, "\x00"):
			v.fault(at, "must not contain a null character")
		}
	}
	if len(u.ForwardHeaders) > 0 {
		v.fault(path+".forwardHeaders", "a program takes no headers")
	}
}
