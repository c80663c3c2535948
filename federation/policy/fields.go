package policy

import (
	"strconv"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// principalField is a field of principal.
type principalField uint8

// Fields of principal; those from principalScopes on are lists.
const (
	principalTenant principalField = iota
	principalIssuer
	principalSubject
	principalClientID
	principalScopes
	principalGroups
	principalFields // how many there are
)

func (f principalField) isList() bool { return f >= principalScopes }

func (f principalField) String() string {
	return [...]string{"tenant", "issuer", "subject", "clientID", "scopes", "groups"}[f]
}

// text gives the value of a field that is no list.
func (f principalField) text(who *tenant.Principal) string {
	switch f {
	case principalTenant:
		return who.Tenant
	case principalIssuer:
		return who.Issuer
	case principalSubject:
		return who.Subject
	default:
		return who.ClientID
	}
}

// list gives the value of a field that is one.
func (f principalField) list(who *tenant.Principal) []string {
	if f == principalScopes {
		return who.Scopes
	}
	return who.Groups
}

// itemField is a field of item.
type itemField uint8

// Fields of item.
const (
	itemName itemField = iota
	itemOwnName
	itemAlias
	itemTags
	itemTitle
	itemAnnotations
	itemURI
	itemTemplate
	itemFields // how many there are
)

func (f itemField) String() string {
	return [...]string{"name", "ownName", "alias", "tags", "title", "annotations", "uri", "template"}[f]
}

// of tells whether items of the kind have the field (2026-07-28, schema: prompts
// have no annotations).
func (f itemField) of(k Kind) bool {
	switch f {
	case itemAnnotations:
		return k != KindPrompt
	case itemURI, itemTemplate:
		return k == KindResource
	default:
		return true
	}
}

func (f itemField) typ() *types.Type {
	switch f {
	case itemTags:
		return types.NewListType(types.StringType)
	case itemAnnotations:
		return jsonObject()
	case itemTemplate:
		return types.BoolType
	default:
		return types.StringType
	}
}

// get gives the field's value, nil when it is absent.
func (f itemField) get(adapter types.Adapter, s *scope) (ref.Val, error) {
	it := s.item
	switch f {
	case itemTags:
		return types.NewStringList(adapter, it.Tags), nil
	case itemAnnotations:
		return s.annotations(adapter)
	case itemTemplate:
		return types.Bool(it.Template), nil
	case itemName:
		return types.String(it.Name), nil
	case itemAlias:
		return types.String(it.Alias), nil
	}
	text := it.OwnName
	switch f {
	case itemTitle:
		text = it.Title
	case itemURI:
		text = it.URI
	}
	if text == "" {
		return nil, nil
	}
	return types.String(text), nil
}

// append adds the field's value to a key.
func (f itemField) append(b []byte, it *Item) []byte {
	switch f {
	case itemName:
		return appendText(b, it.Name)
	case itemOwnName:
		return appendText(b, it.OwnName)
	case itemAlias:
		return appendText(b, it.Alias)
	case itemTags:
		return appendTexts(b, it.Tags)
	case itemTitle:
		return appendText(b, it.Title)
	case itemAnnotations:
		return appendText(b, it.Annotations)
	case itemURI:
		return appendText(b, it.URI)
	default:
		return strconv.AppendBool(b, it.Template)
	}
}
