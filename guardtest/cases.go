package guardtest

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// A Case is one thing that is done to a server.
type Case struct {
	Name   string // what Test calls the subtest, and WithSkip the case
	What   string // what is done, in one sentence
	Source string // the rule or the public report that it comes from

	before string   // bytes in front of the session's first message
	send   string   // bytes after the handshake; for ⟨2⟩ see below
	ids    []string // those in send, beside the ⟨2⟩: an answer may have one
	serves bool     // each of the ids has to be answered

	swallows bool // the bad bytes take the next line with them
	unread   bool // the client reads nothing until all is written
	oneShot  bool // the session's first messages are sent together with send
	measures bool // it looks at the memory of the process

	make   func() string       // returns what to send, where that is too long to keep
	encode func(string) string // changes what is sent
	play   func(*trial)        // how the case is played; nil: survive
}

// Cases returns the battery. The order and the names stay as they are from one release
// to the next; new cases may come.
func Cases() []Case { return battery() }

func battery() []Case {
	return slices.Concat(requestCases, blankCases, syntaxCases, framingCases, valueCases, envelopeCases,
		responseCases, sizeCases, firstCases, endCases)
}

const bom = "\ufeff"

// In what is sent, ⟨2⟩ stands for the probe's request with the id 2, and ⟨2 "x"⟩ for one
// that also has the JSON value "x" in its params' _meta.

// Public reports, and rules, that several cases come from.
const (
	effectReport = "report against the stdio server of effect 4.0.0-rc.117"
	jsonRule     = "RFC 8259"
	messageRule  = "JSON-RPC 2.0 §4"
	idRule       = "JSON-RPC 2.0 §4; MCP: a request's id is a string or an integer"
	stdioRule    = "MCP, stdio transport"
	survivalRule = "go-sdk v1.8.0 ends the session"
)

// Valid requests, whatever stands around and in them.
var requestCases = []Case{
	{
		Name: "control", What: "A plain request.", Source: effectReport,
		send: "⟨2⟩\n", serves: true,
	}, {
		Name: "unknown-method", What: "A request for a method that no server has.", Source: "JSON-RPC 2.0 §5; paiml-mcp-agent-toolkit#648",
		send: `{"jsonrpc":"2.0","id":2,"method":"guardtest/unknown","params":{}}` + "\n", ids: []string{"2"}, serves: true,
	}, {
		Name: "notification", What: "A notification that no server knows.", Source: "JSON-RPC 2.0 §4.1",
		send: `{"jsonrpc":"2.0","method":"notifications/guardtest"}` + "\n",
	}, {
		Name: "bom", What: "A byte order mark before a request.", Source: effectReport + "; rust-sdk#825; kotlin-sdk#956",
		send: bom + "⟨2⟩\n", serves: true,
	}, {
		Name: "leading-space", What: "Spaces and tabs before a request.", Source: jsonRule + " §2",
		send: " \t ⟨2⟩\n", serves: true,
	}, {
		Name: "trailing-space", What: "A space after a request.", Source: jsonRule + " §2; " + survivalRule,
		send: "⟨2⟩ \n", serves: true,
	}, {
		Name: "trailing-tab", What: "A tab after a request.", Source: jsonRule + " §2; " + survivalRule,
		send: "⟨2⟩\t\n", serves: true,
	}, {
		Name: "crlf", What: "A request whose line ends in CR LF.", Source: "stackql#668",
		send: "⟨2⟩\r\n", serves: true,
	}, {
		Name: "id-zero", What: "A request whose id is 0.", Source: "ISHRemote#261",
		send: "⟨0⟩\n", serves: true,
	}, {
		Name: "id-negative", What: "A request whose id is -1.", Source: idRule,
		send: "⟨-1⟩\n", serves: true,
	}, {
		Name: "id-empty", What: "A request whose id is the empty string.", Source: idRule,
		send: "⟨\"\"⟩\n", serves: true,
	}, {
		Name: "id-large", What: "A request whose id is 2^53-1.", Source: idRule + "; " + jsonRule + " §6",
		send: "⟨9007199254740991⟩\n", serves: true,
	}, {
		Name: "id-inexact", What: "A request whose id is 2^53+1, which a float64 does not hold.", Source: jsonRule + " §6",
		send: "⟨9007199254740993⟩\n",
	}, {
		Name: "line-separator", What: "A request with a raw U+2028 in a string.", Source: "claude-agent-sdk-typescript#137",
		send: "⟨2 \"a\u2028b\"⟩\n", serves: true,
	}, {
		Name: "bom-in-string", What: "A request with a raw U+FEFF in a string.", Source: "unity-mcp#1186",
		send: "⟨2 \"" + bom + "return\"⟩\n", serves: true,
	}, {
		Name: "bom-escape", What: "A request with an escaped U+FEFF in a string.", Source: "unity-mcp#1186",
		send: `⟨2 "\uFEFFreturn"⟩` + "\n", serves: true,
	}, {
		Name: "nul-escape", What: "A request with an escaped NUL in a string.", Source: jsonRule + " §7",
		send: `⟨2 "a\u0000b"⟩` + "\n", serves: true,
	}, {
		Name: "surrogate-escape", What: "A request with half a surrogate pair, escaped, in a string.", Source: jsonRule + " §8.2",
		send: `⟨2 "a\ud800b"⟩` + "\n",
	}, {
		Name: "name-escape", What: "A request whose member name method has an escape in it.", Source: jsonRule + " §7",
		send: "⟨2⟩\n", serves: true, encode: func(s string) string { return strings.Replace(s, `"method"`, `"meth\u006fd"`, 1) },
	}, {
		Name: "effect-eof", What: "A control message of effect's protocol, that here means nothing.", Source: effectReport,
		send: `{"jsonrpc":"2.0","method":"@effect/rpc/Eof"}` + "\n",
	}, {
		Name: "effect-eof-id", What: "A control message of effect's protocol, with an id.", Source: effectReport,
		send: `{"jsonrpc":"2.0","id":4,"method":"@effect/rpc/Eof"}` + "\n", ids: []string{"4"},
	}, {
		Name: "effect-ping", What: "Another control message of effect's protocol.", Source: effectReport,
		send: `{"jsonrpc":"2.0","method":"@effect/rpc/Ping"}` + "\n",
	},
}

// Lines that nobody needs to hear of.
var blankCases = []Case{
	{Name: "blank", What: "A blank line.", Source: effectReport, send: "\n"},
	{Name: "blank-between", What: "A blank line between two requests.", Source: "Graphify#227", send: "⟨2⟩\n\n⟨4⟩\n", serves: true},
	{Name: "spaces", What: "A line of spaces and tabs.", Source: stdioRule, send: "  \t \n"},
	{Name: "cr", What: "A line that is a CR.", Source: stdioRule, send: "\r\n"},
	{Name: "bom-alone", What: "A line that is a byte order mark.", Source: survivalRule, send: bom + "\n"},
}

// Lines that are no JSON text.
var syntaxCases = []Case{
	{Name: "not-json", What: "A line that is not JSON.", Source: effectReport + "; sem#168", send: "not json\n"},
	{
		Name: "not-json-then-request", What: "A line that is not JSON, and a request in the same write.", Source: "effect 4.1.0 loses the request",
		send: "not json\n⟨2⟩\n", serves: true,
	},
	{
		Name: "bad-object", What: "The beginning of an object, and a request.", Source: "go-sdk#1209; agent-lsp#14; goreleaser/mcp#54; stackql#701",
		send: "{bad\n⟨2⟩\n", serves: true,
	},
	{
		Name: "log-line", What: "A log line, as another program may print it.", Source: stdioRule,
		send: "2026/07/28 12:00:00 INFO listening\n",
	},
	{
		Name: "truncated", What: "A request that breaks off before the value of a member.", Source: "go-sdk v1.8.0 takes the next line for the value; servers#4206",
		send: `{"jsonrpc":"2.0","id":2,"method":` + "\n", ids: []string{"2"},
	},
	{Name: "extra-brace", What: "A request with one brace too many.", Source: "go-sdk#192", send: "⟨2⟩}\n"},
	{Name: "trailing-garbage", What: "A request with text after it.", Source: survivalRule, send: "⟨2⟩ garbage\n"},
	{Name: "two-objects", What: "Two requests on one line.", Source: survivalRule, send: "⟨2⟩⟨4⟩\n"},
	{Name: "two-objects-space", What: "Two requests on one line, a space between them.", Source: survivalRule, send: "⟨2⟩ ⟨4⟩\n"},
	{Name: "two-boms", What: "Two byte order marks before a request.", Source: survivalRule, send: bom + bom + "⟨2⟩\n"},
	{Name: "nul", What: "A line that is a NUL.", Source: survivalRule, send: "\x00\n"},
	{
		Name: "trailing-comma", What: "A request with a comma after its last member.", Source: survivalRule,
		send: `{"jsonrpc":"2.0","id":2,"method":"ping",}` + "\n", ids: []string{"2"},
	},
	{
		Name: "nan", What: "A request with a NaN.", Source: survivalRule,
		send: `{"jsonrpc":"2.0","id":2,"method":"ping","params":NaN}` + "\n", ids: []string{"2"},
	},
	{Name: "raw-tab", What: "A request with a raw tab in a string.", Source: jsonRule + " §7", send: "⟨2 \"a\tb\"⟩\n"},
	{Name: "bad-utf8", What: "Bytes that are not UTF-8, and a request.", Source: "python-sdk#2302; aprender#2393", send: "\xff\xfe\n⟨2⟩\n", serves: true},
	{Name: "bad-utf8-in-string", What: "A request with a byte that is not UTF-8 in a string.", Source: "aprender#2393; " + jsonRule + " §8.1", send: "⟨2 \"a\xffb\"⟩\n"},
}

// Framing that is not this one.
var framingCases = []Case{
	{
		Name: "content-length", What: "A request with the Language Server Protocol's header before it.", Source: "python-sdk#2546; Reasonix#7525",
		send: "Content-Length: 40\r\n\r\n⟨2⟩\n", serves: true,
	}, {
		Name: "content-length-body", What: "A request in the Language Server Protocol's framing, which has no newline after the body.", Source: "python-sdk#2546; Reasonix#7525",
		send: "Content-Length: 40\r\n\r\n⟨2⟩", swallows: true,
	}, {
		Name: "cr-only", What: "A request whose line ends in CR alone.", Source: "mcp-go v1.2.1 and trpc-mcp-go v0.0.20 lose the request",
		send: "⟨2⟩\r", swallows: true,
	}, {
		Name: "utf-16", What: "A request in UTF-16LE, its newline too.", Source: "MCP: messages are UTF-8",
		send: "⟨2⟩\n", swallows: true, encode: utf16LE,
	},
}

// Lines that are JSON, and no object.
var valueCases = []Case{
	{Name: "scalar", What: "A number.", Source: effectReport, send: "7\n"},
	{Name: "string", What: "A string.", Source: survivalRule, send: `"s"` + "\n"},
	{Name: "true", What: "The value true.", Source: survivalRule, send: "true\n"},
	{Name: "null-batch", What: "The value null.", Source: effectReport, send: "null\n"},
	{Name: "empty-array", What: "An empty array.", Source: "JSON-RPC 2.0 §6", send: "[]\n"},
	{Name: "array", What: "An array of a number.", Source: effectReport, send: "[1]\n"},
	{Name: "batch", What: "A batch of two requests.", Source: "MCP 2025-06-18 ended batches; paiml-mcp-agent-toolkit#648", send: "[⟨2⟩,⟨4⟩]\n"},
}

// Objects that are no valid message.
var envelopeCases = []Case{
	{Name: "empty-obj", What: "An empty object.", Source: effectReport, send: "{}\n"},
	{Name: "only-jsonrpc", What: "An object with neither method nor id.", Source: survivalRule, send: `{"jsonrpc":"2.0"}` + "\n"},
	{Name: "no-jsonrpc", What: "A request without jsonrpc.", Source: "typescript-sdk#2247", send: `{"id":99,"method":"tools/list","params":{}}` + "\n", ids: []string{"99"}},
	{Name: "jsonrpc-1.0", What: "A request of JSON-RPC 1.0.", Source: "ruby-sdk#400", send: `{"jsonrpc":"1.0","id":3,"method":"ping","params":{}}` + "\n", ids: []string{"3"}},
	{Name: "jsonrpc-number", What: "A request whose jsonrpc is a number.", Source: messageRule, send: `{"jsonrpc":2.0,"id":2,"method":"ping"}` + "\n", ids: []string{"2"}},
	{Name: "jsonrpc-capitals", What: "A request with JSONRPC in capitals.", Source: messageRule, send: `{"JSONRPC":"2.0","id":2,"method":"ping"}` + "\n", ids: []string{"2"}},
	{Name: "method-id", What: "A request whose method is a number.", Source: effectReport, send: `{"jsonrpc":"2.0","id":4,"method":5}` + "\n", ids: []string{"4"}},
	{Name: "method-batch", What: "A notification whose method is a number.", Source: effectReport, send: `{"jsonrpc":"2.0","method":1}` + "\n"},
	{Name: "method-twice", What: "A request with two methods.", Source: jsonRule + " §4", send: `{"jsonrpc":"2.0","id":2,"method":"x","method":"ping"}` + "\n", ids: []string{"2"}},
	{Name: "method-capital", What: "A request with Method in place of method.", Source: messageRule, send: `{"jsonrpc":"2.0","id":2,"Method":"ping"}` + "\n", ids: []string{"2"}},
	{Name: "method-two-cases", What: "A request with both method and Method.", Source: "GHSA-wvj2-96wp-fq3f", send: `{"jsonrpc":"2.0","id":1,"method":"a","Method":"b"}` + "\n", ids: []string{"1"}},
	{Name: "params-long-s", What: "A request with params twice, once spelled with a long s.", Source: "GHSA-wvj2-96wp-fq3f", send: `{"jsonrpc":"2.0","id":1,"method":"a","params":{},"param\u017f":{}}` + "\n", ids: []string{"1"}},
	{Name: "method-nul", What: "A request with method twice, once with a NUL behind it.", Source: "GHSA-q382-vc8q-7jhj", send: `{"jsonrpc":"2.0","id":1,"method":"a","method\u0000":"b"}` + "\n", ids: []string{"1"}},
	{Name: "id-null", What: "A request whose id is null.", Source: "python-sdk#2051", send: "⟨null⟩\n"},
	{Name: "id-fraction", What: "A request whose id is 1.5.", Source: "go-sdk v1.8.0 answers it as 1", send: "⟨1.5⟩\n"},
	{Name: "id-true", What: "A request whose id is true.", Source: idRule, send: "⟨true⟩\n"},
	{Name: "id-object", What: "A request whose id is an object.", Source: idRule, send: "⟨{}⟩\n"},
	{Name: "id-array", What: "A request whose id is an array.", Source: idRule, send: "⟨[1]⟩\n"},
	{Name: "id-exponent", What: "A request whose id is 1e400.", Source: survivalRule, send: "⟨1e400⟩\n"},
	{Name: "id-400-digits", What: "A request whose id has 400 digits.", Source: survivalRule, send: "⟨" + strings.Repeat("7", 400) + "⟩\n"},
	{Name: "id-twice", What: "A request with two ids.", Source: jsonRule + " §4", send: `{"jsonrpc":"2.0","id":2,"id":4,"method":"ping"}` + "\n", ids: []string{"2", "4"}},
}

// Responses to a request that nobody has made.
var responseCases = []Case{
	{Name: "response-unasked", What: "A result that nobody asked for.", Source: "JSON-RPC 2.0 §5", send: `{"jsonrpc":"2.0","id":2,"result":{}}` + "\n", ids: []string{"2"}},
	{Name: "error-id-null", What: "An error whose id is null.", Source: "JSON-RPC 2.0 §5; " + survivalRule, send: `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}` + "\n"},
	{Name: "error-string", What: "An error that is a string.", Source: survivalRule, send: `{"jsonrpc":"2.0","id":2,"error":"boom"}` + "\n", ids: []string{"2"}},
	{Name: "error-code-string", What: "An error whose code is a string.", Source: survivalRule, send: `{"jsonrpc":"2.0","id":2,"error":{"code":"E","message":"boom"}}` + "\n", ids: []string{"2"}},
	{Name: "error-code-fraction", What: "An error whose code is 1.5.", Source: survivalRule, send: `{"jsonrpc":"2.0","id":2,"error":{"code":1.5,"message":"boom"}}` + "\n", ids: []string{"2"}},
}

// Lines that are long, deep or many.
var sizeCases = []Case{
	{
		Name: "depth-256", What: "A request whose params nest 256 deep.", Source: "python-sdk#2751; memtrace-public#18",
		send: "⟨2 " + nested(256-2) + "⟩\n", serves: true,
	}, {
		Name: "depth-1000", What: "A request that nests 1000 deep.", Source: "python-sdk#2751; memtrace-public#18",
		send: "⟨2 " + nested(1000-3) + "⟩\n",
	}, {
		Name: "depth-1001", What: "A request that nests 1001 deep.", Source: "python-sdk#2751; " + survivalRule,
		send: "⟨2 " + nested(1001-3) + "⟩\n",
	}, {
		Name: "depth-100000", What: "A request that nests 100 000 deep.", Source: "python-sdk#2751; " + survivalRule,
		make: func() string { return "⟨2 " + nested(100_000-3) + "⟩\n" },
	}, {
		Name: "overcap", What: "A request of 17 MiB.", Source: effectReport + "; pmcp#82; codex#31805",
		make: func() string { return `⟨2 "` + strings.Repeat("a", 17*mib) + `"⟩` + "\n" },
	}, {
		Name: "overcap-text", What: "A line of 16 MiB and a byte, and a request.", Source: "pmcp#82; codex#31805; perseus#643",
		make: func() string { return strings.Repeat("a", 16*mib+1) + "\n⟨2⟩\n" }, serves: true,
	}, {
		Name: "endless-line", What: "64 MiB without a newline, which must not cost 48 MiB of memory.", Source: "perseus#643",
		send: `{"jsonrpc":"2.0","id":2,"method":"`, ids: []string{"2"}, measures: true, play: endure,
	}, {
		Name: "storm", What: "2000 bad lines from a client that writes them all before it reads.", Source: "rust-sdk#938",
		send: strings.Repeat("x\n", 2000), unread: true,
	}, {
		Name: "flood", What: "200 000 bad lines from a client that writes them all before it reads.", Source: "mcp-go v1.2.1 and jrpc2 v1.3.6 deadlock",
		make: func() string { return strings.Repeat("x\n", 200_000) }, unread: true,
	},
}

// What comes before the session's first message.
var firstCases = []Case{
	{Name: "bom-first", What: "A byte order mark before the session's first message.", Source: "rust-sdk#825; kotlin-sdk#956", before: bom, send: "⟨2⟩\n", serves: true},
	{Name: "blank-first", What: "A blank line before the session's first message.", Source: stdioRule, before: "\n", send: "⟨2⟩\n", serves: true},
	{Name: "not-json-first", What: "A line that is not JSON before the session's first message.", Source: "mcp-steroid#461", before: "not json\n", send: "⟨2⟩\n", serves: true},
}

// How a session ends.
var endCases = []Case{
	{
		Name: "eof-idle", What: "The end of input while nothing is asked.", Source: "MCP 2026-07-28: servers exit promptly at end of input; dotbot#646",
		play: finish,
	}, {
		Name: "eof-requests", What: "Twenty requests and the end of input behind them.", Source: "go-sdk#1061; python-sdk#2678; rust-sdk#753",
		send: twenty(), serves: true, play: finish,
	}, {
		Name: "eof-unterminated", What: "A last request without a newline, and the end of input.", Source: "go-sdk v1.8.0, mcp-go v1.2.1 and the TypeScript SDK 1.32 lose it",
		send: "⟨2⟩", serves: true, play: finish,
	}, {
		Name: "eof-gaps", What: "Lines with blank ones and spaces between them in one write, and the end of input.", Source: "MCP 2026-07-28: servers exit promptly at end of input; Graphify#227",
		send: `{"jsonrpc":"2.0","method":"notifications/guardtest"}` + "\n \r\n⟨3⟩\r\n\n  ⟨\"a\"⟩\n", serves: true, play: finish,
	}, {
		Name: "one-shot", What: "A whole session in one write, and the end of input, as a shell's printf has it.", Source: "go-sdk#1061; python-sdk#2678; rust-sdk#753; aprender#2393",
		send: "⟨2⟩\n", serves: true, oneShot: true, play: finish,
	}, {
		Name: "hang-up", What: "The client closes its end of the server's output, and goes on asking.", Source: "typescript-sdk#1564",
		play: hangUp,
	},
}

const mib = 1 << 20

// nested is an array that nests depth deep. Around it are _meta, params and the request.
func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

func utf16LE(s string) string {
	var b []byte
	for _, u := range utf16.Encode([]rune(s)) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return string(b)
}

func twenty() string {
	var b strings.Builder
	for id := range 20 {
		b.WriteString("⟨" + strconv.Itoa(2+id) + "⟩\n")
	}
	return b.String()
}
