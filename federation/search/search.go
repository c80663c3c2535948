// Package search finds tools by what they do, for models that say it in a sentence
// or as a whole task. It is our own BM25F (Robertson and Zaragoza, The Probabilistic
// Relevance Framework, 2009) over the names, titles, descriptions and arguments of
// tools and over what their sources say of themselves, with English stems, CJK
// text, typing errors and common synonyms. It is a leaf: it imports none of our
// packages.
//
// What a caller may not see has no influence on what it gets: frequencies are
// counted over what it may see, and lengths are compared with fixed ones.
package search

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
)

// Bounds of one query. What comes after them is not looked at.
const (
	maxQuery    = 4 << 10 // bytes
	maxConcepts = 96      // different words
	maxSteps    = 12
)

// Params of the ranking. They were chosen on a flat part of the curve, not at its
// highest point.
const (
	saturation = 5.0 // k1 of BM25F: how much more weight of a word still counts
	repeated   = 0.3 // what each repetition of a word in a query adds to its weight
	alike      = 0.5 // what a synonym counts of the word itself
	perError   = 0.2 // what a typing error takes from the word
	decay      = 0.2 // how fast a list's hits lose weight with their rank
	coverage   = 0.4 // how far a tool that has but some of the words counts for less, whatever they weigh in it
	spread     = 0.7 // how far a step counts as its words do, not as much as any other step
	fromStep   = 20  // hits of one step that count
	fromWhole  = 50  // and of the whole query
)

// Index finds tools of several sources. It does not change, and is safe for
// concurrent use.
type Index struct {
	language *Language
	parts    []*Part
	base     []int // of each part's first tool among all
	size     int
	numbers  map[string]uint32 // of terms
	starts   []uint32          // of each term's part in places, and the end of the last one's
	places   []place
	sorted   []spelling // all terms
	spare    sync.Pool  // of *search, whose memory is used again
}

// place is what one part has of a term.
type place struct {
	part       uint32
	start, end uint32 // of its postings there
	common     float32
}

// New makes an Index of parts. A change of one source needs a new Part of that
// source only.
func New(l *Language, parts ...*Part) *Index {
	ix := &Index{language: l, parts: parts, numbers: map[string]uint32{}}
	numbers := make([][]uint32, len(parts)) // of each part's terms
	var counts []uint32
	for i, p := range parts {
		ix.base = append(ix.base, ix.size)
		ix.size += p.size
		if p.size == 0 {
			continue
		}
		numbers[i] = make([]uint32, len(p.terms))
		for k := range p.terms {
			term := p.terms[k].term
			n, ok := ix.numbers[term]
			if !ok {
				n = uint32(len(counts)) //nolint:gosec // far fewer terms fit into memory
				ix.numbers[term] = n
				counts = append(counts, 0)
				ix.sorted = append(ix.sorted, spelling{term, letters(term)})
			}
			numbers[i][k] = n
			counts[n]++
		}
	}
	ix.sorted = slices.Clip(ix.sorted)
	slices.SortFunc(ix.sorted, func(a, b spelling) int { return strings.Compare(a.term, b.term) })
	ix.starts = make([]uint32, len(counts)+1)
	for n, count := range counts {
		ix.starts[n+1] = ix.starts[n] + count
	}
	ix.places = make([]place, ix.starts[len(counts)])
	next := slices.Clone(ix.starts)
	for i := range numbers {
		for k, n := range numbers[i] {
			t := &parts[i].terms[k]
			ix.places[next[n]] = place{uint32(i), t.start, t.end, t.common} //nolint:gosec // as above
			next[n]++
		}
	}
	return ix
}

// placesOf gives what the parts have of a term.
func (ix *Index) placesOf(term string) []place {
	n, ok := ix.numbers[term]
	if !ok {
		return nil
	}
	return ix.places[ix.starts[n]:ix.starts[n+1]]
}

// Query is what is looked for.
type Query struct {
	Text  string // its first 4 KiB count
	Limit int    // most hits
	// Visible tells whether the caller may know of a tool, by the number of its part
	// and its number there; nil when it may know of all.
	Visible func(part, tool int) bool
}

// Hit is a tool that was found: the number of its part, and its number there. The
// best hit of a query has the score 1.
type Hit struct {
	Part, Tool int
	Score      float64
}

// Search gives the tools that fit best, the best first, in an order that depends
// on nothing but the index and the query. total is how many fit at all.
//
// A whole task is looked for as it is and step by step, and the lists become one,
// so that tools for each step are among the first.
func (ix *Index) Search(q Query) (hits []Hit, total int) {
	s := ix.newSearch(q.Visible)
	defer ix.spare.Put(s)
	plan := ix.language.plan(cut(q.Text, maxQuery))
	for i := range plan.concepts {
		s.add(&plan.concepts[i])
	}
	whole, total := s.rank(plan.whole, max(fromWhole, q.Limit))
	if len(whole) == 0 || q.Limit <= 0 {
		return nil, total
	}
	if len(plan.steps) < 2 {
		whole = whole[:min(q.Limit, len(whole))]
	} else {
		lists := [][]scored{}
		for _, step := range plan.steps {
			list, _ := s.rank(step, fromStep)
			lists = append(lists, list)
		}
		whole = fuse(whole[:min(fromWhole, len(whole))], lists)
		whole = whole[:min(q.Limit, len(whole))]
	}
	hits = make([]Hit, len(whole))
	for i, d := range whole {
		part := ix.partOf(d.doc)
		hits[i] = Hit{Part: part, Tool: d.doc - ix.base[part], Score: math.Round(1e4*d.score/whole[0].score) / 1e4}
	}
	return hits, total
}

// partOf gives the part that a tool belongs to, by its number among all.
func (ix *Index) partOf(doc int) int {
	i, found := slices.BinarySearch(ix.base, doc)
	if !found {
		return i - 1
	}
	for i+1 < len(ix.base) && ix.base[i+1] == doc { // parts without tools
		i++
	}
	return i
}

// scored is a tool, by its number among all, with a score.
type scored struct {
	doc   int
	score float64
}

// search is one search under way.
type search struct {
	ix      *Index
	visible []bool // nil when all are
	seen    int    // how many are visible
	found   [][]scored
	idfs    []float64 // of the words, by concept
	weights []float64 // of one word in each tool; all 0 between two words
	covered []float64 // how much of a list of words each tool has; all 0 between two lists
	touched []int     // the tools whose weight is not 0
	marks   []bool    // the memory of visible
}

func (ix *Index) newSearch(visible func(part, tool int) bool) *search {
	s, ok := ix.spare.Get().(*search)
	if !ok {
		s = &search{ix: ix, weights: make([]float64, ix.size), covered: make([]float64, ix.size), marks: make([]bool, ix.size)}
	}
	s.visible, s.seen, s.found, s.idfs = nil, ix.size, s.found[:0], s.idfs[:0]
	if visible == nil {
		return s
	}
	s.visible, s.seen = s.marks, 0
	for i, p := range ix.parts {
		for t := range p.size {
			seen := visible(i, t)
			s.visible[ix.base[i]+t] = seen
			if seen {
				s.seen++
			}
		}
	}
	return s
}

// list gives the next list of found, empty, with the memory of an earlier search.
func (s *search) list() *[]scored {
	if n := len(s.found); n < cap(s.found) {
		s.found = s.found[:n+1]
		s.found[n] = s.found[n][:0]
	} else {
		s.found = append(s.found, nil)
	}
	return &s.found[len(s.found)-1]
}

// add finds what one concept says about each tool.
func (s *search) add(c *concept) {
	df := 0
	for i, v := range c.variants {
		n := s.weigh(v.term, v.weight)
		if i == 0 {
			df = n
		}
	}
	if len(s.touched) == 0 {
		s.misspelt(c.variants[0].term)
	}
	if df == 0 {
		df = len(s.touched) // a word that only its synonyms stand for is as rare as they are
	}
	found := s.list()
	*found = slices.Grow(*found, len(s.touched))
	idf := math.Log(1 + (float64(s.seen-df)+0.5)/(float64(df)+0.5))
	s.idfs = append(s.idfs, idf)
	for _, doc := range s.touched {
		w := s.weights[doc]
		*found = append(*found, scored{doc, idf * w / (saturation + w)})
		s.weights[doc] = 0
	}
	s.touched = s.touched[:0]
}

// weigh notes the weight of a term in each tool, unless another variant of the word
// has a higher one there. It gives the number of tools that have the term by
// themselves: what a source says of all its tools does not make the word common.
func (s *search) weigh(term string, factor float64) (df int) {
	for _, at := range s.ix.placesOf(term) {
		p, base := s.ix.parts[at.part], s.ix.base[at.part]
		common := float64(at.common)
		if common > 0 {
			for i := range p.size {
				s.note(base+i, common*factor)
			}
		}
		for _, post := range p.postings[at.start:at.end] {
			if s.note(base+int(post.tool), (common+float64(post.weight))*factor) {
				df++
			}
		}
	}
	return df
}

// note raises a tool's weight, and tells whether the caller may see the tool.
func (s *search) note(doc int, weight float64) bool {
	if s.visible != nil && !s.visible[doc] {
		return false
	}
	if s.weights[doc] == 0 {
		s.touched = append(s.touched, doc)
	}
	s.weights[doc] = max(s.weights[doc], weight)
	return true
}

// rank adds up what the concepts of a list say, and gives the best tools and the
// number of all that have any of them.
func (s *search) rank(list []weighted, limit int) (best []scored, total int) {
	all := 0.0
	for _, c := range list {
		idf := c.weight * s.idfs[c.concept]
		if len(s.found[c.concept]) > 0 {
			all += idf
		}
		for _, d := range s.found[c.concept] {
			if s.weights[d.doc] == 0 {
				s.touched = append(s.touched, d.doc)
			}
			s.weights[d.doc] += c.weight * d.score
			s.covered[d.doc] += idf
		}
	}
	total = len(s.touched)
	var top heap
	for _, doc := range s.touched {
		top.offer(scored{doc, s.weights[doc] * (1 - coverage + coverage*s.covered[doc]/all)}, limit)
		s.weights[doc], s.covered[doc] = 0, 0
	}
	s.touched = s.touched[:0]
	slices.SortFunc(top, better)
	return top, total
}

// better orders by score, then by the order of the index.
func better(a, b scored) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.doc, b.doc))
}

// fuse makes one list of the hits for a whole task and those for its steps: each
// counts by its share of the best one's score and by its rank, and a step about
// which much was found counts for more than one about which nobody knows.
func fuse(whole []scored, lists [][]scored) []scored {
	sum := map[int]float64{}
	note := func(list []scored, scale float64) {
		for i, d := range list {
			sum[d.doc] += d.score / scale / (1 + decay*float64(i))
		}
	}
	most := whole[0].score
	note(whole, most)
	for _, list := range lists {
		if len(list) > 0 {
			note(list, math.Pow(list[0].score, 1-spread)*math.Pow(most, spread))
		}
	}
	all := make([]scored, 0, len(sum))
	for doc, score := range sum {
		all = append(all, scored{doc, score})
	}
	slices.SortFunc(all, better)
	return all
}

// heap keeps the best of what it is offered, the worst of them first.
type heap []scored

func (h *heap) offer(d scored, limit int) {
	switch {
	case len(*h) < limit:
		*h = append(*h, d)
		h.up(len(*h) - 1)
	case limit > 0 && better(d, (*h)[0]) < 0:
		(*h)[0] = d
		h.down()
	}
}

func (h heap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if better(h[i], h[parent]) < 0 {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

func (h heap) down() {
	for i := 0; ; {
		worst := i
		for _, child := range [...]int{2*i + 1, 2*i + 2} {
			if child < len(h) && better(h[child], h[worst]) > 0 {
				worst = child
			}
		}
		if worst == i {
			return
		}
		h[i], h[worst] = h[worst], h[i]
		i = worst
	}
}
