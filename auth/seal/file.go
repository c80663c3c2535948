package seal

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// FileKeyID is the id of a key from LoadOrCreate.
const FileKeyID = "file"

// maxKeyFile bounds what is read of a key file, in bytes.
const maxKeyFile = 4 << 10

// LoadOrCreate reads the key kept in a file, and makes it first when there is no
// such file: 256 random bits as base64url text, mode 0600, in a directory that is
// made (0700) when missing. Processes that start together agree on one key.
//
// The secret is the file's text without surrounding white space, and the id is
// FileKeyID, so that a deployment that outgrows the file can configure the same
// key and open what was sealed before. It fails on a file that group or others
// may access, and on one that holds less than MinSecret bytes.
func LoadOrCreate(path string) (Key, error) {
	k, err := loadKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	if err := createKey(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return Key{}, fmt.Errorf("make key file %s: %w", path, err)
	}
	// Read back in both cases: another process may have been first.
	return loadKey(path)
}

func loadKey(path string) (Key, error) {
	f, err := os.Open(path)
	if err != nil {
		return Key{}, fmt.Errorf("read key file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Key{}, fmt.Errorf("read key file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return Key{}, fmt.Errorf("key file %s is not a regular file", path)
	}
	// Windows has no such bits; its files have the access list of their directory.
	if perm := info.Mode().Perm(); perm&0o077 != 0 && runtime.GOOS != "windows" {
		return Key{}, fmt.Errorf("key file %s has mode %04o, which lets group or others use it: run chmod 600 %s, and replace the key if somebody may have read it", path, perm, path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return Key{}, fmt.Errorf("read key file %s: %w", path, err)
	}
	if len(text) > maxKeyFile {
		return Key{}, fmt.Errorf("key file %s is longer than %d bytes", path, maxKeyFile)
	}
	secret := bytes.TrimSpace(text)
	if len(secret) < MinSecret {
		return Key{}, fmt.Errorf("key file %s holds %d bytes, at least %d are needed", path, len(secret), MinSecret)
	}
	return Key{ID: FileKeyID, Secret: secret}, nil
}

// createKey writes a new key beside path and then links it there: the file
// appears whole or not at all, and an existing one is never replaced.
func createKey(path string) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	secret := make([]byte, MinSecret)
	_, _ = rand.Read(secret) // never fails: crypto/rand ends the process instead
	if _, err := f.WriteString(base64.RawURLEncoding.EncodeToString(secret) + "\n"); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes a new name in a directory last. Without it a crash could lose
// the key after secrets were sealed with it.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced there
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
