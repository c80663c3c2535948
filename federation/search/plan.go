package search

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// plan is a query as it is looked for.
type plan struct {
	concepts []concept
	whole    []weighted
	steps    [][]weighted
}

// concept is one word of a query with what stands for it; the word comes first.
type concept struct{ variants []variant }

type variant struct {
	term   string
	weight float64
}

// weighted is a concept, by its number, in a list.
type weighted struct {
	concept int
	weight  float64
}

// plan reads a query.
func (l *Language) plan(text string) *plan {
	p := &planner{language: l, numbers: map[string]int{}}
	text = l.plain(text)
	steps := l.steps(text)
	p.whole = p.list(text)
	if more := l.filing(steps); len(steps)+len(more) > 1 {
		for _, s := range append(steps, more...) {
			if list := p.list(s); len(list) > 0 && len(p.steps) < maxSteps {
				p.steps = append(p.steps, list)
			}
		}
	}
	return &p.plan
}

// planner makes a plan.
type planner struct {
	plan
	language *Language
	numbers  map[string]int // of concepts, by stem
}

// list gives the concepts of a text, and makes those that are new.
func (p *planner) list(text string) []weighted {
	var list []weighted
	for _, w := range words(text) {
		s := stem(w)
		if p.language.stop[w] || s == "" {
			continue
		}
		n, ok := p.numbers[s]
		if !ok {
			if len(p.concepts) == maxConcepts {
				continue
			}
			n = len(p.concepts)
			p.numbers[s] = n
			p.concepts = append(p.concepts, p.language.concept(s))
		}
		if i := slices.IndexFunc(list, func(c weighted) bool { return c.concept == n }); i >= 0 {
			list[i].weight += repeated
			continue
		}
		list = append(list, weighted{n, 1})
	}
	return list
}

func (l *Language) concept(stem string) concept {
	c := concept{variants: []variant{{stem, 1}}}
	for _, other := range l.synonyms[stem] {
		c.variants = append(c.variants, variant{other, alike})
	}
	return c
}

// steps splits a whole task into what is to be done one after the other: at the
// ends of sentences, and where another thing to do begins.
func (l *Language) steps(text string) []string {
	var steps, step []string
	cut := func() {
		if l.says(step) {
			steps = append(steps, strings.Join(step, " "))
		}
		step = nil
	}
	for word := range strings.FieldsSeq(text) {
		if len(step) > 0 && l.verbs[stem(strings.ToLower(strings.Trim(word, punctuation)))] && leadsOn(step[len(step)-1]) {
			cut()
		}
		step = append(step, word)
		if last, _ := utf8.DecodeLastRuneInString(word); strings.ContainsRune(".!?;:。！？；：", last) {
			cut()
		}
	}
	cut()
	return steps
}

const (
	punctuation = ".,;:!?()[]{}'\"`。，；：！？"
	opening     = "([{'\"`“"
)

// leadsOn tells whether a verb after the word begins another step.
func leadsOn(word string) bool {
	word = strings.ToLower(word)
	bare := strings.TrimRight(word, ",;:，；：、")
	if bare != word {
		return true
	}
	switch bare {
	case "and", "then", "also", "or", "&":
		return true
	}
	return false
}

// says tells whether there is more in a step than words that say nothing.
func (l *Language) says(step []string) bool {
	for _, word := range step {
		for _, w := range words(word) {
			if !l.stop[w] {
				return true
			}
		}
	}
	return false
}

// filing gives the steps that a file in a task stands for: one that is to be in it
// has to be written, whatever it is made with.
func (l *Language) filing(steps []string) []string {
	var more []string
	note := func(step string) {
		if !slices.Contains(more, step) {
			more = append(more, step)
		}
	}
	for _, s := range steps {
		list := words(s)
		if !slices.Contains(list, "file") {
			continue
		}
		for _, w := range list {
			switch {
			case l.writing[stem(w)]:
				note("write file")
			case l.reading[stem(w)]:
				note("read file")
			}
		}
	}
	return more
}

// plain replaces what names a thing (a file, an address) by the kind of thing that
// it is, since its name says nothing about the tool.
func (l *Language) plain(text string) string {
	var b strings.Builder
	for word := range strings.FieldsSeq(text) {
		kept := strings.TrimRight(word, punctuation)
		if kind := l.thing(strings.TrimLeft(kept, opening)); kind != "" {
			b.WriteString(kind)
			b.WriteString(word[len(kept):])
		} else {
			b.WriteString(word)
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// thing tells what kind of thing a word names; empty when it is an ordinary word.
func (l *Language) thing(word string) string {
	lower := strings.ToLower(word)
	switch {
	case strings.HasPrefix(lower, "http://"), strings.HasPrefix(lower, "https://"), strings.HasPrefix(lower, "www."):
		return "url website"
	case strings.Count(word, "@") == 1 && word[0] != '@' && strings.Contains(word, "."):
		return "email address"
	}
	slash := strings.IndexAny(word, `/\`)
	rooted := slash == 0 || strings.HasPrefix(word, "./") || strings.HasPrefix(word, "~/") || slash == 2 && word[1] == ':'
	if dot := strings.LastIndexByte(word, '.'); dot > 0 {
		// Next.js is no file.
		if kind, ok := l.extensions[lower[dot+1:]]; ok && (slash >= 0 || kind != "code" && isFileName(word[:dot])) {
			return kind + " file"
		}
	}
	if rooted && strings.Count(word, "/")+strings.Count(word, `\`) >= 2 {
		return "file path"
	}
	return ""
}

func isFileName(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-.", r)
	})
}

// cut gives at most n bytes of a text, without half a character at its end.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
