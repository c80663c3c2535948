package search

import (
	"slices"
	"strings"
)

// Tool is what is known of one tool.
type Tool struct {
	Name        string // as its source names it
	Title       string
	Description string
	Arguments   []Argument
}

// Argument is one argument of a tool.
type Argument struct{ Name, Description string }

// Source is one upstream with its tools.
type Source struct {
	Alias, Title, Description, Instructions string
	Tags                                    []string
	Tools                                   []Tool
}

// Part is the index of one source. It does not change.
type Part struct {
	terms  map[string][]posting
	common map[string]float32 // what the source says about all of its tools
	size   int
}

// posting is how much a term says about one tool.
type posting struct {
	tool   uint32
	weight float32
}

// field is one kind of text: how much a word in it counts, how far a long text
// counts for less, and how many words such a text usually has.
type field struct{ weight, b, usual float32 }

// fields are the kinds of text that a tool and its source have.
type fields struct{ name, joined, title, lead, rest, argument, argumentText, alias, about field }

func newFields() fields {
	return fields{
		name:         field{weight: 5, b: 0.3, usual: 3},
		joined:       field{weight: 2.5, usual: 1}, // two neighbours in a name, written together
		title:        field{weight: 4, b: 0.3, usual: 3},
		lead:         field{weight: 2.2, b: 0.5, usual: 12}, // the description's first sentence
		rest:         field{weight: 1, b: 0.7, usual: 40},
		argument:     field{weight: 0.8, b: 0.7, usual: 6},
		argumentText: field{weight: 0.4, b: 0.7, usual: 40},
		alias:        field{weight: 1.2, usual: 1},
		about:        field{weight: 0.6, b: 0.6, usual: 30},
	}
}

// NewPart makes the index of a source.
func (l *Language) NewPart(s Source) *Part {
	p := &Part{terms: map[string][]posting{}, common: map[string]float32{}, size: len(s.Tools)}
	b := &builder{language: l, fields: newFields(), stems: map[string]string{}}
	b.sum = p.common
	// What names the source often says the same in all of these.
	naming := b.stemsOf(s.Alias + " " + s.Title + " " + strings.Join(s.Tags, " "))
	slices.Sort(naming)
	b.add(b.fields.alias, slices.Compact(naming))
	b.add(b.fields.about, b.stemsOf(s.Description))
	b.add(b.fields.about, b.stemsOf(s.Instructions))
	b.sum = map[string]float32{}
	for i := range s.Tools {
		clear(b.sum)
		b.tool(&s.Tools[i])
		for term, weight := range b.sum {
			p.terms[term] = append(p.terms[term], posting{uint32(i), weight}) //nolint:gosec // a source has far fewer tools
		}
	}
	for term, list := range p.terms {
		p.terms[term] = slices.Clip(list)
	}
	return p
}

// builder adds the texts of a part up.
type builder struct {
	language *Language
	fields   fields
	stems    map[string]string // of words that were there before
	sum      map[string]float32
}

func (b *builder) tool(t *Tool) {
	name := words(t.Name)
	var joined []string
	for i := 1; i < len(name); i++ {
		joined = append(joined, b.stem(name[i-1]+name[i]))
	}
	b.add(b.fields.joined, joined)
	b.add(b.fields.name, b.stemsOf(t.Name))
	b.add(b.fields.title, b.stemsOf(t.Title))
	lead, rest := leadOf(t.Description)
	b.add(b.fields.lead, b.stemsOf(lead))
	b.add(b.fields.rest, b.stemsOf(rest))
	var names, texts []string
	for _, a := range t.Arguments {
		names = append(names, b.stemsOf(a.Name)...)
		texts = append(texts, b.stemsOf(a.Description)...)
	}
	b.add(b.fields.argument, names)
	b.add(b.fields.argumentText, texts)
}

// add adds the terms of one text to the sum.
func (b *builder) add(f field, terms []string) {
	if len(terms) == 0 {
		return
	}
	one := f.weight / (1 - f.b + f.b*float32(len(terms))/f.usual)
	for _, t := range terms {
		b.sum[t] += one
	}
}

// stemsOf gives the stems of a text's words.
func (b *builder) stemsOf(text string) []string {
	list := words(text)
	for i, w := range list {
		list[i] = b.stem(w)
	}
	return list
}

func (b *builder) stem(word string) string {
	s, ok := b.stems[word]
	if !ok {
		s = b.language.stems.of(word)
		b.stems[word] = s
	}
	return s
}

// leadOf splits a description after its first sentence or line.
func leadOf(s string) (lead, rest string) {
	s = strings.TrimSpace(s)
	end := len(s)
	for _, sep := range [...]string{". ", ".\n", "\n", "。"} {
		if i := strings.Index(s, sep); i >= 0 && i < end {
			end = i
		}
	}
	return s[:end], s[end:]
}
