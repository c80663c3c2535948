package tenant

import (
	"cmp"
	"fmt"
	"strings"
)

// Bounds of what a Vault keeps and gives.
const (
	MaxVaultPart = 512      // bytes of each part of a VaultKey
	MaxSealed    = 64 << 10 // bytes of a value
	MaxVaultPage = 256      // values that Secrets gives at once, whatever limit says
)

// CheckKey tells what is wrong with the key of a value: Faults. Tenant and Kind have
// to be there, and no part may have more than MaxVaultPart bytes.
func (k VaultKey) CheckKey() error { return k.faults().err() }

func (k VaultKey) faults() Faults {
	faults := k.tooLong()
	if k.Tenant == "" {
		faults.add("tenant", "must not be empty")
	}
	if k.Kind == "" {
		faults.add("kind", "must not be empty")
	}
	return faults
}

// tooLong gives a fault for each part over its bound. It does not show the part.
func (k VaultKey) tooLong() Faults {
	var faults Faults
	for _, part := range []struct{ path, text string }{
		{"tenant", k.Tenant}, {"alias", k.Alias}, {"kind", k.Kind}, {"name", k.Name},
	} {
		if n := len(part.text); n > MaxVaultPart {
			faults.add(part.path, "has %d bytes, and may have %d", n, MaxVaultPart)
		}
	}
	return faults
}

// CheckValue tells what is wrong with a value that is to be put, and with its key:
// Faults.
func (k VaultKey) CheckValue(sealed []byte) error {
	faults := k.faults()
	if n := len(sealed); n == 0 {
		faults.add("sealed", "must not be empty")
	} else if n > MaxSealed {
		faults.add("sealed", "has %d bytes, and may have %d", n, MaxSealed)
	}
	return faults.err()
}

// CheckPage gives how many values a page of Secrets has at most. The error is Faults.
// Parts of after may be missing.
func CheckPage(after VaultKey, limit int) (int, error) {
	faults := after.tooLong()
	if limit < 1 {
		faults.add("limit", "is %d, and must be 1 or more", limit)
	}
	return min(limit, MaxVaultPage), faults.err()
}

// Compare orders keys by tenant, alias, kind and name, each by its bytes.
func (k VaultKey) Compare(o VaultKey) int {
	return cmp.Or(
		strings.Compare(k.Tenant, o.Tenant), strings.Compare(k.Alias, o.Alias),
		strings.Compare(k.Kind, o.Kind), strings.Compare(k.Name, o.Name),
	)
}

// Each part of an encoded key ends in two bytes that sort before all others, and a
// zero byte in it is written so that it cannot be taken for that.
const (
	partEnd  = "\x00\x01"
	zeroByte = "\x00\xff"
)

// Encode gives a key as back ends keep it: equal for equal keys only, and in the
// order of Compare where bytes are compared. The parts may hold any bytes.
func (k VaultKey) Encode() string {
	var b strings.Builder
	for _, part := range []string{k.Tenant, k.Alias, k.Kind, k.Name} {
		b.WriteString(strings.ReplaceAll(part, "\x00", zeroByte))
		b.WriteString(partEnd)
	}
	return b.String()
}

// VaultPrefix gives what the encoded keys of a tenant's values begin with, and
// nobody else's.
func VaultPrefix(tenant string) string {
	return strings.ReplaceAll(tenant, "\x00", zeroByte) + partEnd
}

// DecodeVaultKey undoes Encode.
func DecodeVaultKey(encoded string) (VaultKey, error) {
	var parts [4]string
	rest := encoded
	for i := range parts {
		var b strings.Builder
		for {
			at := strings.IndexByte(rest, 0)
			if at < 0 || at+2 > len(rest) {
				return VaultKey{}, errVaultKey(encoded)
			}
			b.WriteString(rest[:at])
			mark := rest[at : at+2]
			rest = rest[at+2:]
			if mark == partEnd {
				break
			}
			if mark != zeroByte {
				return VaultKey{}, errVaultKey(encoded)
			}
			b.WriteByte(0)
		}
		parts[i] = b.String()
	}
	if rest != "" {
		return VaultKey{}, errVaultKey(encoded)
	}
	return VaultKey{Tenant: parts[0], Alias: parts[1], Kind: parts[2], Name: parts[3]}, nil
}

func errVaultKey(encoded string) error {
	return fmt.Errorf("the key of a value, of %d bytes, was not written by this program", len(encoded))
}
