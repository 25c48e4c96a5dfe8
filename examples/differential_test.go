package examples_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	jrpc2sdk "github.com/creachadair/jrpc2"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	goccy "github.com/goccy/go-json"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	segmentio "github.com/segmentio/encoding/json"
	"github.com/stdioguard/stdioguard"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a guard forwards is read by somebody else's parser. A line that two parsers
// read differently gets past whoever judges with the one and is served by the
// other, so no line may be forwarded on whose envelope they disagree: which members
// are there, and with which values.

// A reading is what a parser makes of a line: the members of the envelope that are
// there, decoded. Numbers are json.Number where the parser keeps them as they stand,
// else float64.
type reading map[string]any

var envelopeNames = []string{"jsonrpc", "id", "method", "params", "result", "error"}

// A parser is one of those that SDKs read with, in one of the ways that they do.
type parser struct {
	name string
	read func(line []byte) (reading, error)

	rounds bool                              // numbers are float64
	keeps  func(reading) reading             // of what there is; nil: all
	may    func(line []byte, err error) bool // refuse a line, with that error; nil: never
}

// reference is the one that the others are compared with.
var reference = parser{
	name: "encoding/json into a map, with json.Number",
	read: intoMap(useNumber(func(r io.Reader) numberDecoder { return json.NewDecoder(r) })),
}

var parsers = []parser{
	{name: "encoding/json into a struct", read: intoStruct(json.Unmarshal), rounds: true},
	{name: "encoding/json into a map", read: intoMap(json.Unmarshal), rounds: true, may: outOfRange},
	reference,
	{name: "goccy into a struct", read: intoStruct(goccy.Unmarshal), rounds: true},
	{name: "goccy into a map", read: intoMap(goccy.Unmarshal), rounds: true, may: outOfRange},
	{name: "goccy into a map, with json.Number", read: intoMap(useNumber(func(r io.Reader) numberDecoder { return goccy.NewDecoder(r) }))},
	{name: "segmentio into a struct", read: intoStruct(segmentio.Unmarshal), rounds: true},
	{name: "segmentio into a struct, names as they are spelled", read: intoStruct(exactSegmentio), rounds: true},
	{name: "segmentio into a map", read: intoMap(segmentio.Unmarshal), rounds: true, may: outOfRange},
	{name: "segmentio into a map, with json.Number", read: intoMap(useNumber(func(r io.Reader) numberDecoder { return segmentio.NewDecoder(r) }))},
	{name: "jsontext, token by token", read: byTokens},
	{name: "json v2 into a struct", read: intoStruct(unmarshalV2(lenient)), rounds: true},
	{name: "json v2 into a struct, in any case", read: intoStruct(unmarshalV2(lenient, anyCase, jsonv1.MatchCaseSensitiveDelimiter(true))), rounds: true},
	{name: "json v2 into a map", read: intoMap(unmarshalV2(jsontext.AllowInvalidUTF8(true))), rounds: true, may: outOfRangeOrTwice},
	{name: "json v2 as strict as it comes", read: intoStruct(unmarshalV2()), rounds: true, may: noIJSON},
	{name: "go-sdk", read: goSDK, rounds: true, keeps: withoutParamsOfResponse},
	{name: "jrpc2", read: jrpc2Request, keeps: withoutNullParams, may: noRequestOfJRPC2},
}

// lenient makes json v2 read what RFC 8259 leaves open as the others do.
var lenient = jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// anyCase alone takes _id and i-d for id, too. With jsonv1's option besides it is how
// encoding/json matches names when it is built on json v2 (GOEXPERIMENT=jsonv2).
var anyCase = jsonv2.MatchCaseInsensitiveNames(true)

// An sdkEnvelope is the struct that SDKs decode a message into.
type sdkEnvelope struct {
	JSONRPC *string         `json:"jsonrpc"`
	ID      any             `json:"id"`
	Method  *string         `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *sdkError       `json:"error"`
}

type sdkError struct {
	Code    *int64          `json:"code"`
	Message *string         `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func intoStruct(unmarshal func([]byte, any) error) func([]byte) (reading, error) {
	return func(line []byte) (reading, error) {
		var e sdkEnvelope
		if err := unmarshal(line, &e); err != nil {
			return nil, err
		}
		r := reading{}
		if e.JSONRPC != nil {
			r["jsonrpc"] = *e.JSONRPC
		}
		if e.ID != nil {
			r["id"] = e.ID
		}
		if e.Method != nil {
			r["method"] = *e.Method
		}
		r.setRaw("params", e.Params)
		r.setRaw("result", e.Result)
		if e.Error != nil {
			r["error"] = errorReading(e.Error.Code, e.Error.Message)
		}
		return r, nil
	}
}

// setRaw sets a member that the parser left as it stands.
func (r reading) setRaw(name string, raw json.RawMessage) {
	if len(raw) == 0 {
		return
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		v = err
	}
	r[name] = v
}

// errorReading is of an error's code and message, which all that is judged of it is.
func errorReading(code *int64, message *string) any {
	e := map[string]any{}
	if code != nil {
		e["code"] = json.Number(strconv.FormatInt(*code, 10))
	}
	if message != nil {
		e["message"] = *message
	}
	return e
}

func intoMap(unmarshal func([]byte, any) error) func([]byte) (reading, error) {
	return func(line []byte) (reading, error) {
		var all map[string]any
		err := unmarshal(line, &all)
		return ofEnvelope(all), err
	}
}

// ofEnvelope drops what is not of the envelope.
func ofEnvelope(all map[string]any) reading {
	r := reading{}
	for _, name := range envelopeNames {
		if v, ok := all[name]; ok {
			r[name] = v
		}
	}
	if e, ok := r["error"].(map[string]any); ok {
		r["error"] = only(e, "code", "message")
	}
	return r
}

func only(from map[string]any, names ...string) map[string]any {
	to := map[string]any{}
	for _, name := range names {
		if v, ok := from[name]; ok {
			to[name] = v
		}
	}
	return to
}

// A numberDecoder is what the three parsers with encoding/json's interface have.
type numberDecoder interface {
	UseNumber()
	Decode(any) error
}

func useNumber(decoder func(io.Reader) numberDecoder) func([]byte, any) error {
	return func(line []byte, v any) error {
		dec := decoder(bytes.NewReader(line))
		dec.UseNumber()
		return dec.Decode(v)
	}
}

// exactSegmentio is how go-sdk v1.8 sets segmentio up.
func exactSegmentio(line []byte, v any) error {
	dec := segmentio.NewDecoder(bytes.NewReader(line))
	dec.DontMatchCaseInsensitiveStructFields()
	return dec.Decode(v)
}

func unmarshalV2(opts ...jsonv2.Options) func([]byte, any) error {
	return func(line []byte, v any) error { return jsonv2.Unmarshal(line, v, opts...) }
}

// byTokens reads the outermost object's members in order; the last of a name wins.
func byTokens(line []byte) (reading, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(line), lenient)
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	all := reading{}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String() // before the next read
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		all.setRaw(key, json.RawMessage(value))
	}
	_, err := dec.ReadToken()
	return ofEnvelope(all), err
}

func goSDK(line []byte) (reading, error) {
	m, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		return nil, err
	}
	r := reading{"jsonrpc": "2.0"} // it refuses all others
	switch m := m.(type) {
	case *jsonrpc.Request:
		r["method"] = m.Method
		r.setID(m.ID)
		r.setRaw("params", m.Params)
	case *jsonrpc.Response:
		r.setID(m.ID)
		r.setRaw("result", m.Result)
		var e *jsonrpc.Error
		if errors.As(m.Error, &e) {
			r["error"] = errorReading(&e.Code, &e.Message)
		}
	}
	return r, nil
}

func (r reading) setID(id jsonrpc.ID) {
	switch id := id.Raw().(type) {
	case string:
		r["id"] = id
	case int64:
		r["id"] = json.Number(strconv.FormatInt(id, 10))
	}
}

// withoutParamsOfResponse: go-sdk has no place for them.
func withoutParamsOfResponse(r reading) reading {
	if _, isCall := r["method"]; isCall {
		return r
	}
	r = maps.Clone(r)
	delete(r, "params")
	return r
}

var errNoCall = errors.New("not a call")

func jrpc2Request(line []byte) (reading, error) {
	all, err := jrpc2sdk.ParseRequests(line)
	switch {
	case err != nil:
		return nil, err
	case len(all) != 1 || all[0].Batch:
		return nil, fmt.Errorf("read as %d messages", len(all))
	case all[0].Error != nil:
		return nil, all[0].Error
	case all[0].Method == "":
		return nil, errNoCall
	}
	r := reading{"jsonrpc": "2.0", "method": all[0].Method}
	r.setRaw("id", json.RawMessage(all[0].ID))
	r.setRaw("params", all[0].Params)
	return r, nil
}

// withoutNullParams: for jrpc2 there are none.
func withoutNullParams(r reading) reading {
	if v, ok := r["params"]; !ok || v != nil {
		return r
	}
	r = maps.Clone(r)
	delete(r, "params")
	return r
}

// noRequestOfJRPC2: jrpc2's servers take no responses, no calls without a method's
// name, none with params that are no object or array (JSON-RPC 2.0 §4.2), and none with
// members that JSON-RPC does not know.
func noRequestOfJRPC2(line []byte, err error) bool {
	r, _ := reference.read(line)
	switch r["params"].(type) {
	case map[string]any, []any, nil:
	default:
		return true
	}
	var refusal *jrpc2sdk.Error
	return r["method"] == nil || r["method"] == "" ||
		errors.As(err, &refusal) && refusal.Message == "extra fields in request"
}

// What parsers may refuse, and it is documented.

// outOfRange: a number that no float64 holds, read as one. RFC 8259 §6 lets parsers
// set limits; a line like that is no danger, as nobody takes it for another.
func outOfRange(line []byte, _ error) bool {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if err != nil {
			return false
		}
		if n, ok := token.(json.Number); ok {
			if _, err := n.Float64(); err != nil {
				return true
			}
		}
	}
}

// outOfRangeOrTwice: with names that stand twice allowed, json v2 merges their values,
// below the envelope too, where no rule is broken.
func outOfRangeOrTwice(line []byte, err error) bool {
	return outOfRange(line, err) || errors.Is(err, jsontext.ErrDuplicateName)
}

// noIJSON: names that stand twice, below the top level or outside the envelope, and
// escapes of lone surrogates. RFC 8259 allows them and I-JSON (RFC 7493) does not.
func noIJSON(line []byte, err error) bool {
	return errors.Is(err, jsontext.ErrDuplicateName) || surrogateEscape.Match(line)
}

var surrogateEscape = regexp.MustCompile(`\\u[dD][89a-fA-F]`)

// differences says which parsers read a line otherwise than the reference does.
func differences(line []byte) (all []string) {
	want, err := reference.read(line)
	if err != nil {
		return []string{fmt.Sprintf("%s refuses it: %v", reference.name, err)}
	}
	for _, p := range parsers {
		got, err := p.read(line)
		switch {
		case err != nil && (p.may == nil || !p.may(line, err)):
			all = append(all, fmt.Sprintf("%s refuses it: %v", p.name, err))
		case err == nil:
			expected := want
			if p.keeps != nil {
				expected = p.keeps(want)
			}
			if w, g := expected.text(p.rounds), got.text(p.rounds); w != g {
				all = append(all, fmt.Sprintf("%s reads %s, not %s", p.name, g, w))
			}
		}
	}
	return all
}

// text is the reading in a form that compares, where it does not matter
//   - whether a string holds what cannot be decoded, or U+FFFD in its place;
//   - with rounds, what a float64 does not tell apart: digits past the 17th, 0 and -0.
func (r reading) text(rounds bool) string {
	var b strings.Builder
	for _, name := range envelopeNames {
		if v, ok := r[name]; ok {
			fmt.Fprintf(&b, "%s: ", name)
			appendText(&b, v, rounds)
			b.WriteString("; ")
		}
	}
	return b.String()
}

func appendText(b *strings.Builder, v any, rounds bool) {
	switch v := v.(type) {
	case json.Number:
		if !rounds {
			b.WriteString(string(v))
			return
		}
		f, _ := v.Float64() // an infinity where it is out of range
		appendText(b, f, rounds)
	case float64:
		if v == 0 {
			v = 0 // of either sign
		}
		b.WriteString(strconv.FormatFloat(v, 'g', -1, 64))
	case []any:
		b.WriteString("[")
		for _, e := range v {
			appendText(b, e, rounds)
			b.WriteString(",")
		}
		b.WriteString("]")
	case map[string]any:
		b.WriteString("{")
		for _, name := range slices.Sorted(maps.Keys(v)) {
			fmt.Fprintf(b, "%q:", name)
			appendText(b, v[name], rounds)
			b.WriteString(",")
		}
		b.WriteString("}")
	case string:
		fmt.Fprintf(b, "%q", v)
	default:
		fmt.Fprint(b, v) // true, false, null, or an error
	}
}

// forwarded returns the lines that a guard hands on, without their newlines.
func forwarded(t testing.TB, in []byte) [][]byte {
	out, err := io.ReadAll(stdioguard.New(bytes.NewReader(in), nil))
	require.NoError(t, err)
	lines := bytes.Split(out, []byte("\n"))
	return lines[:len(lines)-1]
}

// unsettled says for which parsers a guard goes on waiting after the server has
// answered with the id that they read, encoded again.
func unsettled(t testing.TB, line []byte) (all []string) {
	answered := map[string]bool{}
	for _, p := range parsers {
		m, err := p.read(line)
		if err != nil {
			continue
		}
		id, err := json.Marshal(m["id"])
		require.NoError(t, err)
		if answered[string(id)] {
			continue
		}
		answered[string(id)] = true
		g := stdioguard.New(bytes.NewReader(append(line, '\n')), io.Discard, stdioguard.WithDrain(0))
		w := g.Writer()
		_, err = io.ReadAll(g)
		require.NoError(t, err)
		_, err = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", id)
		require.NoError(t, err)
		if g.Stats().Pending != 0 && m["method"] != "subscriptions/listen" {
			all = append(all, fmt.Sprintf("%s answers with id %s", p.name, id))
		}
	}
	return all
}

func requireOneReading(t testing.TB, line []byte) {
	t.Helper()
	if hasLargestID(line) {
		return // see TestTheLargestIDs
	}
	for _, d := range append(differences(line), unsettled(t, line)...) {
		t.Errorf("%.500q: %s", line, d)
	}
}

// hasLargestID reports whether a line has one of the last 512 ids that fit an int64:
// as float64 they are 2^63, which does not.
func hasLargestID(line []byte) bool {
	r, _ := reference.read(line)
	id, _ := r["id"].(json.Number)
	f, err := id.Float64()
	return err == nil && f == 1<<63
}

// The first known difference. go-sdk v1.8 makes an int64 of an id's float64, and what
// Go makes of 2^63 there is the machine's choice: on amd64 -2^63, and under that id
// go-sdk answers. The client gets no answer, and the guard waits for one.
func TestTheLargestIDs(t *testing.T) {
	for _, id := range []string{"9223372036854775296", "9223372036854775807"} {
		line := []byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"m"}`)
		require.Len(t, forwarded(t, line), 1)
		all := append(differences(line), unsettled(t, line)...)
		if runtime.GOARCH == "amd64" {
			require.Len(t, all, 2)
		}
		for _, d := range all {
			assert.True(t, strings.HasPrefix(d, "go-sdk "), d)
		}
	}
	requireOneReading(t, []byte(`{"jsonrpc":"2.0","id":9223372036854775295,"method":"m"}`))
	requireOneReading(t, []byte(`{"jsonrpc":"2.0","id":-9223372036854775808,"method":"m"}`))
}

// The second. A program that asks json v2 for names in any case gets those with "_"
// and "-" left out besides. No SDK does, and such members are used for other ends.
func TestNamesWithDelimiters(t *testing.T) {
	read := intoStruct(unmarshalV2(lenient, anyCase))
	for _, name := range []string{"_id", "i-d", "ID_", "-id-", "json-rpc", "me_thod"} {
		line := []byte(messageWith(1, name, `"0"`))
		require.Len(t, forwarded(t, line), 1)
		requireOneReading(t, line)
		want, err := reference.read(line)
		require.NoError(t, err)
		got, err := read(line)
		assert.True(t, err != nil || want.text(true) != got.text(true), "%s is a member of its own", name)
	}
}

// messageWith is a call with one member more, which stands first or last in it or in
// its params. Neither need be what it is taken for.
func messageWith(place byte, name, value string) string {
	member := `"` + name + `":` + value
	switch place % 6 {
	case 0:
		return `{` + member + `,"jsonrpc":"2.0","id":1,"method":"m"}`
	case 1:
		return `{"jsonrpc":"2.0","id":1,"method":"m",` + member + `}`
	case 2:
		return `{"jsonrpc":"2.0","id":1,"method":"m","params":{"x":1,` + member + `}}`
	case 3:
		return `{"jsonrpc":"2.0","id":"a","result":{` + member + `,"x":1}}`
	case 4:
		return `{"jsonrpc":"2.0","id":1,"error":{"code":-1,` + member + `,"message":"m"}}`
	}
	return `{"jsonrpc":"2.0",` + member + `}`
}

const places = 6

var memberNames = []string{
	"jsonrpc", "id", "method", "params", "result", "error", "code", "message", "data", "requestId",
	"Jsonrpc", "JSONRPC", "ID", "Id", "iD", "Method", "METHOD", "Params", "Result", "Error", "Code", "MESSAGE",
	"j\u017fonrpc", `j\u017fonrpc`, "param\u017f", `param\u017f`, "re\u017fult", "me\u017f\u017fage",
	"\u0131d", "\u0130d", "\uff49\uff44", "i\u0307d", "метод",
	`\u0069d`, `i\u0064`, `\u006a\u0073\u006f\u006e\u0072\u0070\u0063`, `\u006Dethod`, `\u004dethod`, `metho\u0064`, `erro\u0072`,
	`id\u0000`, `method\u0000`, `method\u0000x`, `\u0000id`, `id\u0000\u0000`, `i\u0000d`, `params\u0000\u0000`,
	`id\ud800`, `\ud800`, `\udc00id`, `id\ud83d\ude00`, `method\udfff`,
	"id ", " id", `id\t`, `id\n`, `id\b`, `\"id\"`, `id\"`, `id\\`, `\/id`, "id\u200b", "\ufeffid", "id\ufeff", "\u2028id", "id\x7f",
	"", "_", "_id", "i-d", "json_rpc", "i", "ids", "idx", "methods", "jsonrpc2", "jsonrp", "param", "paramsx", "resul", "results", "errors", "errorx",
	"__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "$ref", "0", "-0", "1e400", "NaN", "length",
	"\ufffd", `\ufffd`, "method\ufffd",
	strings.Repeat("jsonrpc", 40), "method" + strings.Repeat("x", 250), "id" + strings.Repeat(" ", 62), "params" + strings.Repeat("s", 1024),
	strings.Repeat(`\u0069`, 70) + "d", strings.Repeat("\U0001f600", 64),
}

var memberValues = []string{
	`null`, `true`, `false`, `{}`, `[]`, `""`, `"2.0"`, `"m"`, `"\u0032.0"`, `"\u006d"`, `"2.0\u0000"`,
	`0`, `-0`, `1`, `-1`, `1.0`, `0.0`, `1e0`, `-0.0`, `1.5`, `0.1`, `1E400`, `-1e400`, `1e-400`, `123e-2`,
	`9007199254740991`, `9007199254740992`, `9007199254740993`, `-9007199254740993`,
	`9223372036854775295`, `9223372036854775296`, `9223372036854775807`, `-9223372036854775808`,
	`18446744073709551615`, `18446744073709551616`, `0.30000000000000004`, `0.300000000000000041`, `4.9e-324`, `2e-324`,
	`1.7976931348623157e308`, `1.7976931348623159e308`, strings.Repeat("9", 400), `0.` + strings.Repeat("0", 400) + `1`,
	`"\ud800"`, `"\ud800\ud800"`, `"\udc00\ud800"`, `"\ud83d\ude00"`, `"\uD83D\uDE00x"`, `"\ud800\u0041"`, `"\ud800\n"`, `"\ud800\ud83d\ude00"`,
	"\"\U0001f600\"", "\"\u2028\u2029\u0085\"", "\"\ufeff\"", "\"\ufffd\ufffe\uffff\"", "\"\x7f\"", `"\u0000"`, `"\u007f\u0080"`, `"a\u0000b"`,
	`"\"\\\/\b\f\n\r\t"`, `"<script>&amp;"`, "\"\u00e9e\u0301\"", `"\\u0069d"`, `"{\"id\":2}"`, `"}"`, `"]"`,
	`{"id":2}`, `{"__proto__":{"id":2,"method":"x"}}`, `{"id":1,"id":2}`, `{"a":1,"A":2,"a":3}`, `{"a":{"b":1},"a":{"c":2}}`, `{"":1,"\u0000":2}`,
	`{"\ud800":1,"\udc00":2}`, `{"a":1,"\u0061":2}`, `[1,[2,[3]],{}]`, `[[[[[]]]]]`, `[ 1 , 2 ]`, "{ \"a\"\t:\r1 }",
	strings.Repeat("[", 200) + strings.Repeat("]", 200), strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200),
	`"` + strings.Repeat("x", 5000) + `"`, `"` + strings.Repeat(`\u00e9`, 500) + `"`, "[" + strings.Repeat("0,", 2000) + "0]",
	"\"\xff\"", "\"\xed\xa0\x80\"", "\"\xc0\xaf\"", "\"\x00\"", "\"\t\"", `01`, `1.`, `.5`, `+1`, `NaN`, `Infinity`, `0x1`, `tru`, `nulll`, `'a'`, `1 2`, `{"a":1,}`, `[1,]`, "\v1", "\ufeff1", "1\u00a0",
}

// contested are lines on which parsers disagree, so that the guard has to drop them.
var contested = []struct{ name, line string }{
	{"a name twice, where the first has a part that the second has not", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"a"},"error":{"code":2}}`},
	{"a name and its capitals (GHSA-wvj2-96wp-fq3f)", `{"jsonrpc":"2.0","id":1,"method":"a","Method":"b"}`},
	{"capitals alone", `{"jsonrpc":"2.0","id":1,"METHOD":"a"}`},
	{"the version in capitals", `{"JSONRPC":"2.0","id":1,"method":"a"}`},
	{"an id in capitals", `{"jsonrpc":"2.0","ID":1,"method":"a"}`},
	{"a letter that folds (GHSA-wvj2-96wp-fq3f)", `{"jsonrpc":"2.0","id":1,"method":"a","params":{},"param` + "\u017f" + `":{"b":1}}`},
	{"the same, as an escape", `{"jsonrpc":"2.0","id":1,"method":"a","params":{},"param\u017f":{"b":1}}`},
	{"a code in capitals", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"CODE":2,"message":"m"}}`},
	{"a message that folds", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","me` + "\u017f" + `sage":"n"}}`},
	{"a code that is no integer", `{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"m"}}`},
	{"an id that is a fraction", `{"jsonrpc":"2.0","id":1.5,"method":"a"}`},
	{"an id that no float64 holds", `{"jsonrpc":"2.0","id":1e400,"method":"a"}`},
	{"an error that is null", `{"jsonrpc":"2.0","id":1,"result":1,"error":null}`},
	{"a method that is null", `{"jsonrpc":"2.0","id":1,"method":null}`},
	{"an id that is null", `{"jsonrpc":"2.0","id":null,"method":"a"}`},
	{"two texts", `{"jsonrpc":"2.0","id":1,"method":"a"} {"jsonrpc":"2.0","id":1,"method":"b"}`},
	{"a control byte in a string", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\tb\"}"},
}

// corpus is every name with some values and some names with every value, in every
// place, and the lines of the other tables.
func corpus() (lines []string) {
	for place := range byte(places) {
		for _, name := range memberNames {
			for _, value := range []string{`null`, `2`, `"2.0"`, `{"id":2}`, `"\ud800"`, `9007199254740993`} {
				lines = append(lines, messageWith(place, name, value))
			}
		}
		for _, value := range memberValues {
			for _, name := range []string{"jsonrpc", "id", "method", "params", "result", "error", "code", "x", "__proto__", `\u0069d`} {
				lines = append(lines, messageWith(place, name, value))
			}
		}
	}
	for _, value := range memberValues {
		lines = append(lines,
			`{"jsonrpc":"2.0","id":`+value+`,"method":"m"}`,
			`{"jsonrpc":"2.0","id":1,"method":`+value+`}`,
			`{"jsonrpc":`+value+`,"id":1,"method":"m"}`,
			`{"jsonrpc":"2.0","id":`+value+`,"result":`+value+`}`,
			`{"jsonrpc":"2.0","id":"a","result":{},"params":`+value+`}`,
			`{"jsonrpc":"2.0","id":1,"error":`+value+`}`,
			`{"jsonrpc":"2.0","id":1,"error":{"code":`+value+`,"message":"m"}}`,
			`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":`+value+`}}`,
			value)
	}
	for _, row := range contested {
		lines = append(lines, row.line)
	}
	for _, row := range rows() {
		if len(row.line) < 64<<10 {
			lines = append(lines, strings.Split(row.line, "\n")...)
		}
	}
	return lines
}

// A line on which no two parsers disagree would show nothing here: then the rule that
// drops it would not be one for this reason, or differences would see none.
func TestContestedLinesAreDropped(t *testing.T) {
	for _, tt := range contested {
		t.Run(tt.name, func(t *testing.T) {
			assert.NotEmpty(t, differences([]byte(tt.line)), "parsers agree")
			assert.Empty(t, forwarded(t, []byte(tt.line)))
		})
	}
}

func TestParsersAgreeOnWhatIsForwarded(t *testing.T) {
	lines := forwarded(t, []byte(strings.Join(corpus(), "\n")))
	t.Logf("%d lines of %d are forwarded", len(lines), len(corpus()))
	require.Greater(t, len(lines), 5000)
	for _, line := range lines {
		requireOneReading(t, line)
	}
}

// JSON.parse has float64 for numbers, infinities among them, and keeps lone
// surrogates, which come out of its answers as U+FFFD.
func TestJavaScriptAgreesOnWhatIsForwarded(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node on this machine: ", err)
	}
	lines := forwarded(t, []byte(strings.Join(corpus(), "\n")))
	cmd := exec.Command(node, filepath.Join("testdata", "parse.js"))
	cmd.Stdin = bytes.NewReader(append(bytes.Join(lines, []byte("\n")), '\n'))
	out, err := cmd.Output()
	require.NoError(t, err)
	answers := bytes.Split(out, []byte("\n"))
	require.Len(t, answers, len(lines)+1, "one answer a line, and nothing behind the last newline")
	for i, line := range lines {
		var got struct {
			Members map[string]any
			Refused string
		}
		require.NoError(t, json.Unmarshal(answers[i], &got))
		want, err := reference.read(line)
		require.NoError(t, err)
		assert.Empty(t, got.Refused, "%.500q", line)
		assert.Equal(t, want.text(true), ofEnvelope(withInfinities(got.Members).(map[string]any)).text(true), "%.500q", line)
	}
}

// withInfinities puts numbers back that parse.js has no other form for.
func withInfinities(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = withInfinities(v[i])
		}
	case map[string]any:
		if positive, ok := v["infinity"].(bool); ok && len(v) == 1 {
			if positive {
				return math.Inf(1)
			}
			return math.Inf(-1)
		}
		for name := range v {
			v[name] = withInfinities(v[name])
		}
	}
	return v
}

// FuzzDifferential looks at each line of in, and at a call with a member more.
func FuzzDifferential(f *testing.F) {
	for i, name := range memberNames {
		f.Add([]byte(contested[i%len(contested)].line), byte(i), name, memberValues[i%len(memberValues)])
	}
	for i, value := range memberValues {
		f.Add([]byte(`{"jsonrpc":"2.0","id":`+value+`,"method":"m","params":`+value+`}`), byte(i), memberNames[i%len(memberNames)], value)
	}
	for _, row := range rows() {
		if len(row.line) < 1<<10 {
			f.Add([]byte(row.line), byte(0), "id", "1")
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, place byte, name, value string) {
		in = append(in, "\n"+messageWith(place, name, value)...)
		for _, line := range forwarded(t, in) {
			requireOneReading(t, line)
		}
	})
}
