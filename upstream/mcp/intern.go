package mcp

// intern gives b as a string: a constant where b is one of the values that most
// messages carry, which saves an allocation.
func intern(b []byte) string {
	switch string(b) {
	case "2.0":
		return "2.0"
	case MethodToolsCall:
		return MethodToolsCall
	case MethodToolsList:
		return MethodToolsList
	case MethodDiscover:
		return MethodDiscover
	case MethodResourcesList:
		return MethodResourcesList
	case MethodResourcesRead:
		return MethodResourcesRead
	case MethodTemplatesList:
		return MethodTemplatesList
	case MethodPromptsList:
		return MethodPromptsList
	case MethodPromptsGet:
		return MethodPromptsGet
	case MethodComplete:
		return MethodComplete
	case MethodListen:
		return MethodListen
	case MethodTasksGet:
		return MethodTasksGet
	case MethodTasksUpdate:
		return MethodTasksUpdate
	case MethodTasksCancel:
		return MethodTasksCancel
	case NotificationProgress:
		return NotificationProgress
	case NotificationMessage:
		return NotificationMessage
	case NotificationCancelled:
		return NotificationCancelled
	case NotificationAcknowledged:
		return NotificationAcknowledged
	case NotificationToolsChanged:
		return NotificationToolsChanged
	case NotificationPromptsChanged:
		return NotificationPromptsChanged
	case NotificationResourcesChanged:
		return NotificationResourcesChanged
	case NotificationResourceUpdated:
		return NotificationResourceUpdated
	case NotificationTasks:
		return NotificationTasks
	case VersionModern:
		return VersionModern
	case ResultComplete:
		return ResultComplete
	case ResultInputRequired:
		return ResultInputRequired
	case ResultTask:
		return ResultTask
	}
	return string(b)
}

// internKey does the same for the keys that lists are full of, and for those that
// every request has in its `_meta`.
func internKey(b []byte) string {
	switch string(b) {
	case MetaProtocolVersion:
		return MetaProtocolVersion
	case MetaClientInfo:
		return MetaClientInfo
	case MetaClientCapabilities:
		return MetaClientCapabilities
	case MetaProgressToken:
		return MetaProgressToken
	case "name":
		return "name"
	case "title":
		return "title"
	case "description":
		return "description"
	case "inputSchema":
		return "inputSchema"
	case "outputSchema":
		return "outputSchema"
	case "annotations":
		return "annotations"
	case "icons":
		return "icons"
	case "_meta":
		return "_meta"
	case "uri":
		return "uri"
	case "uriTemplate":
		return "uriTemplate"
	case "mimeType":
		return "mimeType"
	case "arguments":
		return "arguments"
	case "type":
		return "type"
	case "properties":
		return "properties"
	case "required":
		return "required"
	case "content":
		return "content"
	case "text":
		return "text"
	}
	return string(b)
}
