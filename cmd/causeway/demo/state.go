package demo

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// stateTTL is how long the user may take to answer.
const stateTTL = 10 * time.Minute

// stateKey protects the requestState of input requests, which travels through
// the client and comes back from it (basic/patterns/mrtr, Server Requirements).
// It is made anew for each server.
type stateKey [32]byte

func newStateKey() (k stateKey) {
	rand.Read(k[:]) // never fails
	return k
}

// state is what a requestState holds besides its MAC: the offer that the user
// was asked about is bound to it and not part of it.
type state struct {
	Expires int64 `json:"exp"` // Unix time in seconds
}

// seal makes the requestState for an offer.
func (k *stateKey) seal(offer any, now time.Time) (string, error) {
	body, err := json.Marshal(state{Expires: now.Add(stateTTL).Unix()})
	if err != nil {
		return "", fmt.Errorf("encode the state: %w", err)
	}
	mac, err := k.mac(body, offer)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(append(mac, body...)), nil
}

// check tells whether a requestState was made by seal for this offer and is
// still good.
func (k *stateKey) check(sealed string, offer any, now time.Time) error {
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil || len(raw) <= sha256.Size {
		return errors.New("it is malformed or missing")
	}
	got, body := raw[:sha256.Size], raw[sha256.Size:]
	want, err := k.mac(body, offer)
	if err != nil {
		return err
	}
	if !hmac.Equal(got, want) {
		return errors.New("it belongs to another call")
	}
	var s state
	if err := json.Unmarshal(body, &s); err != nil {
		return fmt.Errorf("decode the state: %w", err)
	}
	if now.Unix() > s.Expires {
		return errors.New("the question has expired; call the tool again")
	}
	return nil
}

func (k *stateKey) mac(body []byte, offer any) ([]byte, error) {
	bound, err := json.Marshal(offer)
	if err != nil {
		return nil, fmt.Errorf("encode the offer: %w", err)
	}
	h := hmac.New(sha256.New, k[:])
	// The state is an object and so is the offer: their border is unambiguous.
	h.Write(body)
	h.Write(bound)
	return h.Sum(nil), nil
}
