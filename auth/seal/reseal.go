package seal

import "bytes"

// Keys gives how many keys the ring has.
func (r *Ring) Keys() int { return len(r.keys) }

// Current tells whether a token says that the first key of the ring has sealed it, as
// all that is sealed now is. Whether it can be opened is said by Open alone.
func (r *Ring) Current(token string) bool {
	const text = headerSize * 4 / 3 // characters that hold the header, and nothing else
	if len(token) < text {
		return false
	}
	header, err := encoding.DecodeString(token[:text])
	return err == nil && bytes.Equal(header, r.keys[0].header[:])
}

// Reseal gives a token for the same as token, which the first key of the ring has
// sealed: token itself where that is so already, and then changed is false. The error
// is ErrInvalid where token cannot be opened.
func (r *Ring) Reseal(purpose, token string, binding []byte) (resealed string, changed bool, err error) {
	plain, err := r.Open(purpose, token, binding)
	if err != nil {
		return "", false, err
	}
	if r.Current(token) {
		return token, false, nil
	}
	return r.Seal(purpose, plain, binding), true, nil
}
