package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificates are a certification authority and what it has certified, as files:
// a server at 127.0.0.1 and localhost, and a client, which a server that has them
// asks for.
type Certificates struct {
	CA        string // PEM
	Cert, Key string // of the client
	// Client is what a client needs: the authority and its own certificate.
	Client *tls.Config

	server pair
}

// pair are the files of a certificate.
type pair struct{ cert, key string }

// NewCertificates makes them.
func NewCertificates(tb testing.TB) *Certificates {
	tb.Helper()
	dir := tb.TempDir()
	key := newKey(tb)
	ca := template("Redis test authority", 1)
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	der := certify(tb, ca, ca, key, key)
	parent, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	c := &Certificates{CA: filepath.Join(dir, "ca.pem")}
	writePEM(tb, c.CA, "CERTIFICATE", der)
	issue := func(name string, serial int64) pair {
		p := pair{filepath.Join(dir, name+".pem"), filepath.Join(dir, name+"-key.pem")}
		own := newKey(tb)
		writePEM(tb, p.cert, "CERTIFICATE", certify(tb, template(name, serial), parent, own, key))
		raw, err := x509.MarshalPKCS8PrivateKey(own)
		if err != nil {
			tb.Fatal(err)
		}
		writePEM(tb, p.key, "PRIVATE KEY", raw)
		return p
	}
	c.server = issue("server", 2)
	client := issue("client", 3)
	c.Cert, c.Key = client.cert, client.key
	cert, err := tls.LoadX509KeyPair(client.cert, client.key)
	if err != nil {
		tb.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parent)
	c.Client = &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	return c
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func template(name string, serial int64) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

// certify gives the certificate of key, signed by parent's.
func certify(tb testing.TB, t, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) []byte {
	tb.Helper()
	der, err := x509.CreateCertificate(rand.Reader, t, parent, &key.PublicKey, parentKey)
	if err != nil {
		tb.Fatal(err)
	}
	return der
}

func writePEM(tb testing.TB, path, kind string, der []byte) {
	tb.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		tb.Fatal(err)
	}
}
