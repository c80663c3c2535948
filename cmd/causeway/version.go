package main

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
)

// runVersion prints the version, the commit and the Go version, from what the
// Go tool wrote into the binary.
func runVersion(_ context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	fs := newFlags("version", "", "Prints the version and what it was built from.")
	if code, ok := parseFlags(fs, args, 0, 0, stdout, stderr); !ok {
		return code
	}
	info, _ := debug.ReadBuildInfo()
	fmt.Fprintln(stdout, describeBuild(info))
	return exitOK
}

// version is the module's version, or "devel" for a build from a work tree
// without one.
func version(info *debug.BuildInfo) string {
	if info == nil || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

// describeBuild is the one line of `causeway version`.
func describeBuild(info *debug.BuildInfo) string {
	line := "causeway " + version(info)
	if info == nil {
		return line
	}
	settings := make(map[string]string, len(info.Settings))
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if commit := settings["vcs.revision"]; commit != "" {
		line += " commit " + commit[:min(12, len(commit))]
		if settings["vcs.modified"] == "true" {
			line += " (modified)"
		}
		if at := settings["vcs.time"]; at != "" {
			line += " of " + at
		}
	}
	line += " " + info.GoVersion
	if os, arch := settings["GOOS"], settings["GOARCH"]; os != "" && arch != "" {
		line += " " + os + "/" + arch
	}
	return line
}
