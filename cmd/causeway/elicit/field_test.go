package elicit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// field makes the one field of a form.
func field(t *testing.T, schema string, required bool) Field {
	t.Helper()
	full := `{"type":"object","properties":{"v":` + schema + `}`
	if required {
		full += `,"required":["v"]`
	}
	fields, err := parseFields([]byte(full + "}"))
	if err != nil {
		t.Fatal(err)
	}
	return fields[0]
}

func TestParse(t *testing.T) {
	const (
		colours  = `{"type":"string","oneOf":[{"const":"#F00","title":"Red"},{"const":"#0F0","title":"Green"}]}`
		numbers  = `{"type":"string","enum":["10","2","1"]}`
		toppings = `{"type":"array","minItems":1,"maxItems":2,"items":{"type":"string","enum":["ham","olives","basil"]}}`
		sizes    = `{"type":"array","items":{"anyOf":[{"const":"s","title":"Small"},{"const":"l","title":"Large"}]}}`
	)
	tests := []struct {
		name, schema, typed string
		want                string // raw JSON
		wantErr             string
	}{
		{"text", `{"type":"string"}`, `say "hi" `, `"say \"hi\" "`, ""},
		{"empty text", `{"type":"string"}`, `""`, `""`, ""},
		{"text in characters", `{"type":"string","maxLength":4}`, `Zür👩`, `"Zür👩"`, ""},
		{"text too long", `{"type":"string","maxLength":4}`, `Zürich`, "", "6 characters, at most 4"},
		{"text too short", `{"type":"string","minLength":2}`, `x`, "", "1 character, at least 2"},
		{"e-mail", `{"type":"string","format":"email"}`, `a@example.com`, `"a@example.com"`, ""},
		{"no e-mail", `{"type":"string","format":"email"}`, `A <a@example.com>`, "", "not an e-mail address"},
		{"URI", `{"type":"string","format":"uri"}`, `urn:x:1`, `"urn:x:1"`, ""},
		{"no URI", `{"type":"string","format":"uri"}`, `example.com/a`, "", "not a URI"},
		{"date", `{"type":"string","format":"date"}`, `2026-02-28`, `"2026-02-28"`, ""},
		{"no date", `{"type":"string","format":"date"}`, `2026-02-30`, "", "YYYY-MM-DD"},
		{"time", `{"type":"string","format":"date-time"}`, `2026-06-15T18:30:00+02:00`, `"2026-06-15T18:30:00+02:00"`, ""},
		{"no time", `{"type":"string","format":"date-time"}`, `18:30`, "", "not a time"},
		{"unknown format", `{"type":"string","format":"ipv9"}`, `x`, `"x"`, ""},

		{"integer", `{"type":"integer"}`, ` 42 `, `42`, ""},
		{"integer beyond 2^53", `{"type":"integer"}`, `12345678901234567890123`, `12345678901234567890123`, ""},
		{"integer as JSON Schema sees it", `{"type":"integer"}`, `1e3`, `1e3`, ""},
		{"no integer", `{"type":"integer"}`, `1.5`, "", "not a whole number"},
		{"number", `{"type":"number"}`, `-1.50`, `-1.50`, ""},
		{"no number", `{"type":"number"}`, `1,5`, "", "not a number"},
		{"no number: a word", `{"type":"number"}`, `NaN`, "", "not a number"},
		{"no number: hexadecimal", `{"type":"integer"}`, `0x10`, "", "not a number"},
		{"number out of all bounds", `{"type":"number"}`, `1e99999999999`, "", "too large"},
		{"least", `{"type":"number","minimum":0.1}`, `0.1`, `0.1`, ""},
		{"below least", `{"type":"integer","minimum":18}`, `17`, "", "less than 18"},
		{"most", `{"type":"integer","maximum":9007199254740993}`, `9007199254740993`, `9007199254740993`, ""},
		{"above most by one", `{"type":"integer","maximum":9007199254740993}`, `9007199254740994`, "", "more than 9007199254740993"},

		{"yes", `{"type":"boolean"}`, `Yes`, `true`, ""},
		{"no", `{"type":"boolean"}`, `n`, `false`, ""},
		{"neither", `{"type":"boolean"}`, `maybe`, "", "yes or no"},

		{"choice by number", colours, `2`, `"#0F0"`, ""},
		{"choice by title", colours, `red`, `"#F00"`, ""},
		{"choice by value", colours, `#F00`, `"#F00"`, ""},
		{"value before number", numbers, `2`, `"2"`, ""},
		{"number where no value fits", numbers, `3`, `"1"`, ""},
		{"no choice", colours, `3`, "", "number from 1 to 2"},
		{"legacy names", `{"type":"string","enum":["a","b"],"enumNames":["Alpha","Beta"]}`, `beta`, `"b"`, ""},

		{"choices", toppings, `1, basil`, `["ham","basil"]`, ""},
		{"titled choices", sizes, `large`, `["l"]`, ""},
		{"no choices", sizes, `none`, `[]`, ""},
		{"too few choices", toppings, `none`, "", "0 choices, at least 1"},
		{"too many choices", toppings, `1,2,3`, "", "3 choices, at most 2"},
		{"a choice twice", toppings, `1,ham`, "", "twice"},

		{"a nested object", `{"type":"object","properties":{}}`, `{"a":[1]}`, `{"a":[1]}`, ""},
		{"several types", `{"type":["string","null"]}`, `null`, `null`, ""},
		{"no JSON", `{"type":"object"}`, `{"a"`, "", "not JSON"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := field(t, test.schema, true)
			got, err := f.Parse(test.typed)
			switch {
			case test.wantErr != "":
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Errorf("got %s and %v, want an error with %q", got, err, test.wantErr)
				}
			case err != nil:
				t.Error(err)
			case string(got) != test.want:
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestHints(t *testing.T) {
	tests := []struct {
		name, schema string
		required     bool
		want         string
	}{
		{"text", `{"type":"string","minLength":3,"maxLength":50}`, true, "3 to 50 characters"},
		{"e-mail", `{"type":"string","format":"email"}`, false, "an e-mail address, optional"},
		{"number", `{"type":"number","minimum":0}`, true, "a number, at least 0"},
		{"integer", `{"type":"integer","maximum":6}`, true, "a whole number, at most 6"},
		{"boolean", `{"type":"boolean"}`, true, "yes or no"},
		{"choice", `{"type":"string","enum":["a","b"]}`, true, "1 to 2"},
		{"choices", `{"type":"array","maxItems":1,"items":{"enum":["a","b"]}}`, true, "numbers separated by commas, or none, at most 1 choice"},
		{"anything", `{"type":"object"}`, true, "a JSON value"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := field(t, test.schema, test.required)
			if got := f.hint(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	tests := []struct{ name, schema, want string }{
		{"kept as it is written", `{"type":"number","default":1.50}`, "1.50"},
		{"one that does not fit is left out", `{"type":"integer","maximum":3,"default":4}`, ""},
		{"of another type", `{"type":"boolean","default":"yes"}`, ""},
		{"choices", `{"type":"array","items":{"enum":["a","b"]},"default":["b"]}`, `["b"]`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := field(t, test.schema, true)
			if got := string(f.Default); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestFieldsKeepTheOrderOfTheSchema(t *testing.T) {
	fields, err := parseFields([]byte(`{"properties":{"z":{"type":"string"},"a":{"type":"integer","title":"An A"}},"required":["a"]}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range fields {
		got = append(got, f.Key+" "+f.Title)
	}
	if diff := cmp.Diff([]string{"z z", "a An A"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if fields[0].Required || !fields[1].Required {
		t.Errorf("required: %v, %v; want only a", fields[0].Required, fields[1].Required)
	}
}

func TestCheckContent(t *testing.T) {
	fields, err := parseFields([]byte(`{"properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":18}},"required":["name"]}`))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, content, wantErr string }{
		{"all", `{"name":"Mona","age":30}`, ""},
		{"without the optional one", `{"name":"Mona"}`, ""},
		{"without the required one", `{"age":30}`, `"name" is missing`},
		{"of a wrong type", `{"name":1}`, `"name": not a text`},
		{"out of bounds", `{"name":"Mona","age":17}`, `"age": less than 18`},
		{"with one too many", `{"name":"Mona","nmae":"x"}`, `no field "nmae"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := CheckContent(fields, []byte(test.content))
			if (err == nil) != (test.wantErr == "") || err != nil && !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("got %v, want %q", err, test.wantErr)
			}
		})
	}
}
