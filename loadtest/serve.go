package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"
)

// loopback is the only address that anything here listens on.
const loopback = "127.0.0.1:0"

// serve serves each handler on a port of its own and prints the addresses, one a
// line. It ends with ctx, or when stdin ends: then the process that started this
// one is gone.
func serve(ctx context.Context, handlers []http.Handler, stdin io.Reader, stdout io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listeners := make([]net.Listener, len(handlers))
	for i := range handlers {
		ln, err := net.Listen("tcp", loopback)
		if err != nil {
			return err
		}
		defer ln.Close()
		listeners[i] = ln
	}
	group, ctx := errgroup.WithContext(ctx)
	for i, h := range handlers {
		srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
		stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
		defer stop()
		group.Go(func() error {
			if err := srv.Serve(listeners[i]); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	// Not in the group: reading standard input cannot be interrupted, and the
	// process ends after this function.
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		cancel()
	}()
	for _, ln := range listeners {
		if _, err := fmt.Fprintln(stdout, ln.Addr()); err != nil {
			return err
		}
	}
	return group.Wait()
}

// serveProxies is the subcommand "proxy": a bare reverse proxy for each address
// in args.
func serveProxies(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	handlers := make([]http.Handler, len(args))
	for i, addr := range args {
		handlers[i] = newProxy(addr)
	}
	return serve(ctx, handlers, stdin, stdout)
}

// newProxy is the measure of all things: what the standard library does without
// looking at a body, with a transport that keeps as many connections as there
// are clients.
func newProxy(addr string) http.Handler {
	target := &url.URL{Scheme: "http", Host: addr}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 256,
			IdleConnTimeout:     90 * time.Second,
			DisableCompression:  true,
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Else the server closes the request's body when the first event is
		// flushed, while the transport still looks for its end: an answer that
		// comes fast is then cut ("http: invalid Read on closed Body").
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}
