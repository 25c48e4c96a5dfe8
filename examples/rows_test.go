package examples_test

import (
	"encoding/binary"
	"strings"
	"unicode/utf16"
)

const (
	bom         = "\ufeff"
	defaultLine = 16<<20 - 1
)

// A row is one line that a client sends after the handshake.
type row struct {
	name, line string
	want       []answer // before the answer to the tools/list that follows
	args       []string // of the server
	killsGoSDK bool     // the session of a server without a guard ends
	takesNext  bool     // no newline follows: the client's next line is part of the bad bytes
	anyOrder   bool     // the server may answer in any order
}

// Shorthands for the rows.
const (
	ping1 = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	ping2 = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
)

// ping is a request of exactly size bytes.
func ping(id string, size int) string {
	begin, end := `{"jsonrpc":"2.0","id":`+id+`,"method":"ping","params":{"_meta":{"t":"`, `"}}}`
	return begin + strings.Repeat("a", size-len(begin)-len(end)) + end
}

// nested is a request whose containers nest exactly depth deep.
func nested(depth int) string {
	return `{"jsonrpc":"2.0","id":2,"method":"ping","params":{"_meta":{"d":` +
		strings.Repeat("[", depth-3) + strings.Repeat("]", depth-3) + `}}}`
}

// nestedParams is a request whose params nest depth deep.
func nestedParams(depth int) string { return nested(depth + 1) }

// echo calls the tool with the inside of a JSON string.
func echo(text string) string {
	return `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + text + `"}}}`
}

func utf16LE(s string) string {
	var b []byte
	for _, u := range utf16.Encode([]rune(s)) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return string(b)
}

func rows() []row {
	var all []row
	for _, group := range [][]row{
		goodRows, blankRows, syntaxRows, limitRows(), valueRows, envelopeRows, responseRows, reportRows(), optionRows(),
	} {
		all = append(all, group...)
	}
	return all
}

// Lines that reach the server, verbatim but for what stands around them.
var goodRows = []row{
	{name: "a request", line: ping2, want: []answer{pong("2")}},
	{name: "a notification", line: `{"jsonrpc":"2.0","method":"notifications/initialized"}`},
	{name: "a request behind a BOM", line: bom + ping2, want: []answer{pong("2")}, killsGoSDK: true},
	{name: "a request before a space", line: ping2 + " ", want: []answer{pong("2")}, killsGoSDK: true},
	{name: "a request before a tab", line: ping2 + "\t", want: []answer{pong("2")}, killsGoSDK: true},
	{name: "a request after spaces and tabs", line: " \t " + ping2, want: []answer{pong("2")}},
	{name: "a request before CR LF", line: ping2 + "\r", want: []answer{pong("2")}},
	{name: "an id of -1", line: `{"jsonrpc":"2.0","id":-1,"method":"ping"}`, want: []answer{pong("-1")}},
	{name: "an id that is empty", line: `{"jsonrpc":"2.0","id":"","method":"ping"}`, want: []answer{pong(`""`)}},
	{name: "a lone surrogate escape", line: echo(`a\ud800b`), want: []answer{echoed("2", "\"a\ufffdb\"")}},
	{name: "a NUL escape", line: echo(`a\u0000b`), want: []answer{echoed("2", `"a\u0000b"`)}},
	{name: "an escape in a member name", line: `{"jsonrpc":"2.0","id":2,"meth\u006fd":"ping"}`, want: []answer{pong("2")}},
	{name: "1000 deep", line: nested(1000), want: []answer{pong("2")}},
	{name: "as long as the limit", line: ping("2", 4096), args: []string{"-line=4096"}, want: []answer{pong("2")}},
}

// Lines that nobody hears of.
var blankRows = []row{
	{name: "blank", line: ""},
	{name: "spaces and tabs", line: "  \t "},
	{name: "CR", line: "\r"},
	{name: "a BOM alone", line: bom, killsGoSDK: true},
	{name: "a BOM and spaces", line: bom + "  ", killsGoSDK: true},
}

var parseErrorNull = []answer{parseError("null")}

// Lines that are no JSON.
var syntaxRows = []row{
	{name: "not json", line: "not json", want: parseErrorNull, killsGoSDK: true},
	{name: "a NUL", line: "\x00", want: parseErrorNull, killsGoSDK: true},
	{name: "a NUL in a request", line: `{"jsonrpc":"2.0",` + "\x00" + `"id":2,"method":"ping"}`, want: parseErrorNull, killsGoSDK: true},
	{name: "a trailing comma", line: `{"jsonrpc":"2.0","id":2,"method":"ping",}`, want: parseErrorNull, killsGoSDK: true},
	{name: "NaN", line: `{"jsonrpc":"2.0","id":2,"method":"ping","params":NaN}`, want: parseErrorNull, killsGoSDK: true},
	{name: "a raw tab in a string", line: echo("a\tb"), want: parseErrorNull, killsGoSDK: true},
	{name: "two objects", line: ping1 + ping2, want: parseErrorNull, killsGoSDK: true},
	{name: "two objects, a space between", line: ping1 + " " + ping2, want: parseErrorNull, killsGoSDK: true},
	{name: "an object and garbage", line: ping2 + " garbage", want: parseErrorNull, killsGoSDK: true},
	{name: "a truncated object", line: `{"jsonrpc":"2.0","id":2,"method":`, want: parseErrorNull},
	{name: "two BOMs", line: bom + bom + ping2, want: parseErrorNull, killsGoSDK: true},
	{name: "invalid UTF-8 in a string", line: echo("a\xffb"), want: parseErrorNull},
	{name: "invalid UTF-8 between members", line: `{"jsonrpc":"2.0",` + "\xff" + `"id":2,"method":"ping"}`, want: parseErrorNull, killsGoSDK: true},
}

// Lines past a limit. A function, since the lines are long.
func limitRows() []row {
	return []row{
		{name: "1001 deep", line: nested(1001), want: parseErrorNull, killsGoSDK: true},
		{name: "100 000 deep", line: nested(100_000), want: parseErrorNull, killsGoSDK: true},
		{name: "a request of 17 MiB", line: ping("2", 17<<20), want: parseErrorNull, killsGoSDK: true},
		{name: "one byte over the limit", line: ping("2", 4097), args: []string{"-line=4096"}, want: parseErrorNull},
		{name: "spaces over the limit", line: strings.Repeat(" ", 4097), args: []string{"-line=4096"}, want: parseErrorNull},
	}
}

var invalidNull = []answer{invalidRequest("null")}

// Lines that are JSON, and no object.
var valueRows = []row{
	{name: "7", line: `7`, want: invalidNull, killsGoSDK: true},
	{name: "a string", line: `"s"`, want: invalidNull, killsGoSDK: true},
	{name: "true", line: `true`, want: invalidNull, killsGoSDK: true},
	{name: "null", line: `null`, want: invalidNull, killsGoSDK: true},
	{name: "an empty array", line: `[]`, want: invalidNull, killsGoSDK: true},
	{name: "an array of a number", line: `[1]`, want: invalidNull, killsGoSDK: true},
	{name: "a batch", line: `[` + ping1 + `,` + ping2 + `]`, want: invalidNull, killsGoSDK: true},
}

var (
	invalid2  = []answer{invalidRequest("2")}
	digits400 = strings.Repeat("7", 400)
)

// Objects that are neither a request nor a notification nor a response.
var envelopeRows = []row{
	{name: "an empty object", line: `{}`, want: invalidNull, killsGoSDK: true},
	{name: "no jsonrpc", line: `{"id":2,"method":"ping"}`, want: invalid2, killsGoSDK: true},
	{name: "jsonrpc 1.0", line: `{"jsonrpc":"1.0","id":2,"method":"ping"}`, want: invalid2, killsGoSDK: true},
	{name: "jsonrpc a number", line: `{"jsonrpc":2.0,"id":2,"method":"ping"}`, want: invalid2, killsGoSDK: true},
	{name: "JSONRPC", line: `{"JSONRPC":"2.0","id":2,"method":"ping"}`, want: invalid2, killsGoSDK: true},
	{name: "id an object", line: `{"jsonrpc":"2.0","id":{},"method":"ping"}`, want: invalidNull, killsGoSDK: true},
	{name: "id an array", line: `{"jsonrpc":"2.0","id":[1],"method":"ping"}`, want: invalidNull, killsGoSDK: true},
	{name: "id true", line: `{"jsonrpc":"2.0","id":true,"method":"ping"}`, want: invalidNull, killsGoSDK: true},
	{name: "id 1e400", line: `{"jsonrpc":"2.0","id":1e400,"method":"ping"}`, want: []answer{invalidRequest("1e400")}, killsGoSDK: true},
	{name: "id of 400 digits", line: `{"jsonrpc":"2.0","id":` + digits400 + `,"method":"ping"}`, want: []answer{invalidRequest(digits400)}, killsGoSDK: true},
	{name: "id 1.5", line: `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, want: []answer{invalidRequest("1.5")}},
	{name: "id null", line: `{"jsonrpc":"2.0","id":null,"method":"ping"}`, want: invalidNull},
	{name: "id twice", line: `{"jsonrpc":"2.0","id":2,"id":4,"method":"ping"}`, want: invalidNull},
	{name: "method a number", line: `{"jsonrpc":"2.0","id":2,"method":5}`, want: invalid2, killsGoSDK: true},
	{name: "neither method nor id", line: `{"jsonrpc":"2.0"}`, want: invalidNull, killsGoSDK: true},
	{name: "method twice", line: `{"jsonrpc":"2.0","id":2,"method":"x","method":"ping"}`, want: invalid2},
	{name: "Method", line: `{"jsonrpc":"2.0","id":2,"Method":"ping"}`, want: invalid2},
}

// Responses to nobody's request. To answer one could settle another call.
var responseRows = []row{
	{name: "an error response with a null id", line: `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`, killsGoSDK: true},
	{name: "an error that is a string", line: `{"jsonrpc":"2.0","id":2,"error":"boom"}`, killsGoSDK: true},
	{name: "an error whose code is a string", line: `{"jsonrpc":"2.0","id":2,"error":{"code":"E","message":"boom"}}`, killsGoSDK: true},
	{name: "an error whose code is 1.5", line: `{"jsonrpc":"2.0","id":2,"error":{"code":1.5,"message":"boom"}}`, killsGoSDK: true},
}

// The bytes of public reports.
func reportRows() []row {
	return []row{
		{
			name: "go-sdk#1209, agent-lsp#14, goreleaser/mcp#54, stackql#701: a truncated object",
			line: "{bad\n" + ping1, want: []answer{parseError("null"), pong("1")}, killsGoSDK: true,
		},
		{
			name: "rust-sdk#825, kotlin-sdk#956: a BOM as Codex CLI sends on Windows",
			line: bom + ping1, want: []answer{pong("1")}, killsGoSDK: true,
		},
		{
			// The second ping has another id, lest it arrive while the first is in work.
			name: "Graphify#227: a blank line between two requests",
			line: ping1 + "\n\n" + ping2, want: []answer{pong("1"), pong("2")}, anyOrder: true,
		},
		{
			name: "stackql#668: CR LF",
			line: ping1 + "\r", want: []answer{pong("1")},
		},
		{
			name: "go-sdk#192: one brace too many",
			line: ping1 + "}\n" + ping1, want: []answer{parseError("null"), pong("1")}, killsGoSDK: true,
		},
		{
			name: "typescript-sdk#2247: no jsonrpc",
			line: `{"id":99,"method":"tools/list","params":{}}`, want: []answer{invalidRequest("99")}, killsGoSDK: true,
		},
		{
			name: "ruby-sdk#400: jsonrpc 1.0",
			line: `{"jsonrpc":"1.0","id":3,"method":"ping","params":{}}`, want: []answer{invalidRequest("3")}, killsGoSDK: true,
		},
		{
			name: "python-sdk#2751, memtrace-public#18: params 256 deep",
			line: nestedParams(256), want: []answer{pong("2")},
		},
		{
			name: "python-sdk#2751, memtrace-public#18: params deeper than the limit",
			line: nestedParams(1000), want: parseErrorNull, killsGoSDK: true,
		},
		{
			name: "python-sdk#2051: a null id",
			line: `{"jsonrpc":"2.0","id":null,"method":"ping"}`, want: invalidNull,
		},
		{
			name: "python-sdk#2302: bytes that are not UTF-8",
			line: "\xff\xfe\n" + ping1, want: []answer{parseError("null"), pong("1")}, killsGoSDK: true,
		},
		{
			name: "python-sdk#2546, Reasonix#7525: Content-Length framing",
			line: "Content-Length: 40\r\n\r\n" + ping1, want: []answer{parseError("null"), pong("1")}, killsGoSDK: true,
		},
		{
			name: "Content-Length framing without a newline after the body",
			line: "Content-Length: 40\r\n\r\n" + ping1, want: []answer{parseError("null"), parseError("null")}, takesNext: true,
		},
		{
			name: "claude-agent-sdk-typescript#137: a line separator in a string",
			line: `{"jsonrpc":"2.0","id":1,"method":"x","params":{"t":"a` + "\u2028" + `b"}}`, want: []answer{notFound("1")},
		},
		{
			name: "claude-agent-sdk-typescript#137: a line separator, echoed",
			line: echo("a\u2028b"), want: []answer{echoed("2", `"a\u2028b"`)},
		},
		{
			name: "unity-mcp#1186: U+FEFF escaped in a string",
			line: `{"jsonrpc":"2.0","id":1,"method":"x","params":{"code":"\uFEFFreturn"}}`, want: []answer{notFound("1")},
		},
		{
			name: "unity-mcp#1186: U+FEFF raw in a string",
			line: `{"jsonrpc":"2.0","id":1,"method":"x","params":{"code":"` + bom + `return"}}`, want: []answer{notFound("1")},
		},
		{
			name: "unity-mcp#1186: U+FEFF, both ways, echoed",
			line: echo(bom + `a\uFEFFb`), want: []answer{echoed("2", `"`+bom+"a"+bom+`b"`)},
		},
		{
			name: "ISHRemote#261: 0 is an id",
			line: `{"jsonrpc":"2.0","id":0,"method":"ping"}`, want: []answer{pong("0")},
		},
		{
			name: "GHSA-wvj2-96wp-fq3f: method beside Method",
			line: `{"jsonrpc":"2.0","id":1,"method":"a","Method":"b"}`, want: []answer{invalidRequest("1")},
		},
		{
			name: "GHSA-wvj2-96wp-fq3f: params beside a spelling with a long s",
			line: `{"jsonrpc":"2.0","id":1,"method":"a","params":{},"param\u017f":{}}`, want: []answer{invalidRequest("1")},
		},
		{
			name: "GHSA-q382-vc8q-7jhj: method beside method and NUL",
			line: `{"jsonrpc":"2.0","id":1,"method":"a","method\u0000":"b"}`, want: []answer{invalidRequest("1")},
		},
		{
			name: "pmcp#82, codex#31805, perseus#643: a line over the limit",
			line: strings.Repeat("a", defaultLine+1) + "\n" + ping1, want: []answer{parseError("null"), pong("1")}, killsGoSDK: true,
		},
		{
			name: "UTF-16LE, its newline too",
			line: utf16LE(ping1 + "\n"), want: []answer{parseError("null"), parseError("null")}, takesNext: true,
		},
		{
			name: "a line that ends in CR alone",
			line: ping1 + "\r", want: parseErrorNull, takesNext: true,
		},
	}
}

// What the options change.
func optionRows() []row {
	recover, omit, none := []string{"-recover-ids"}, []string{"-answers=omit"}, []string{"-answers=none"}
	parseError2 := []answer{parseError("2")}
	idLast := strings.Replace(strings.Replace(ping("2", 17<<20), `"id":2,`, "", 1), `"}}}`, `"}},"id":2}`, 1)
	return []row{
		{name: "recovered: the id of 17 MiB", args: recover, line: ping("2", 17<<20), want: parseError2},
		{name: "recovered: no id within the limit", args: recover, line: idLast, want: parseErrorNull},
		{name: "recovered: the id of 1001 deep", args: recover, line: nested(1001), want: parseError2},
		{name: "recovered: the id of invalid UTF-8", args: recover, line: echo("a\xffb"), want: parseError2},
		{name: "recovered: no id of a syntax error", args: recover, line: ping2 + "}", want: parseErrorNull},
		{name: "omitted: the id of no JSON", args: omit, line: "not json", want: []answer{parseError("")}},
		{name: "omitted: the id of no message", args: omit, line: "7", want: []answer{invalidRequest("")}},
		{name: "omitted: not an id that is known", args: omit, line: `{"id":2,"method":"ping"}`, want: invalid2},
		{name: "none: no answer to no JSON", args: none, line: "not json"},
		{name: "none: no answer to no message", args: none, line: "7"},
		{name: "none: an answer where the id is known", args: none, line: `{"id":2,"method":"ping"}`, want: invalid2},
		{name: "none: an answer where the id is recovered", args: []string{"-answers=none", "-recover-ids"}, line: nested(1001), want: parseError2},
	}
}
