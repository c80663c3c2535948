package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// featureTimeout bounds one feature with one upstream, so that what hangs is
	// told apart from what fails.
	featureTimeout = 30 * time.Second
	// triggerAgain is when a change is made again that was not seen, since it may
	// have been made before the upstream knew of the subscription.
	triggerAgain = time.Second
)

// goMatrix gives the way of the Go SDK's client, with a version of its choice or
// the given one.
func goMatrix(version string) func(*testing.T, string, []*plan) map[string]outcomes {
	return func(t *testing.T, url string, plans []*plan) map[string]outcomes {
		seen := map[string]outcomes{}
		for _, p := range plans {
			o := outcomes{}
			seen[p.Alias] = o
			c, err := matrixConnect(t, endpoint(url, p.Alias), version)
			if err != nil {
				for _, f := range features() {
					o[f] = "connect: " + err.Error()
				}
				continue
			}
			for _, f := range features() {
				if !p.offers(f) {
					continue
				}
				on := c
				if f == featureSubscribe && p.Subscribe.On != "" {
					if on, err = matrixConnect(t, endpoint(url, p.Subscribe.On), version); err != nil {
						o[f] = "connect: " + err.Error()
						continue
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), featureTimeout)
				o[f] = "yes"
				if err := on.try(ctx, f, p); err != nil {
					o[f] = err.Error()
				}
				cancel()
			}
		}
		return seen
	}
}

// matrixGo is the Go SDK's client with one upstream.
type matrixGo struct {
	session  *mcp.ClientSession
	progress chan float64
	updated  chan string
	changed  chan struct{}
}

func matrixConnect(t *testing.T, url, version string) (*matrixGo, error) {
	c := &matrixGo{progress: make(chan float64, 64), updated: make(chan string, 64), changed: make(chan struct{}, 64)}
	client := mcp.NewClient(&mcp.Implementation{Name: "causeway-matrix-go", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			offer(c.progress, req.Params.Progress)
		},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { offer(c.changed, struct{}{}) },
		ResourceUpdatedHandler: func(_ context.Context, req *mcp.ResourceUpdatedNotificationRequest) {
			offer(c.updated, req.Params.URI)
		},
	})
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	ctx, cancel := context.WithTimeout(t.Context(), featureTimeout)
	defer cancel()
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: transport},
	}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { session.Close() })
	if got := session.InitializeResult().ProtocolVersion; version != "" && got != version {
		return nil, fmt.Errorf("negotiated %s, want %s", got, version)
	}
	c.session = session
	return c, nil
}

// offer sends v where there is room.
func offer[T any](ch chan T, v T) {
	select {
	case ch <- v:
	default:
	}
}

func (c *matrixGo) try(ctx context.Context, feature string, p *plan) error {
	switch feature {
	case featureList:
		return c.list(ctx, p.Tools)
	case featureCall:
		return c.call(ctx, &p.Call)
	case featureProgress:
		if err := c.call(ctx, p.Progress); err != nil {
			return err
		}
		return await(ctx, c.progress, "progress", nil)
	case featureElicit:
		return c.call(ctx, p.Elicit)
	case featureSubscribe:
		return c.subscribe(ctx, p.Subscribe)
	case featureChange:
		return await(ctx, c.changed, "list change", func() error { return c.call(ctx, p.Change) })
	default:
		return c.cancel(ctx, p)
	}
}

// list wants tools in the list.
func (c *matrixGo) list(ctx context.Context, want []string) error {
	var names []string
	for tool, err := range c.session.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		names = append(names, tool.Name)
	}
	for _, name := range want {
		if !slices.Contains(names, name) {
			return fmt.Errorf("%s is not among %q", name, names)
		}
	}
	return nil
}

// call wants a text in the tool's result.
func (c *matrixGo) call(ctx context.Context, u *use) error {
	text, err := c.text(ctx, u)
	if err == nil && !strings.Contains(text, u.Want) {
		err = fmt.Errorf("%q is not in %q", u.Want, text)
	}
	return err
}

func (c *matrixGo) text(ctx context.Context, u *use) (string, error) {
	params := &mcp.CallToolParams{Name: u.Tool, Arguments: u.Args}
	params.SetProgressToken(u.Tool)
	res, err := c.session.CallTool(ctx, params)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, block := range res.Content {
		if text, ok := block.(*mcp.TextContent); ok {
			b.WriteString(text.Text)
		}
	}
	if res.IsError {
		return "", errors.New(b.String())
	}
	return b.String(), nil
}

func (c *matrixGo) subscribe(ctx context.Context, s *subscription) error {
	if err := c.session.Subscribe(ctx, &mcp.SubscribeParams{URI: s.URI}); err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	trigger := func() error { return c.call(ctx, &s.Trigger) }
	if s.Undo != nil {
		if err := trigger(); err != nil {
			return err
		}
		trigger = nil
	}
	err := await(ctx, c.updated, "update", trigger)
	if s.Undo != nil {
		err = errors.Join(err, c.call(ctx, s.Undo))
	}
	return err
}

// cancel ends a call that would last, and looks whether the server ended it.
func (c *matrixGo) cancel(ctx context.Context, p *plan) error {
	before, err := c.cancelled(ctx, p)
	if err != nil {
		return err
	}
	hanging, stop := context.WithTimeout(ctx, triggerAgain)
	defer stop()
	if _, err := c.text(hanging, p.Hang); hanging.Err() == nil {
		return fmt.Errorf("the call ended by itself: %w", err)
	}
	for p.Cancelled != nil {
		after, err := c.cancelled(ctx, p)
		if err != nil {
			return err
		}
		if after != before {
			break
		}
		if ctx.Err() != nil {
			return errors.New("the server did not hear of it")
		}
	}
	return nil
}

func (c *matrixGo) cancelled(ctx context.Context, p *plan) (string, error) {
	if p.Cancelled == nil {
		return "", nil
	}
	return c.text(ctx, p.Cancelled)
}

// await waits for an event, which trigger (where there is one) makes again and
// again.
func await[T any](ctx context.Context, ch chan T, what string, trigger func() error) error {
	tick := time.NewTicker(triggerAgain)
	defer tick.Stop()
	for {
		if trigger != nil {
			if err := trigger(); err != nil {
				return err
			}
		}
		select {
		case <-ch:
			return nil
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("no %s came", what)
		}
	}
}
