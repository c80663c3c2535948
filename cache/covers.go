package cache

import "strings"

// Covers tells whether an Invalidate of param drops the entry whose Param is
// entry. An empty param covers all. A URI covers itself and those it lies below,
// since the URI of notifications/resources/updated "might be a sub-resource of
// the one that the client actually subscribed to" (schema,
// ResourceUpdatedNotificationParams): file:///a/b covers file:///a/b, file:///a/
// and file:///a, but not file:///a/b/c, which did not change.
func Covers(param, entry string) bool {
	if param == "" || param == entry {
		return true
	}
	if entry == "" || !strings.HasPrefix(param, entry) {
		return false
	}
	return strings.HasSuffix(entry, "/") || param[len(entry)] == '/'
}
