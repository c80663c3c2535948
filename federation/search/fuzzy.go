package search

import (
	"math/bits"
	"slices"
	"strings"
)

// minFuzzy is the least length, in bytes, of a word that may be a misspelt one.
const minFuzzy = 5

// spelling is a term and the letters that it consists of.
type spelling struct {
	term    string
	letters uint32
}

// letters gives a set of a word's letters: words that differ in n letters have sets
// that differ in at most 2n.
func letters(word string) (set uint32) {
	for i := range len(word) {
		set |= 1 << (word[i] & 31)
	}
	return set
}

// misspelt notes the weights of words that are close to one that nobody uses. Few
// mistype a first letter, so it has to be the same.
func (s *search) misspelt(word string) {
	most := allowed(word)
	if most == 0 {
		return
	}
	has := letters(word)
	sorted := s.ix.sorted
	from, _ := slices.BinarySearchFunc(sorted, word[:1], func(o spelling, first string) int { return strings.Compare(o.term, first) })
	for _, o := range sorted[from:] {
		if o.term[0] != word[0] {
			break
		}
		if len(o.term) < minFuzzy-1 || bits.OnesCount32(o.letters^has) > 2*most {
			continue
		}
		if d := distance(word, o.term, most); d <= most {
			s.weigh(o.term, 1-perError*float64(d))
		}
	}
}

// allowed gives how many typing errors a word of this length may have.
func allowed(word string) int {
	switch n := len(word); {
	case n < minFuzzy || n > maxWord:
		return 0
	case n < 9:
		return 1
	default:
		return 2
	}
}

// distance gives how many typing errors lie between two words of at most maxWord
// bytes: a letter more, less, or another one, or two neighbours swapped (optimal
// string alignment). It is more than limit when there are more.
func distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	var rows [3][maxWord + 1]int
	before, last, now := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		now[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			d := last[j-1]
			if a[i-1] != b[j-1] {
				d++
			}
			d = min(d, last[j]+1, now[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, before[j-2]+1)
			}
			now[j] = d
			least = min(least, d)
		}
		if least > limit {
			return limit + 1
		}
		before, last, now = last, now, before
	}
	return last[len(b)]
}
