package federation

import "context"

// hub fans one tenant's notifications out to its listen streams.
type hub struct{ domain *domain }

func newHub(d *domain) *hub { return &hub{domain: d} }

// subscribe opens a listen stream for a checked subscriptions/listen request.
func (h *hub) subscribe(ctx context.Context, c *Call) (*Subscription, error) { panic("stub") }

// changed is told by the catalogue that a member's segment of kind k has been
// replaced by one with another digest, or is there for the first time.
func (h *hub) changed(m *member, k kind) { panic("stub") }

// reconfigured is told that the tenant's snapshot changed: members came or went.
func (h *hub) reconfigured() { panic("stub") }

// close ends all streams gracefully and stops what runs in the background.
func (h *hub) close(ctx context.Context) { panic("stub") }
