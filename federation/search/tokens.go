package search

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"
)

// Bounds of what is read of one text.
const (
	maxTokens = 4000 // of one text; what comes after them is not looked at
	maxWord   = 64   // bytes of one word; longer ones are no words
)

// maxStems bounds how many stems are remembered, of all tenants' words.
const maxStems = 1 << 16

// stems remembers the stems of words: making one takes longer than all else that is
// done with a word.
type stems struct {
	mu    sync.RWMutex
	known map[string]string
}

func (m *stems) of(word string) string {
	m.mu.RLock()
	s, ok := m.known[word]
	m.mu.RUnlock()
	if ok {
		return s
	}
	// Copies: else a word would keep the text that it is from.
	word = strings.Clone(word)
	s = strings.Clone(stem(word))
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) >= maxStems {
		clear(m.known)
	}
	m.known[word] = s
	return s
}

// words splits a text into lower-case words: at everything that is no letter or
// digit, between lower and upper case (getUser, HTTPServer), and between letters
// and digits. Runs of CJK text become single characters and pairs of neighbours,
// since nothing marks their words.
func words(text string) []string {
	var out []string
	start, prev := -1, rune(0)
	cut := func(end int) {
		if start >= 0 && end > start && end-start <= maxWord {
			out = append(out, strings.ToLower(text[start:end]))
		}
		start = -1
	}
	for i, r := range text {
		if len(out) >= maxTokens {
			return out
		}
		switch {
		case isCJK(r):
			cut(i)
			out = append(out, string(r))
			if isCJK(prev) {
				out = append(out, string(prev)+string(r))
			}
		case !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r):
			if r == '\'' || r == '’' { // it's, user's: what follows is no word
				if start >= 0 && i+utf8.RuneLen(r) < len(text) && (text[i+utf8.RuneLen(r)] == 's' || text[i+utf8.RuneLen(r)] == 't') {
					break
				}
			}
			cut(i)
		case start < 0:
			start = i
		case unicode.IsUpper(r) && unicode.IsLower(prev), unicode.IsDigit(r) != unicode.IsDigit(prev):
			cut(i)
			start = i
		case unicode.IsLower(r) && unicode.IsUpper(prev) && i-utf8.RuneLen(prev) > start:
			cut(i - utf8.RuneLen(prev)) // HTTPServer: http, server
			start = i - utf8.RuneLen(prev)
		}
		prev = r
	}
	cut(len(text))
	return out
}

// isCJK tells whether a text of such characters has no spaces between its words.
func isCJK(r rune) bool {
	return r >= 0x2E80 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}

// stem gives the form of a word that its inflections share.
func stem(word string) string {
	if i := strings.IndexAny(word, "'’"); i >= 0 {
		word = word[:i]
	}
	for i := range len(word) {
		if word[i] >= utf8.RuneSelf {
			return word
		}
	}
	if len(word) < 3 {
		return word
	}
	return english.Stem(word, true)
}
