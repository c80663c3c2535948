package tenant

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// decode reads one JSON value into *to, and tells all that is wrong with it, not
// only the first. version points at the field of *to that holds the format's. It
// knows the kinds of fields that the types of this package have.
func decode(data []byte, to any, version *int) Faults {
	d := &decoder{dec: jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true))}
	if err := d.value("", reflect.ValueOf(to).Elem()); err != nil {
		return notJSON(err)
	}
	if _, err := d.dec.ReadToken(); err == nil {
		return notJSON(errors.New("more than one value"))
	} else if err != io.EOF {
		return notJSON(err)
	}
	switch {
	case *version == formatVersion:
	case *version != 0: // what else is unknown is no wonder
		return Faults{{Message: fmt.Sprintf("version %d of the format is not known: this program reads version %d", *version, formatVersion)}}
	case len(d.faults) == 0:
		return Faults{{Message: "does not say the version of its format"}}
	}
	return d.faults
}

func notJSON(err error) Faults {
	return Faults{{Message: "not JSON: " + strings.TrimPrefix(err.Error(), "jsontext: ")}}
}

type decoder struct {
	dec    *jsontext.Decoder
	faults Faults
}

// value reads the next value into v. The error is that of bytes that are not JSON;
// what is JSON and wrong becomes a fault.
func (d *decoder) value(path string, v reflect.Value) error {
	switch kind := d.dec.PeekKind(); {
	case kind == 'n': // null counts as absent
		return d.dec.SkipValue()
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return d.value(path, v.Elem())
	case isScalar(v):
		raw, err := d.dec.ReadValue()
		if err != nil {
			return err
		}
		if want := d.scalar(raw, v); want != "" {
			d.faults.add(path, "must be %s", want)
		}
		return nil
	case v.Kind() == reflect.Struct && kind == '{':
		return d.object(path, v)
	case v.Kind() == reflect.Map && kind == '{':
		return d.table(path, v)
	case v.Kind() == reflect.Slice && kind == '[':
		return d.list(path, v)
	default:
		if err := d.dec.SkipValue(); err != nil {
			return err
		}
		d.faults.add(path, "must be %s", map[bool]string{true: "a list", false: "an object"}[v.Kind() == reflect.Slice])
		return nil
	}
}

// isScalar tells whether a field is read from one JSON scalar.
func isScalar(v reflect.Value) bool {
	switch v.Interface().(type) {
	case time.Time, []byte:
		return true
	}
	return v.Kind() != reflect.Struct && v.Kind() != reflect.Slice && v.Kind() != reflect.Map
}

// scalar sets v from a JSON value, or says what it must be.
func (d *decoder) scalar(raw jsontext.Value, v reflect.Value) (want string) {
	text, isString := "", raw.Kind() == '"'
	if isString {
		b, err := jsontext.AppendUnquote(nil, raw)
		if err != nil {
			return "a string"
		}
		text = string(b)
	}
	switch v.Interface().(type) {
	case time.Duration:
		span, err := time.ParseDuration(text)
		if err != nil || !isString {
			return "a duration such as 2s or 1m30s"
		}
		v.SetInt(int64(span))
		return ""
	case time.Time:
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil || !isString {
			return "a time such as 2026-07-28T12:00:00Z"
		}
		v.Set(reflect.ValueOf(at.UTC()))
		return ""
	case []byte:
		b, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil || !isString {
			return "a string in base64"
		}
		v.SetBytes(b)
		return ""
	}
	switch v.Kind() {
	case reflect.String:
		if !isString {
			return "a string"
		}
		v.SetString(text)
	case reflect.Bool:
		if k := raw.Kind(); k != 't' && k != 'f' {
			return "true or false"
		}
		v.SetBool(raw.Kind() == 't')
	case reflect.Int:
		n, err := strconv.ParseInt(string(raw), 10, strconv.IntSize)
		if err != nil {
			return "an integer"
		}
		v.SetInt(n)
	case reflect.Uint64:
		n, err := strconv.ParseUint(string(raw), 10, 64)
		if err != nil {
			return "an integer that is not negative"
		}
		v.SetUint(n)
	default:
		panic("a field of type " + v.Type().String() + " cannot be read")
	}
	return ""
}

func (d *decoder) list(path string, v reflect.Value) error {
	if _, err := d.dec.ReadToken(); err != nil {
		return err
	}
	for i := 0; d.dec.PeekKind() != ']'; i++ {
		if d.dec.PeekKind() == 0 {
			_, err := d.dec.ReadToken()
			return err
		}
		item := reflect.New(v.Type().Elem()).Elem()
		if err := d.value(fmt.Sprintf("%s[%d]", path, i), item); err != nil {
			return err
		}
		v.Set(reflect.Append(v, item)) // a faulty item keeps its place, so that paths stay right
	}
	_, err := d.dec.ReadToken()
	return err
}

func (d *decoder) object(path string, v reflect.Value) error {
	if _, err := d.dec.ReadToken(); err != nil {
		return err
	}
	known := fieldsOf(v.Type())
	seen := map[string]bool{}
	for d.dec.PeekKind() == '"' {
		token, err := d.dec.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		at := join(path, name)
		index, ok := known[name]
		switch {
		case !ok:
			d.faults.add(at, "unknown field")
		case seen[name]:
			d.faults.add(at, "is there twice")
		default:
			seen[name] = true
			if err := d.value(at, v.FieldByIndex(index)); err != nil {
				return err
			}
			continue
		}
		if err := d.dec.SkipValue(); err != nil {
			return err
		}
	}
	_, err := d.dec.ReadToken()
	return err
}

// table reads an object whose names are free into a map.
func (d *decoder) table(path string, v reflect.Value) error {
	if _, err := d.dec.ReadToken(); err != nil {
		return err
	}
	v.Set(reflect.MakeMap(v.Type()))
	for d.dec.PeekKind() == '"' {
		token, err := d.dec.ReadToken()
		if err != nil {
			return err
		}
		name := reflect.ValueOf(token.String())
		at := join(path, name.String())
		if v.MapIndex(name).IsValid() {
			d.faults.add(at, "is there twice")
		}
		item := reflect.New(v.Type().Elem()).Elem()
		if err := d.value(at, item); err != nil {
			return err
		}
		v.SetMapIndex(name, item)
	}
	_, err := d.dec.ReadToken()
	return err
}

// fieldsOf gives the fields of a struct by their names in JSON, those of embedded
// structs included.
func fieldsOf(t reflect.Type) map[string][]int {
	known := map[string][]int{}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			known[name] = f.Index
		}
	}
	return known
}

// join extends a path by a name; one that is no word is quoted.
func join(path, name string) string {
	switch {
	case !matches(name, 64, false, "_-"):
		return fmt.Sprintf("%s[%q]", path, name)
	case path == "":
		return name
	}
	return path + "." + name
}
