package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Headings of the parts of a file of results. Each kind of run has its own.
const (
	headingBench     = "# Load test"
	headingDiscovery = "# Progressive tool discovery"
	headingCluster   = "# Several replicas"
)

// writePart puts one part of a file of results in the place of the one with the
// same heading, and leaves the others as they are.
func writePart(file, part string) error {
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read earlier results: %w", err)
	}
	return os.WriteFile(file, []byte(replacePart(string(old), part)), 0o644)
}

// replacePart gives text with one part replaced, or added at the end. A part begins
// with a heading of the first level, and ends before the next one.
func replacePart(text, part string) string {
	heading, _, _ := strings.Cut(part, "\n")
	var out []string
	done := false
	for _, p := range splitParts(text) {
		if first, _, _ := strings.Cut(p, "\n"); first == heading {
			if done {
				continue
			}
			p, done = part, true
		}
		out = append(out, strings.TrimSpace(p)+"\n")
	}
	if !done {
		out = append(out, strings.TrimSpace(part)+"\n")
	}
	return strings.Join(out, "\n")
}

// splitParts splits a text before each heading of the first level.
func splitParts(text string) []string {
	var parts []string
	for line := range strings.Lines(text) {
		if len(parts) == 0 || strings.HasPrefix(line, "# ") {
			parts = append(parts, "")
		}
		parts[len(parts)-1] += line
	}
	return parts
}
