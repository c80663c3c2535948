package gatewaytest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// mainPackage is what the replicas run.
const mainPackage = "github.com/causeway-mcp/causeway/cmd/causeway"

// built gives the path of the gateway's program, which is built once by each
// process of tests, with the race detector where the tests have it.
var built = sync.OnceValues(build)

// build puts the program into the user's cache, under a name that tells the working
// tree, so that each run replaces what the one before has left.
func build() (string, error) {
	root, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("build the gateway: %w", err)
	}
	tree := sha256.Sum256(root)
	dir := filepath.Join(cache, "causeway", "tests", hex.EncodeToString(tree[:6]))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("build the gateway: %w", err)
	}
	work, err := os.MkdirTemp(dir, "build")
	if err != nil {
		return "", fmt.Errorf("build the gateway: %w", err)
	}
	defer os.RemoveAll(work)
	args := []string{"build", "-o", filepath.Join(work, "causeway")}
	name := "causeway"
	if raceEnabled {
		args, name = append(args, "-race"), "causeway-race"
	}
	if out, err := exec.Command("go", append(args, mainPackage)...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the gateway: %w\n%s", err, strings.TrimSpace(string(out)))
	}
	// A rename: others may be running the one that was there.
	path := filepath.Join(dir, name)
	if err := os.Rename(filepath.Join(work, "causeway"), path); err != nil {
		return "", fmt.Errorf("build the gateway: %w", err)
	}
	return path, nil
}
