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
	size     int // tools
	terms    []partTerm
	postings []posting // of the first term, then of the next one, each by tool
}

// partTerm is what a part has of a term.
type partTerm struct {
	term       string
	start, end uint32  // of its postings
	common     float32 // what the source says about all of its tools
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
	b := &builder{language: l, fields: newFields(), stems: map[string]string{}, sum: map[string]float32{}, numbers: map[string]int{}}
	// What names the source often says the same in all of these.
	naming := b.stemsOf(s.Alias + " " + s.Title + " " + strings.Join(s.Tags, " "))
	slices.Sort(naming)
	b.add(b.fields.alias, slices.Compact(naming))
	b.add(b.fields.about, b.stemsOf(s.Description))
	b.add(b.fields.about, b.stemsOf(s.Instructions))
	for term, weight := range b.sum {
		b.terms[b.number(term)].common = weight
	}
	for i := range s.Tools {
		clear(b.sum)
		b.tool(&s.Tools[i])
		for term, weight := range b.sum {
			n := b.number(term)
			b.found = append(b.found, finding{n, posting{uint32(i), weight}}) //nolint:gosec // a source has far fewer tools
			b.terms[n].end++
		}
	}
	return b.part(len(s.Tools))
}

// builder adds the texts of a part up.
type builder struct {
	language *Language
	fields   fields
	stems    map[string]string // of words that were there before
	sum      map[string]float32

	numbers map[string]int // of terms
	terms   []partTerm     // by number; end counts the postings
	found   []finding      // by tool
}

// finding is a posting of a term.
type finding struct {
	term int
	posting
}

// number gives the number of a term.
func (b *builder) number(term string) int {
	n, ok := b.numbers[term]
	if !ok {
		n = len(b.terms)
		b.numbers[term] = n
		b.terms = append(b.terms, partTerm{term: term})
	}
	return n
}

// part makes the part of what was found.
func (b *builder) part(size int) *Part {
	p := &Part{size: size, terms: slices.Clone(b.terms), postings: make([]posting, len(b.found))}
	at := uint32(0)
	for i := range p.terms {
		t := &p.terms[i]
		t.start, t.end, at = at, at, at+t.end
	}
	for _, f := range b.found {
		t := &p.terms[f.term]
		p.postings[t.end] = f.posting
		t.end++
	}
	return p
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
