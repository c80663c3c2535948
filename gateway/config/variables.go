package config

import "fmt"

// CheckVariables looks whether what the environments of programs refer to is
// there now; a running gateway looks again each time it starts one. lookupEnv is
// os.LookupEnv or nil. The error is Faults, which show no value.
func (c *Config) CheckVariables(lookupEnv func(string) (string, bool)) error {
	var faults Faults
	for i, t := range c.Tenants {
		for j := range t.Upstreams {
			if t.Upstreams[j].Process == nil {
				continue
			}
			for _, v := range t.Upstreams[j].Process.Env {
				if v.FromEnv == "" && v.FromFile == "" {
					continue
				}
				if _, err := (Secret{Env: v.FromEnv, File: v.FromFile}).Value(lookupEnv); err != nil {
					path := join(fmt.Sprintf("tenants[%d].upstreams[%d].env", i, j), v.Name)
					faults = append(faults, Fault{Path: path, Message: err.Error()})
				}
			}
		}
	}
	if len(faults) > 0 {
		return faults
	}
	return nil
}
