package gateway

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/causeway-mcp/causeway/auth/seal"
)

// peerPurpose separates the replicas' keys from all else that the ring gives.
const peerPurpose = "peer"

// protocolPeers is what replicas speak with one another (RFC 9113, 3.2).
const protocolPeers = "h2"

// identity proves that this process has the key ring, and recognises others that
// have it. Nothing else makes a peer: no authority, no name and no time.
type identity struct {
	own     tls.Certificate
	trusted map[string]struct{} // public keys
}

// newIdentity derives the keys of the replicas from the ring. This process shows the
// one of the key that seals, and takes those of all keys.
func newIdentity(ring *seal.Ring) (*identity, error) {
	id := &identity{trusted: map[string]struct{}{}}
	for i, seed := range ring.Derive(peerPurpose) {
		key := ed25519.NewKeyFromSeed(seed[:])
		public := key.Public().(ed25519.PublicKey)
		id.trusted[string(public)] = struct{}{}
		if i > 0 {
			continue
		}
		der, err := certificate(key)
		if err != nil {
			return nil, fmt.Errorf("make the certificate for other replicas: %w", err)
		}
		id.own = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	}
	return id, nil
}

// certificate wraps a key, since TLS wants a certificate. What it says besides the
// key is not looked at.
func certificate(key ed25519.PrivateKey) ([]byte, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "causeway replica"},
		NotBefore:    time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), // none (RFC 5280, 4.1.2.5)
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	return x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
}

var errStranger = errors.New("the peer does not have the key ring")

// verify looks at who is at the other end. That it has the private key was shown in
// the handshake (RFC 8446, 4.4.3).
func (id *identity) verify(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return errStranger
	}
	key, ok := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	if !ok {
		return errStranger
	}
	if _, ok := id.trusted[string(key)]; !ok {
		return errStranger
	}
	if state.NegotiatedProtocol != protocolPeers {
		return fmt.Errorf("the peer speaks %q, not %s", state.NegotiatedProtocol, protocolPeers)
	}
	return nil
}

// config is for both ends of a connection.
func (id *identity) config() *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{id.own},
		MinVersion:   tls.VersionTLS13,
		NextProtos:   []string{protocolPeers},
		ClientAuth:   tls.RequireAnyClientCert,
		// verify takes the place of what is left out here: names and chains say
		// nothing about who has the ring.
		InsecureSkipVerify: true,
		VerifyConnection:   id.verify,
		// A session that is resumed would outlive a key that is taken out of the ring.
		SessionTicketsDisabled: true,
	}
}
