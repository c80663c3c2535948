package seal_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/auth/seal"
)

func TestLoadOrCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "key")
	made, err := seal.LoadOrCreate(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := seal.New([]seal.Key{made}); err != nil {
		t.Errorf("the key is not good for a ring: %v", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); runtime.GOOS != "windows" && got != 0o600 {
		t.Errorf("mode %04o, want 0600", got)
	}
	again, err := seal.LoadOrCreate(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(made, again); diff != "" {
		t.Errorf("the second call gave another key:\n%s", diff)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(made.Secret), strings.TrimSpace(string(text)); got != want {
		t.Error("the secret is not the file's text")
	}
	other, err := seal.LoadOrCreate(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	if string(other.Secret) == string(made.Secret) {
		t.Error("two files have the same secret")
	}
}

func TestLoadOrCreateTogether(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	keys := make([]seal.Key, 16)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			var err error
			if keys[i], err = seal.LoadOrCreate(path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, k := range keys[1:] {
		if diff := cmp.Diff(keys[0], k); diff != "" {
			t.Errorf("two callers have different keys:\n%s", diff)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 1 {
		t.Errorf("%d files in the directory, want the key alone", len(files))
	}
}

func TestLoadOrCreateRefuses(t *testing.T) {
	good := strings.Repeat("s", seal.MinSecret)
	tests := []struct {
		name string
		text string
		mode os.FileMode
		want string
	}{
		{"readable by group", good, 0o640, "mode 0640"},
		{"readable by others", good, 0o604, "run chmod 600"},
		{"writable by group", good, 0o620, "run chmod 600"},
		{"empty", "", 0o600, "holds 0 bytes, at least 32 are needed"},
		{"short", good[1:] + "\n", 0o600, "holds 31 bytes"},
		{"too long", strings.Repeat("s", 5<<10), 0o600, "longer than 4096 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.mode != 0o600 && runtime.GOOS == "windows" {
				t.Skip("Windows has no mode bits for group and others")
			}
			path := filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, tt.mode); err != nil {
				t.Fatal(err)
			}
			_, err := seal.LoadOrCreate(path)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
				t.Fatalf("error %v, want one with %q and the path", err, tt.want)
			}
			if strings.Contains(err.Error(), "sss") {
				t.Error("the error shows the secret")
			}
			if text, err := os.ReadFile(path); err != nil || string(text) != tt.text {
				t.Errorf("the file was changed: %v", err)
			}
		})
	}
	t.Run("directory", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "key")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := seal.LoadOrCreate(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("error %v, want one about the kind of file", err)
		}
	})
}
