package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// Bounds of a response, in bytes.
const (
	maxHeaderLines = 100
	maxBody        = 64 << 20
)

// conn is one connection of the load generator. It speaks just as much HTTP/1.1
// (RFC 9112) as the servers here do: net/http's client would take more time than
// what is measured.
type conn struct {
	c    net.Conn
	r    *bufio.Reader
	body []byte // reused
}

// response is one answer. body is good until the next one is read.
type response struct {
	status      int
	contentType string
	body        []byte
	closes      bool // the server closes the connection after it
}

func dial(ctx context.Context, addr string) (*conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &conn{c: c, r: bufio.NewReaderSize(c, 32<<10)}, nil
}

// roundTrip sends a whole request and reads the whole answer. A server that then
// closes the connection is an error: no system here has a reason to.
func (c *conn) roundTrip(request []byte) (response, error) {
	if _, err := c.c.Write(request); err != nil {
		return response{}, err
	}
	resp, err := readResponse(c.r, c.body)
	c.body = resp.body[:0]
	if err == nil && resp.closes {
		err = errors.New("the server closes the connection after an answer")
	}
	return resp, err
}

// framing says where a body ends.
type framing struct {
	length  int64 // -1 when the header does not tell
	chunked bool
}

// readResponse reads one response, its body into buf as far as that is large
// enough. A body that only the end of the connection ends is refused.
func readResponse(r *bufio.Reader, buf []byte) (response, error) {
	line, err := readLine(r)
	if err != nil {
		return response{}, err
	}
	// HTTP/1.1 200 OK
	version, rest, _ := strings.Cut(line, " ")
	code, _, _ := strings.Cut(rest, " ")
	status, err := strconv.Atoi(code)
	if err != nil || version != "HTTP/1.1" || len(code) != 3 || status < 200 {
		return response{}, fmt.Errorf("status line %.60q", line)
	}
	resp := response{status: status, body: buf[:0]}
	f, err := readHeader(r, &resp)
	if err != nil {
		return resp, err
	}
	switch {
	case f.chunked:
		resp.body, err = readChunked(r, resp.body)
	case f.length >= 0:
		resp.body, err = readN(r, resp.body, f.length)
	default:
		err = errors.New("the response has neither Content-Length nor chunks")
	}
	return resp, err
}

func readHeader(r *bufio.Reader, resp *response) (framing, error) {
	f := framing{length: -1}
	for range maxHeaderLines {
		line, err := readLine(r)
		if err != nil {
			return f, err
		}
		if line == "" {
			return f, nil
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return f, fmt.Errorf("header line %.60q", line)
		}
		value = strings.TrimSpace(value)
		switch {
		case strings.EqualFold(name, "Content-Length"):
			if f.length, err = strconv.ParseInt(value, 10, 64); err != nil || f.length < 0 {
				return f, fmt.Errorf("header line %.60q", line)
			}
		case strings.EqualFold(name, "Transfer-Encoding"):
			f.chunked = strings.EqualFold(value, "chunked")
		case strings.EqualFold(name, "Content-Type"):
			resp.contentType = value
		case strings.EqualFold(name, "Connection"):
			resp.closes = strings.EqualFold(value, "close")
		}
	}
	return f, fmt.Errorf("more than %d header lines", maxHeaderLines)
}

func readChunked(r *bufio.Reader, body []byte) ([]byte, error) {
	for {
		line, err := readLine(r)
		if err != nil {
			return body, err
		}
		digits, _, _ := strings.Cut(line, ";")
		size, err := strconv.ParseInt(strings.TrimSpace(digits), 16, 64)
		if err != nil || size < 0 {
			return body, fmt.Errorf("chunk size %.60q", line)
		}
		if size == 0 {
			return body, readTrailer(r)
		}
		if body, err = readN(r, body, size); err != nil {
			return body, err
		}
		if line, err = readLine(r); err != nil {
			return body, err
		}
		if line != "" {
			return body, fmt.Errorf("end of chunk %.60q", line)
		}
	}
}

func readTrailer(r *bufio.Reader) error {
	for range maxHeaderLines {
		if line, err := readLine(r); err != nil || line == "" {
			return err
		}
	}
	return fmt.Errorf("more than %d trailer lines", maxHeaderLines)
}

// readN appends n bytes to body.
func readN(r *bufio.Reader, body []byte, n int64) ([]byte, error) {
	if n > maxBody-int64(len(body)) {
		return body, fmt.Errorf("the body is larger than %d bytes", maxBody)
	}
	for n > 0 {
		// In steps, so that memory grows with what comes and not with what is
		// announced.
		step := int(min(n, 1<<20))
		at := len(body)
		if cap(body)-at < step {
			body = append(body, make([]byte, step)...)
		} else {
			body = body[:at+step]
		}
		got, err := io.ReadFull(r, body[at:])
		if err != nil {
			return body[:at+got], fmt.Errorf("read body: %w", noEOF(err))
		}
		n -= int64(step)
	}
	return body, nil
}

// readLine reads one line without its end.
func readLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return "", noEOF(err)
	}
	return strings.TrimSuffix(string(line[:len(line)-1]), "\r"), nil
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
