package mcp

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write the golden files")

// TestGolden reads the messages in testdata: each file "x" is a message and the
// file "x.want" behind it what was found in it.
func TestGolden(t *testing.T) {
	readers := map[string]func([]byte) string{
		"requests.txtar": func(raw []byte) string {
			r, err := ParseRequest(raw, 64)
			if err != nil {
				return fmt.Sprintf("%sError: %v\n", dump(raw, reflect.ValueOf(*r), ""), err)
			}
			return dump(raw, reflect.ValueOf(*r), "")
		},
		"messages.txtar": func(raw []byte) string {
			m, err := ParseMessage(raw, 64)
			if err != nil {
				return fmt.Sprintf("Error: %v\n", err)
			}
			return dump(raw, reflect.ValueOf(*m), "")
		},
	}
	for name, read := range readers {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", name)
			ar, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{}
			for _, f := range ar.Files {
				want[f.Name] = string(f.Data)
			}
			var files []txtar.File
			for _, f := range ar.Files {
				if strings.HasSuffix(f.Name, ".want") {
					continue
				}
				got := read(bytes.TrimSuffix(f.Data, []byte("\n")))
				files = append(files, f, txtar.File{Name: f.Name + ".want", Data: []byte(got)})
				if diff := cmp.Diff(want[f.Name+".want"], got); diff != "" && !*update {
					t.Errorf("%s: (-want +got):\n%s", f.Name, diff)
				}
			}
			if *update {
				ar.Files = files
				if err := os.WriteFile(path, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// dump writes one line for each member that was found.
func dump(raw []byte, v reflect.Value, path string) string {
	var b strings.Builder
	for i := range v.NumField() {
		f, name := v.Field(i), path+v.Type().Field(i).Name
		switch x := f.Interface().(type) {
		case Span:
			name = strings.TrimSuffix(name, ".Span")
			if x.Ok() {
				fmt.Fprintf(&b, "%s: %s\n", name, x.In(raw))
			}
		case Text:
			if x.Ok() && x.IsString {
				fmt.Fprintf(&b, "%s: %s = %q\n", name, x.In(raw), x.Value)
			} else if x.Ok() {
				fmt.Fprintf(&b, "%s: %s is no string\n", name, x.In(raw))
			}
		case []byte:
		default:
			if f.Kind() == reflect.Struct {
				b.WriteString(dump(raw, f, name+"."))
			} else if !f.IsZero() {
				fmt.Fprintf(&b, "%s = %v\n", name, x)
			}
		}
	}
	return b.String()
}
