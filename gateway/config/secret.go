package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxSecret bounds a secret's file, in bytes.
const maxSecret = 64 << 10

// Secret is a reference to a secret: exactly one field is set.
type Secret struct {
	Env  string // a variable of the environment
	File string // a file, relative to the working directory
}

// Value reads the secret without surrounding white space. lookupEnv is
// os.LookupEnv or nil. Errors name the reference and never the value.
func (s Secret) Value(lookupEnv func(string) (string, bool)) ([]byte, error) {
	var value []byte
	switch {
	case s.Env != "":
		if lookupEnv == nil {
			lookupEnv = func(string) (string, bool) { return "", false }
		}
		v, ok := lookupEnv(s.Env)
		if !ok {
			return nil, fmt.Errorf("environment variable %s is not set", s.Env)
		}
		value = []byte(v)
	default:
		f, err := os.Open(s.File)
		if err != nil {
			return nil, fmt.Errorf("read secret: %w", err)
		}
		defer f.Close()
		value, err = io.ReadAll(io.LimitReader(f, maxSecret+1))
		if err != nil {
			return nil, fmt.Errorf("read secret: %w", err)
		}
		if len(value) > maxSecret {
			return nil, fmt.Errorf("read secret %s: %w", s.File, errors.New("the file is larger than 64 KiB"))
		}
	}
	value = bytes.TrimSpace(value)
	if len(value) == 0 {
		return nil, fmt.Errorf("the secret in %s is empty", s.name())
	}
	return value, nil
}

// name says where the secret is.
func (s Secret) name() string {
	if s.Env != "" {
		return "environment variable " + s.Env
	}
	return "file " + s.File
}
