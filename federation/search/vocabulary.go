package search

import (
	"slices"
	"strings"
)

// Language is what is known of words. It does not change but for the stems that it
// remembers, and is safe for concurrent use.
type Language struct {
	stems      stems
	synonyms   map[string][]string // stems by stem
	stop       map[string]bool     // words
	verbs      map[string]bool     // stems of what is to be done
	writing    map[string]bool     // stems of what is done with a file that is to be there
	reading    map[string]bool     // and with one that is there
	extensions map[string]string   // of files: what they hold
}

// NewLanguage makes it.
func NewLanguage() *Language {
	l := &Language{
		synonyms: map[string][]string{}, stop: map[string]bool{}, verbs: map[string]bool{},
		stems:   stems{known: map[string]string{}},
		writing: stemSet(writingWords), reading: stemSet(readingWords), extensions: map[string]string{},
	}
	for w := range strings.FieldsSeq(stopWords) {
		l.stop[w] = true
	}
	for line := range strings.Lines(synonymLists) {
		list := strings.Fields(line)
		if len(list) == 0 {
			continue
		}
		head := stem(list[0])
		for _, w := range list[1:] {
			l.alike(head, stem(w))
		}
	}
	for line := range strings.Lines(verbLists) {
		for w := range strings.FieldsSeq(line) {
			l.verbs[stem(w)] = true
		}
	}
	for line := range strings.Lines(extensionLists) {
		if list := strings.Fields(line); len(list) > 0 {
			for _, e := range list[1:] {
				l.extensions[e] = list[0]
			}
		}
	}
	return l
}

// alike notes that two stems may stand for one another.
func (l *Language) alike(a, b string) {
	if a == b {
		return
	}
	for _, pair := range [...][2]string{{a, b}, {b, a}} {
		if !slices.Contains(l.synonyms[pair[0]], pair[1]) {
			l.synonyms[pair[0]] = append(l.synonyms[pair[0]], pair[1])
		}
	}
}

func stemSet(list string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		set[stem(w)] = true
	}
	return set
}

// stopWords say nothing about what a tool does.
const stopWords = `a an and are as at be but by can could did do does for from had has have help how i if in into is it its
let like may me might my need of on or our please should so some such than that the their them then there these they this
those to under us use using via want was we were what when where which while who will with within would you your about
after all also any before both each either every more most much no not now only other over same too very up out
s t d m re ve ll following based provide given etc just`

const (
	writingWords = "save write store export create generate report"
	readingWords = "read open load"
)

// verbLists hold words that say what is to be done, so that one of them after a
// comma or an "and" begins another step.
const verbLists = `
get fetch retrieve obtain read load show view list find search lookup query discover locate explore identify
create make generate build add produce draw render plot delete remove erase clear update edit modify change set
write save store export convert transform translate calculate compute estimate count analyze analyse examine inspect
investigate open close start stop run execute copy move rename merge combine split download upload compare summarize
summarise validate check verify test recommend suggest describe explain insert append play schedule book buy send post
publish visualize give tell provide plan extract collect gather take look choose pick determine perform help design
highlight evaluate organize prepare record scrape crawl navigate click fill print format return include focus title
reference cross-reference present display deploy install debug fix remind
`
