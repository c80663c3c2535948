package gateway

import (
	"context"
	"errors"
	"fmt"
)

// cleanups is what has to be undone when the gateway stops: the last thing first.
type cleanups struct{ list []cleanup }

type cleanup struct {
	name string
	run  func(context.Context) error
}

// push adds a step that runs before all steps that were pushed earlier.
func (c *cleanups) push(name string, run func(context.Context) error) {
	c.list = append(c.list, cleanup{name, run})
}

// run takes all steps, whatever fails, and joins their errors. ctx bounds them
// together; a step must end when ctx does. A second run has nothing to do.
func (c *cleanups) run(ctx context.Context) error {
	var errs []error
	for len(c.list) > 0 {
		last := c.list[len(c.list)-1]
		c.list = c.list[:len(c.list)-1]
		if err := last.run(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", last.name, err))
		}
	}
	return errors.Join(errs...)
}
