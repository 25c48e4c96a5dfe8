package stdioguard_test

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"

	"github.com/stdioguard/stdioguard"
)

// A verdict is what becomes of one line.
type verdict struct {
	same    bool   // forwarded as it stands
	out     string // forwarded so
	err     error  // dropped for this reason; neither forwarded nor dropped is blank
	code    int
	id      string // what FrameError.ID holds
	answer  string
	hint    string // the word by which the hint is known
	tooLong bool   // counts as discarded
}

var (
	served = verdict{same: true}
	blank  = verdict{}

	syntax  = verdict{err: stdioguard.ErrSyntax, code: -32700, answer: parseError("null")}
	badUTF8 = verdict{err: stdioguard.ErrUTF8, code: -32700, answer: parseError("null")}
	tooDeep = verdict{err: stdioguard.ErrTooDeep, code: -32700, answer: parseError("null")}
	overCap = verdict{err: stdioguard.ErrTooLong, code: -32700, answer: parseError("null"), tooLong: true}
	batch   = verdict{err: stdioguard.ErrBatch, code: -32600, answer: invalidRequest("null")}

	// noMessage is answered with a null id, unanswered not at all.
	noMessage  = verdict{err: stdioguard.ErrNotMessage, code: -32600, answer: invalidRequest("null")}
	unanswered = verdict{err: stdioguard.ErrNotMessage, code: -32600}
)

func servedAs(line string) verdict { return verdict{out: line} }

// unansweredID is a response with an id: a report names it, no answer does.
func unansweredID(id string) verdict {
	v := unanswered
	v.id = id
	return v
}

// noMessageID is answered with the line's own id.
func noMessageID(id string) verdict {
	return verdict{err: stdioguard.ErrNotMessage, code: -32600, id: id, answer: invalidRequest(id)}
}

func (v verdict) recovered(id string) verdict {
	v.id, v.answer = id, parseError(id)
	return v
}

func (v verdict) hinting(word string) verdict {
	v.hint = word
	return v
}

func (v verdict) answered(line string) verdict {
	v.answer = line
	return v
}

func (v verdict) silent() verdict { return v.answered("") }

type lineRow struct {
	name, line string
	want       verdict
}

// A ruleSet is a table of single lines under the same options.
type ruleSet struct {
	name string
	conf drawn
	rows []lineRow
}

// nested is a value of n containers, the outermost counted.
func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// deep is a message of n containers.
func deep(n int) string { return `{"jsonrpc":"2.0","method":"m","params":` + nested(n-1) + `}` }

// quoted is a JSON string of n bytes, its quotes included.
func quoted(n int) string { return `"` + strings.Repeat("i", n-2) + `"` }

func digits(n int) string { return strings.Repeat("7", n) }

// withID is no message, for want of a method, and holds that id.
func withID(id string) string { return `{"jsonrpc":"2.0","id":` + id + `}` }

// request is one of which only the id may be wrong.
func request(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"m"}` }

// errorWith is an error response of which only the error may be wrong.
func errorWith(err string) string { return `{"jsonrpc":"2.0","id":1,"error":` + err + `}` }

// call is a request whose last members, text and all, are given.
func call(more string) string { return `{"jsonrpc":"2.0","id":1,"method":"m"` + more + `}` }

var wellFormed = []lineRow{
	{"a request", ping, served},
	{"a notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, served},
	{"a response with a result", `{"jsonrpc":"2.0","id":1,"result":{}}`, served},
	{"a response with an error", errorWith(`{"code":-32601,"message":"no"}`), served},
	{"members in any order", `{"method":"m","params":{},"id":"a","jsonrpc":"2.0"}`, served},
	{"whitespace within stays", "{ \"jsonrpc\" :\t\"2.0\" ,\r\"method\" : \"m\" }", served},
	{"whitespace around goes", " \t\r" + ping + " \t\r", servedAs(ping)},
	{"a byte order mark goes", bom + ping, servedAs(ping)},
	{"a byte order mark and whitespace go", bom + " \t" + ping + "\r", servedAs(ping)},
	{"other members are free", call(`,"_meta":{"a":1},"":0,"x":null,"ids":2,"i":3`), served},
	{"other members may stand twice", call(`,"x":1,"x":2`), served},
	{"below the top level names may stand twice", call(`,"params":{"id":1,"id":2,"method":3,"Method":4,"jsonrpc":5}`), served},
	{"U+FEFF within a string stays", call(`,"params":["` + bom + `"]`), served},
	{"U+FEFF as an escape stays", call(`,"params":["\uFEFF"]`), served},
	{"U+2028 within a string stays", call(`,"params":["` + "\u2028" + `"]`), served},
	{"a lone high surrogate stays", call(`,"params":["\ud800"]`), served},
	{"a lone low surrogate stays", call(`,"params":["\udc00x"]`), served},
	{"a lone surrogate in a name stays", call(`,"\udfff":"\ud800\ud800"`), served},
	{"DEL within a string stays", call(`,"params":["` + "\x7f" + `"]`), served},
	{"noncharacters and the last code point stay", call(`,"params":["` + "\ufffe\uffff\U0010ffff\ufffd" + `"]`), served},
	{"every escape stays", call(`,"params":["\"\\\/\b\f\n\r\t\u00e9\u00E9\u0000"]`), served},
	{"an escaped NUL within a string stays", call(`,"params":["\u0000"]`), served},
	{"numbers of every form stay", call(`,"params":[0,-0,1,-1,0.0,-0.10,1e5,1E+5,1.5e-300,1e400,` + digits(400) + `]`), served},
	{"params may be a string", call(`,"params":"x"`), served},
	{"params may be null", call(`,"params":null`), served},
	{"params may be a number", call(`,"params":1e400`), served},
	{"a method may be empty", `{"jsonrpc":"2.0","id":1,"method":""}`, served},
	{"names may be escaped", `{"\u006asonrpc":"2.0","\u0069d":1,"metho\u0064":"m"}`, served},
	{"the version may be escaped", `{"jsonrpc":"\u0032.0","id":1,"method":"m"}`, served},
	{"a response may have params", `{"jsonrpc":"2.0","id":1,"result":1,"params":2}`, served},
	{"a result may be null", `{"jsonrpc":"2.0","id":1,"result":null}`, served},
	{"a result may be a string", `{"jsonrpc":"2.0","id":"a","result":"x"}`, served},
}

var blankLines = []lineRow{
	{"nothing", "", blank},
	{"a space", " ", blank},
	{"space, tab, CR", " \t\r", blank},
	{"a byte order mark alone", bom, blank},
	{"a byte order mark and whitespace", bom + " \t\r", blank},
}

// notJSON is rule 4; the offsets of the faults are in scanRows.
var notJSON = []lineRow{
	{"words", "not json", syntax},
	{"an open brace and words", "{bad", syntax},
	{"a NUL", "\x00", syntax},
	{"a NUL after a message", ping + "\x00", syntax},
	{"a NUL within a string", call(`,"params":"` + "\x00" + `"`), syntax},
	{"a raw tab within a string", call(`,"params":"` + "\t" + `"`), syntax},
	{"a raw CR within a string", call(`,"params":"` + "\r" + `"`), syntax},
	{"a raw escape character within a string", call(`,"params":"` + "\x1b[0m" + `"`), syntax},
	{"a trailing comma in an object", call(","), syntax},
	{"a trailing comma in an array", call(`,"params":[1,]`), syntax},
	{"a comma too many", call(`,,"params":1`), syntax},
	{"a comma missing", call(`"params":1`), syntax},
	{"a colon missing", call(`,"params" 1`), syntax},
	{"a name without quotes", call(`,params:1`), syntax},
	{"single quotes", `{'jsonrpc':'2.0'}`, syntax},
	{"a comment", ping + " // ping", syntax},
	{"NaN", call(`,"params":NaN`), syntax},
	{"Infinity", call(`,"params":Infinity`), syntax},
	{"-Infinity", call(`,"params":-Infinity`), syntax},
	{"undefined", call(`,"params":undefined`), syntax},
	{"True", "True", syntax},
	{"half a literal", "tru", syntax},
	{"a literal too long", "nulls", syntax},
	{"a plus sign", "+1", syntax},
	{"a leading zero", request("01"), syntax},
	{"a negative leading zero", request("-01"), syntax},
	{"a sign alone", request("-"), syntax},
	{"a hexadecimal number", request("0x1"), syntax},
	{"a point without digits", request("1."), syntax},
	{"a point without a digit before it", request(".5"), syntax},
	{"an exponent without digits", request("1e"), syntax},
	{"an exponent with a sign alone", request("1e+"), syntax},
	{"an unknown escape", call(`,"params":"\x"`), syntax},
	{"an escape with too few digits", call(`,"params":"\u12"`), syntax},
	{"an escape with a wrong digit", call(`,"params":"\u12g4"`), syntax},
	{"an escape broken off", `"\`, syntax},
	{"a string broken off", `"abc`, syntax},
	{"a message broken off after a colon", `{"jsonrpc":"2.0","id":2,"method":`, syntax},
	{"a message broken off before its brace", ping[:len(ping)-1], syntax},
	{"a bracket closed by a brace", `[1}`, syntax},
	{"a brace closed by a bracket", `{"a":1]`, syntax},
	{"a closing brace too many", ping + "}", syntax},
	{"a closing brace alone", "}", syntax},
	{"two messages", ping + ping, syntax},
	{"two messages with a space between", ping + " " + ping, syntax},
	{"two messages with a comma between", ping + "," + ping, syntax},
	{"two scalars", "1 2", syntax},
	{"a message and garbage", ping + " garbage", syntax},
	{"garbage and a message", "garbage " + ping, syntax},
	{"two byte order marks", bom + bom + ping, syntax},
	{"a byte order mark after a space", " " + bom + ping, syntax},
	{"a byte order mark at the end", ping + bom, syntax},
	{"a byte order mark between members", `{` + bom + `"jsonrpc":"2.0","method":"m"}`, syntax},
	{"U+2028 between tokens", `{"jsonrpc":` + "\u2028" + `"2.0","method":"m"}`, syntax},
	{"U+00A0 after a message", ping + "\u00a0", syntax},
	{"a vertical tab alone", "\v", syntax},
	{"a form feed after a message", ping + "\f", syntax},
	{"a byte 0xFF alone", "\xff", syntax},
	{"invalid UTF-8 between tokens", `{"jsonrpc":"2.0",` + "\xff" + `"method":"m"}`, syntax},
	{"invalid UTF-8 after a message", ping + "\xc3", syntax},
	{"invalid UTF-8 in place of a value", call(`,"params":` + "\x80"), syntax},
	{"invalid UTF-8 after a syntax fault", `{"jsonrpc":"2.0","method":m,"params":"` + "\xff" + `"}`, syntax},
}

var notUTF8 = []lineRow{
	{"0xFF in a string", call(`,"params":"` + "\xff" + `"`), badUTF8},
	{"0xFF in a name", call(`,"` + "\xff" + `":1`), badUTF8},
	{"0xFF in the id", request(`"` + "\xff" + `"`), badUTF8},
	{"0xFF in the method's name", `{"jsonrpc":"2.0","id":1,"metho` + "\xff" + `d":"m"}`, badUTF8},
	{"Latin-1 in a string", call(`,"params":"caf` + "\xe9" + `"`), badUTF8},
	{"a continuation byte alone", call(`,"params":"` + "\x80" + `"`), badUTF8},
	{"a rune of two bytes cut short", call(`,"params":"` + "\xc3" + `"`), badUTF8},
	{"a rune of three bytes cut short", call(`,"params":"` + "\xe2\x82" + `"`), badUTF8},
	{"a rune of four bytes cut short", call(`,"params":"` + "\xf0\x9f\x98" + `"`), badUTF8},
	{"a rune cut short by the line's end", `"` + "\xe2\x82", badUTF8},
	{"an overlong slash", call(`,"params":"` + "\xc0\xaf" + `"`), badUTF8},
	{"an overlong NUL", call(`,"params":"` + "\xc0\x80" + `"`), badUTF8},
	{"an overlong rune of three bytes", call(`,"params":"` + "\xe0\x80\xaf" + `"`), badUTF8},
	{"a surrogate in UTF-8", call(`,"params":"` + "\xed\xa0\x80" + `"`), badUTF8},
	{"a surrogate pair in UTF-8", call(`,"params":"` + "\xed\xa0\xbd\xed\xb8\x80" + `"`), badUTF8},
	{"a code point past the last", call(`,"params":"` + "\xf4\x90\x80\x80" + `"`), badUTF8},
	{"a rune of five bytes", call(`,"params":"` + "\xf8\x88\x80\x80\x80" + `"`), badUTF8},
	{"invalid UTF-8 before a syntax fault", `{"jsonrpc":"2.0","method":"` + "\xff" + `",}`, badUTF8},
	{"invalid UTF-8 in an array", `["` + "\xff" + `"]`, badUTF8},
}

var nesting = []lineRow{
	{"1000 containers", deep(1000), served},
	{"1001 containers", deep(1001), tooDeep},
	{"1001 containers, side by side too", call(`,"params":[` + nested(998) + "," + nested(998) + `]`), served},
	{"1000 objects", `{"jsonrpc":"2.0","method":"m","params":` + strings.Repeat(`{"a":`, 999) + "1" + strings.Repeat("}", 1000), served},
	{"1001 objects", `{"jsonrpc":"2.0","method":"m","params":` + strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1001), tooDeep},
	{"a thousand brackets in a string", call(`,"params":["` + strings.Repeat("[", 2000) + `"]`), served},
	{"100 000 open brackets", strings.Repeat("[", 100_000), tooDeep},
	{"1000 open brackets", strings.Repeat("[", 1000), syntax},
	{"an array of 1001, where depth comes before the batch", nested(1001), tooDeep},
	{"an array of 1000", nested(1000), batch},
	{"a syntax fault before the depth", `{"a":x,"b":` + nested(1001) + `}`, syntax},
	{"a syntax fault after the depth", `{"a":` + nested(1001) + `,"b":x}`, tooDeep},
	{"invalid UTF-8 before the depth", `{"a":"` + "\xff" + `","b":` + nested(1001) + `}`, badUTF8},
	{"invalid UTF-8 after the depth", `{"a":` + nested(1001) + `,"b":"` + "\xff" + `"}`, tooDeep},
}

var shallowNesting = []lineRow{
	{"scalars have no depth", `1`, noMessage},
	{"a flat message", ping, served},
	{"an object in it", call(`,"params":{}`), tooDeep},
	{"an array in it", call(`,"params":[]`), tooDeep},
	{"a flat batch", `[]`, batch},
	{"a batch of messages", `[` + ping + `]`, tooDeep},
	{"a bracket where none may stand", `{[`, syntax},
	{"a bracket after the text", `{}[`, syntax},
}

var arrays = []lineRow{
	{"an empty array", `[]`, batch},
	{"an array with a number", `[1]`, batch},
	{"two requests", `[` + ping + `,` + ping + `]`, batch},
	{"two responses", `[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"result":{}}]`, batch},
	{"an array in whitespace", bom + " [1] \r", batch},
}

var notMessages = []lineRow{
	{"a number", `7`, noMessage},
	{"a number of 400 digits", digits(400), noMessage},
	{"a string", `"s"`, noMessage},
	{"true", `true`, noMessage},
	{"false", `false`, noMessage},
	{"null", `null`, noMessage},
	{"null in whitespace", bom + " null\r", noMessage},
	{"an empty object", `{}`, noMessage},
	{"a log record", `{"level":"info","msg":"x"}`, noMessage},

	{"no jsonrpc", `{"id":4,"method":"m"}`, noMessageID("4")},
	{"no jsonrpc, no id", `{"method":"m"}`, noMessage},
	{"jsonrpc 1.0", `{"jsonrpc":"1.0","id":4,"method":"m"}`, noMessageID("4")},
	{"jsonrpc as a number", `{"jsonrpc":2.0,"id":4,"method":"m"}`, noMessageID("4")},
	{"jsonrpc 2", `{"jsonrpc":"2","id":4,"method":"m"}`, noMessageID("4")},
	{"jsonrpc with a space", `{"jsonrpc":"2.0 ","id":4,"method":"m"}`, noMessageID("4")},
	{"jsonrpc null", `{"jsonrpc":null,"id":4,"method":"m"}`, noMessageID("4")},
	{"jsonrpc in an array", `{"jsonrpc":["2.0"],"id":4,"method":"m"}`, noMessageID("4")},
	{"JSONRPC", `{"JSONRPC":"2.0","id":4,"method":"m"}`, noMessageID("4")},
	{"jsonrpc twice", `{"jsonrpc":"2.0","id":4,"method":"m","jsonrpc":"2.0"}`, noMessageID("4")},

	{"a method that is a number", `{"jsonrpc":"2.0","id":4,"method":5}`, noMessageID("4")},
	{"a method that is null", `{"jsonrpc":"2.0","id":4,"method":null}`, noMessageID("4")},
	{"a method that is an object", `{"jsonrpc":"2.0","id":4,"method":{}}`, noMessageID("4")},
	{"a method that is a number, no id", `{"jsonrpc":"2.0","method":5}`, noMessage},
	{"neither method nor result nor error", `{"jsonrpc":"2.0","id":4}`, noMessageID("4")},
	{"neither method nor id", `{"jsonrpc":"2.0"}`, noMessage},
	{"a method and a result", `{"jsonrpc":"2.0","id":4,"method":"m","result":1}`, noMessageID("4")},
	{"a method and an error", `{"jsonrpc":"2.0","id":4,"method":"m","error":{"code":1,"message":""}}`, noMessageID("4")},
	{"a method and a null result", `{"jsonrpc":"2.0","id":4,"method":"m","result":null}`, noMessageID("4")},
	{"a method that is no string and a result", `{"jsonrpc":"2.0","id":4,"method":5,"result":1}`, noMessageID("4")},

	{"method twice", `{"jsonrpc":"2.0","id":4,"method":"m","method":"m"}`, noMessageID("4")},
	{"params twice", call(`,"params":1,"params":1`), noMessageID("1")},
	{"params twice, once escaped", call(`,"params":1,"par\u0061ms":1`), noMessageID("1")},
	{"Method alone", `{"jsonrpc":"2.0","id":4,"Method":"m"}`, noMessageID("4")},
	{"Method beside method", call(`,"Method":"b"`), noMessageID("1")},
	{"METHOD, escaped", call(`,"\u004dETHOD":"b"`), noMessageID("1")},
	{"Params alone", call(`,"Params":1`), noMessageID("1")},
	{"params with a long s", call(`,"param` + "\u017f" + `":1`), noMessageID("1")},
	{"params with a long s, escaped", call(`,"param\u017f":1`), noMessageID("1")},
	{"jsonrpc with a long s", call(`,"j` + "\u017f" + `onrpc":1`), noMessageID("1")},
	{"Result beside a method", call(`,"Result":1`), noMessageID("1")},
	{"error with a NUL beside a method", call(`,"error\u0000":1`), noMessageID("1")},
	{"method with a NUL", call(`,"method\u0000":"b"`), noMessageID("1")},
	{"method with a NUL and more", call(`,"method\u0000x\u0000":"b"`), noMessageID("1")},
	{"Method with a NUL", call(`,"Method\u0000":"b"`), noMessageID("1")},
	{"method with a NUL before it", call(`,"\u0000method":"b"`), served},
	{"method with a space after it", call(`,"method ":"b"`), served},
	{"a Kelvin sign is no letter of these names", call(`,"` + "\u212a" + `":1`), served},
	{"a dotless i is no i", call(`,"` + "\u0131" + `d":1`), served},
	{"a capital I with a dot is no i", call(`,"` + "\u0130" + `d":1`), served},
	{"methods is another name", call(`,"methods":1`), served},
	{"metho is another name", call(`,"metho":1`), served},
}

var idRule = []lineRow{
	{"an id of 0 is one", request(`0`), served},
	{"an id of -0 is one", request(`-0`), served},
	{"an id of -1 is one", request(`-1`), served},
	{"an empty id is one", request(`""`), served},
	{"an id of 2^53+1 is one", request(`9007199254740993`), served},
	{"the largest int64 is an id", request(`9223372036854775807`), served},
	{"one more is none", request(`9223372036854775808`), noMessageID(`9223372036854775808`)},
	{"the smallest int64 is an id", request(`-9223372036854775808`), served},
	{"one less is none", request(`-9223372036854775809`), noMessageID(`-9223372036854775809`)},
	{"twenty digits are no id", request(`10000000000000000000`), noMessageID(`10000000000000000000`)},
	{"2^64 is no id", request(`18446744073709551616`), noMessageID(`18446744073709551616`)},
	{"a request's string id has no limit", request(quoted(5000)), served},
	{"1.5 is no id", request(`1.5`), noMessageID(`1.5`)},
	{"1.0 is no id", request(`1.0`), noMessageID(`1.0`)},
	{"-0.0 is no id", request(`-0.0`), noMessageID(`-0.0`)},
	{"1e2 is no id", request(`1e2`), noMessageID(`1e2`)},
	{"1E2 is no id", request(`1E2`), noMessageID(`1E2`)},
	{"1e400 is no id", request(`1e400`), noMessageID(`1e400`)},
	{"400 digits are no id", request(digits(400)), noMessageID(digits(400))},
	{"null is no id", request(`null`), noMessage},
	{"true is no id", request(`true`), noMessage},
	{"an object is no id", request(`{}`), noMessage},
	{"an object that holds an id is no id", request(`{"id":1}`), noMessage},
	{"an array is no id", request(`[1]`), noMessage},

	{"a string is echoed as it stands", withID(`"a\u0062\/é\ud800 "`), noMessageID(`"a\u0062\/é\ud800 "`)},
	{"an empty string is echoed", withID(`""`), noMessageID(`""`)},
	{"a string that looks like a number is echoed as a string", withID(`"1"`), noMessageID(`"1"`)},
	{"-0 is echoed as it stands", withID(`-0`), noMessageID(`-0`)},
	{"1.50e+01 is echoed as it stands", withID(`1.50e+01`), noMessageID(`1.50e+01`)},
	{"without the whitespace around it", withID(" \t7\r "), noMessageID(`7`)},
	{"the last member too", `{"id":"z"}`, noMessageID(`"z"`)},
	{"a string of 1024 bytes, quotes included, is echoed", withID(quoted(1024)), noMessageID(quoted(1024))},
	{"a string of 1025 bytes is not", withID(quoted(1025)), noMessage},
	{"a string of 1024 bytes that decodes to fewer is echoed", withID(`"` + strings.Repeat(`\u0061`, 170) + `aa"`), noMessageID(`"` + strings.Repeat(`\u0061`, 170) + `aa"`)},
	{"a number of 1024 digits is echoed", withID(digits(1024)), noMessageID(digits(1024))},
	{"a number of 1025 digits is not", withID(digits(1025)), noMessage},
	{"an escaped name is the name", `{"\u0069d":5}`, noMessageID(`5`)},
	{"an id twice is none", `{"id":1,"id":1}`, noMessage},
	{"an id twice, once escaped, is none", `{"id":1,"\u0069d":2}`, noMessage},
	{"an id beside a null id is none", `{"id":null,"id":2}`, noMessage},
	{"an Id beside it makes it none", `{"id":1,"Id":2}`, noMessage},
	{"an ID before it makes it none", `{"ID":null,"id":2}`, noMessage},
	{"an id with a NUL beside it makes it none", `{"id":1,"id\u0000":2}`, noMessage},
	{"an ID with a NUL and more beside it makes it none", `{"id":1,"ID\u0000x":2}`, noMessage},
	{"an ID alone is none", `{"ID":1}`, noMessage},
	{"an id below the top level is none", `{"a":{"id":1}}`, noMessage},
	{"an id below the top level is not in its way", `{"a":{"id":1,"Id":2},"id":3}`, noMessageID("3")},
	{"other names twice are not in its way", `{"a":1,"a":2,"method":1,"method":2,"id":3}`, noMessageID("3")},
	{"two ids of a request", `{"jsonrpc":"2.0","id":1,"id":1,"method":"m"}`, noMessage},
	{"an Id beside the id of a request", `{"jsonrpc":"2.0","id":1,"Id":1,"method":"m"}`, noMessage},
	{"an Id in place of a request's id", `{"jsonrpc":"2.0","Id":1,"method":"m"}`, noMessage},
}

var responses = []lineRow{
	{"a null id in a result", `{"jsonrpc":"2.0","id":null,"result":{}}`, unanswered},
	{"a null id in an error", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`, unanswered},
	{"no id in a result", `{"jsonrpc":"2.0","result":{}}`, unanswered},
	{"no id in an error", `{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}`, unanswered},
	{"an id of 1.5", `{"jsonrpc":"2.0","id":1.5,"result":{}}`, unansweredID("1.5")},
	{"an id past int64", `{"jsonrpc":"2.0","id":9223372036854775808,"result":{}}`, unansweredID("9223372036854775808")},
	{"an object as id", `{"jsonrpc":"2.0","id":{},"result":{}}`, unanswered},
	{"two ids", `{"jsonrpc":"2.0","id":1,"id":1,"result":{}}`, unanswered},
	{"an Id beside the id", `{"jsonrpc":"2.0","id":1,"Id":1,"result":{}}`, unanswered},
	{"a result and an error", `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}`, unansweredID("1")},
	{"a result and a null error", `{"jsonrpc":"2.0","id":1,"result":{},"error":null}`, unansweredID("1")},
	{"a result twice", `{"jsonrpc":"2.0","id":1,"result":1,"result":1}`, unansweredID("1")},
	{"an error twice", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""},"error":{"code":1,"message":""}}`, unansweredID("1")},
	{"a Result alone", `{"jsonrpc":"2.0","id":1,"Result":{}}`, unansweredID("1")},
	{"a re\u017fult alone", `{"jsonrpc":"2.0","id":1,"re` + "\u017f" + `ult":{}}`, unansweredID("1")},
	{"an ERROR alone", `{"jsonrpc":"2.0","id":1,"ERROR":{"code":1,"message":""}}`, unansweredID("1")},
	{"a result with a NUL", `{"jsonrpc":"2.0","id":1,"result\u0000":1}`, unansweredID("1")},
	{"a Result beside the result", `{"jsonrpc":"2.0","id":1,"result":1,"Result":1}`, unansweredID("1")},
	{"an Error beside the result", `{"jsonrpc":"2.0","id":1,"result":1,"Error":1}`, unansweredID("1")},
	{"no jsonrpc", `{"id":1,"result":{}}`, unansweredID("1")},
	{"jsonrpc 1.0", `{"jsonrpc":"1.0","id":1,"result":{},"error":null}`, unansweredID("1")},
	{"a result alone", `{"result":null}`, unanswered},
	{"two params", `{"jsonrpc":"2.0","id":1,"result":1,"params":1,"params":1}`, unansweredID("1")},
	{"a Method beside the result has not the shape of one", `{"jsonrpc":"2.0","id":1,"result":1,"Method":"m"}`, noMessageID("1")},
	{"a method with a NUL beside the result has not the shape of one", `{"jsonrpc":"2.0","id":1,"result":1,"method\u0000":"m"}`, noMessageID("1")},
	{"a result below the top level has not the shape of one", `{"jsonrpc":"2.0","id":1,"a":{"result":1}}`, noMessageID("1")},
	{"a method below the top level is none", `{"jsonrpc":"2.0","id":1,"result":{"method":"m","Method":1}}`, served},

	{"an error may have data", errorWith(`{"code":-1,"message":"m","data":{"code":"x","code":1}}`), served},
	{"an error's members may stand in any order", errorWith(`{ "data":1 , "message" : "" , "code" : 0 }`), served},
	{"an error's names may be escaped", errorWith(`{"c\u006fde":1,"m\u0065ssage":"m"}`), served},
	{"an error's other members are free", errorWith(`{"code":1,"message":"m","x":1,"x":2,"Codes":3}`), served},
	{"a code may be -0", errorWith(`{"code":-0,"message":"m"}`), served},
	{"a code may be the largest int64", errorWith(`{"code":9223372036854775807,"message":"m"}`), served},
	{"a code past int64", errorWith(`{"code":9223372036854775808,"message":"m"}`), unansweredID("1")},
	{"a code of 400 digits", errorWith(`{"code":` + digits(400) + `,"message":"m"}`), unansweredID("1")},
	{"an error that is a string", errorWith(`"failed"`), unansweredID("1")},
	{"an error that is null", errorWith(`null`), unansweredID("1")},
	{"an error that is a number", errorWith(`-32600`), unansweredID("1")},
	{"an error that is an array", errorWith(`[{"code":1,"message":""}]`), unansweredID("1")},
	{"an empty error", errorWith(`{}`), unansweredID("1")},
	{"a code that is a string", errorWith(`{"code":"1","message":"m"}`), unansweredID("1")},
	{"a code of 1.5", errorWith(`{"code":1.5,"message":"m"}`), unansweredID("1")},
	{"a code of 1.0", errorWith(`{"code":1.0,"message":"m"}`), unansweredID("1")},
	{"a code of 1e2", errorWith(`{"code":1e2,"message":"m"}`), unansweredID("1")},
	{"a code that is null", errorWith(`{"code":null,"message":"m"}`), unansweredID("1")},
	{"no code", errorWith(`{"message":"m"}`), unansweredID("1")},
	{"no message", errorWith(`{"code":1}`), unansweredID("1")},
	{"a message that is a number", errorWith(`{"code":1,"message":1}`), unansweredID("1")},
	{"a message that is null", errorWith(`{"code":1,"message":null}`), unansweredID("1")},
	{"a code twice", errorWith(`{"code":1,"code":1,"message":"m"}`), unansweredID("1")},
	{"a message twice", errorWith(`{"code":1,"message":"m","message":"m"}`), unansweredID("1")},
	{"a Code beside the code", errorWith(`{"code":1,"message":"m","Code":1}`), unansweredID("1")},
	{"a Code in place of the code", errorWith(`{"Code":1,"message":"m"}`), unansweredID("1")},
	{"a me\u017f\u017fage beside the message", errorWith(`{"code":1,"message":"m","me\u017f\u017fage":1}`), unansweredID("1")},
	{"a code with a NUL beside the code", errorWith(`{"code":1,"message":"m","code\u0000":1}`), unansweredID("1")},
	{"a code one level down only", errorWith(`{"data":{"code":1},"message":"m"}`), unansweredID("1")},
}

var anyJSON = []lineRow{
	{"a batch", `[` + ping + `,` + ping + `]`, served},
	{"a batch in whitespace", bom + " [1] \r", servedAs("[1]")},
	{"an empty array", `[]`, served},
	{"a number", `7`, served},
	{"a number of 400 digits", digits(400), served},
	{"null", `null`, served},
	{"an empty object", `{}`, served},
	{"another version", `{"jsonrpc":"1.0","id":3,"method":"ping"}`, served},
	{"an id of 1.5", request(`1.5`), served},
	{"method twice", call(`,"method":"m"`), served},
	{"Method", call(`,"Method":"m"`), served},
	{"a broken response", errorWith(`null`), served},
	{"a blank line is still none", " \t\r", blank},
	{"what is not JSON is still answered", `{bad`, syntax},
	{"two values are still answered", `1 2`, syntax},
	{"invalid UTF-8 is still answered", `"` + "\xff" + `"`, badUTF8},
	{"depth is still answered", nested(1001), tooDeep},
}

// recoveredIDs is WithRecoveredIDs for lines that are short enough.
var recoveredIDs = []lineRow{
	{"invalid UTF-8 after id and method", call(`,"params":"` + "\xff" + `"`), badUTF8.recovered("1")},
	{"invalid UTF-8 in a name after them", call(`,"` + "\xff" + `":1`), badUTF8.recovered("1")},
	{"invalid UTF-8 after a method and a string id", `{"method":"m","id":"\u0061","params":["` + "\xff" + `"]}`, badUTF8.recovered(`"\u0061"`)},
	{"an id is echoed as it stands", `{"method":"m","id":1.50,"x":"` + "\xff" + `"}`, badUTF8.recovered(`1.50`)},
	{"whitespace before the comma is nothing", `{"method":"m","id":7 ` + "\t\r" + ` ,"x":"` + "\xff" + `"}`, badUTF8.recovered(`7`)},
	{"names may be escaped", `{"\u006dethod":"m","\u0069d":1,"x":"` + "\xff" + `"}`, badUTF8.recovered("1")},
	{"jsonrpc is not needed", `{"id":1,"method":"m","params":"` + "\xff" + `"}`, badUTF8.recovered("1")},
	{"a method of another kind is one", `{"id":1,"method":5,"params":"` + "\xff" + `"}`, badUTF8.recovered("1")},
	{"a result beside the method is nothing", `{"id":1,"method":"m","result":1,"x":"` + "\xff" + `"}`, badUTF8.recovered("1")},
	{"an id of 1024 bytes", `{"method":"m","id":` + quoted(1024) + `,"x":"` + "\xff" + `"}`, badUTF8.recovered(quoted(1024))},
	{"an id of 1025 bytes", `{"method":"m","id":` + quoted(1025) + `,"x":"` + "\xff" + `"}`, badUTF8},
	{"too deep after id and method", call(`,"params":` + nested(1000)), tooDeep.recovered("1")},
	{"too deep, and no more of it", `{"id":1,"method":"m","a":` + strings.Repeat("[", 1000), tooDeep.recovered("1")},
	{"no method", `{"id":1,"x":"` + "\xff" + `"}`, badUTF8},
	{"a response", `{"jsonrpc":"2.0","id":1,"result":"` + "\xff" + `"}`, badUTF8},
	{"a Method is none", `{"id":1,"Method":"m","x":"` + "\xff" + `"}`, badUTF8},
	{"a method below the top level is none", `{"id":1,"a":{"method":"m"},"x":"` + "\xff" + `"}`, badUTF8},
	{"an id below the top level is none", `{"a":{"id":1},"method":"m","x":"` + "\xff" + `"}`, badUTF8},
	{"no id", `{"method":"m","x":"` + "\xff" + `"}`, badUTF8},
	{"a null id", `{"method":"m","id":null,"x":"` + "\xff" + `"}`, badUTF8},
	{"an object as id", `{"method":"m","id":{"id":1},"x":"` + "\xff" + `"}`, badUTF8},
	{"two ids", `{"id":1,"id":1,"method":"m","x":"` + "\xff" + `"}`, badUTF8},
	{"an ID beside the id", `{"id":1,"ID":1,"method":"m","x":"` + "\xff" + `"}`, badUTF8},
	{"a second id behind the fault is not looked at", `{"id":1,"method":"m","x":"` + "\xff" + `","id":2}`, badUTF8.recovered("1")},
	{"a method behind the fault is not looked at", `{"id":1,"x":"` + "\xff" + `","method":"m"}`, badUTF8},
	{"an id behind the fault is not looked at", `{"method":"m","x":"` + "\xff" + `","id":1}`, badUTF8},
	{"a fault in the method", `{"id":1,"method":"` + "\xff" + `"}`, badUTF8},
	{"a fault in the id", `{"method":"m","id":"` + "\xff" + `"}`, badUTF8},
	{"a fault in an array", `[{"id":1,"method":"m"},"` + "\xff" + `"]`, badUTF8},
	{"a fault of syntax says nothing", `{"id":1,"method":"m",}`, syntax},
	{"a line broken off says nothing", `{"id":1,"method":"m","params":`, syntax},
	{"invalid UTF-8 outside a string says nothing", `{"id":1,"method":"m",` + "\xff" + `}`, syntax},
	{"a whole line is answered as ever", `{"id":1,"method":"m"}`, noMessageID("1")},
	{"a response is unanswered as ever", `{"id":1,"result":1}`, unansweredID("1")},
	{"a message is served as ever", ping, served},
}

const (
	omittedParse   = `{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}` + "\n"
	omittedInvalid = `{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"}}` + "\n"
)

var answerOmit = []lineRow{
	{"not JSON", `{bad`, syntax.answered(omittedParse)},
	{"not UTF-8", `"` + "\xff" + `"`, badUTF8.answered(omittedParse)},
	{"too deep", nested(1001), tooDeep.answered(omittedParse)},
	{"a batch", `[]`, batch.answered(omittedInvalid)},
	{"no message", `7`, noMessage.answered(omittedInvalid)},
	{"a null id", request("null"), noMessage.answered(omittedInvalid)},
	{"an id that is none", request("{}"), noMessage.answered(omittedInvalid)},
	{"an id too long to echo", withID(quoted(1025)), noMessage.answered(omittedInvalid)},
	{"a known id", withID("7"), noMessageID("7")},
	{"a response", errorWith("null"), unansweredID("1")},
	{"a message", ping, served},
}

var answerNone = []lineRow{
	{"not JSON", `{bad`, syntax.silent()},
	{"not UTF-8", `"` + "\xff" + `"`, badUTF8.silent()},
	{"too deep", nested(1001), tooDeep.silent()},
	{"a batch", `[]`, batch.silent()},
	{"no message", `7`, noMessage.silent()},
	{"a null id", request("null"), noMessage.silent()},
	{"a known id", withID("7"), noMessageID("7")},
	{"a response", errorWith("null"), unansweredID("1")},
	{"a message", ping, served},
}

var answerNoneRecovered = []lineRow{
	{"a recovered id", call(`,"params":"` + "\xff" + `"`), badUTF8.recovered("1")},
	{"no id to recover", `{"method":"m","params":"` + "\xff" + `"}`, badUTF8.silent()},
	{"not JSON", `{"id":1,"method":"m",}`, syntax.silent()},
}

var hints = []lineRow{
	{"UTF-16, little end first", "\xff\xfe{\x00\"\x00j\x00", syntax.hinting("UTF-16")},
	{"UTF-16, big end first", "\xfe\xff\x00{\x00\"\x00j", syntax.hinting("UTF-16")},
	{"UTF-16, little end first, no mark", "{\x00\"\x00j\x00s\x00", syntax.hinting("UTF-16")},
	{"UTF-16, big end first, no mark", "\x00{\x00\"\x00j\x00s", syntax.hinting("UTF-16")},
	{"LSP's framing", "Content-Length: 40\r", syntax.hinting("language server protocol")},
	{"LSP's framing in lower case", "content-length: 40", syntax.hinting("language server protocol")},
	{"an object's first line", "{", syntax.hinting("several lines")},
	{"an object's line in between", `  "jsonrpc": "2.0",`, syntax.hinting("several lines")},
	{"an object's last line", "}", syntax.hinting("several lines")},
	{"CR-only line ends", ping + "\r" + ping + "\r", syntax.hinting("CR")},
	{"a log line", "2026-01-02T03:04:05Z INFO server started", syntax.hinting("log")},
	{"a log line with its level in brackets", "[INFO] server started", syntax.hinting("log")},
	{"a log record", `{"level":"info","msg":"x"}`, noMessage.hinting("log")},
}

var ruleSets = []ruleSet{
	{name: "well-formed messages", rows: wellFormed},
	{name: "blank lines", rows: blankLines},
	{name: "not JSON", rows: notJSON},
	{name: "not UTF-8", rows: notUTF8},
	{name: "nesting", rows: nesting},
	{
		name: "nesting at a depth of 1", rows: shallowNesting,
		conf: drawn{limits: stdioguard.Limits{Depth: 1}},
	},
	{
		name: "nesting at the deepest limit",
		conf: drawn{limits: stdioguard.Limits{Depth: 10_000}},
		rows: []lineRow{
			{"10 000 containers", deep(10_000), served},
			{"10 001 containers", deep(10_001), tooDeep},
		},
	},
	{name: "batches", rows: arrays},
	{name: "no messages", rows: notMessages},
	{name: "ids", rows: idRule},
	{name: "responses", rows: responses},
	{name: "hints", rows: hints},
	{
		name: "WithAnyJSON", rows: anyJSON,
		conf: drawn{anyJSON: true},
	},
	{
		name: "WithRecoveredIDs", rows: recoveredIDs,
		conf: drawn{recovered: true},
	},
	{
		name: "AnswerNull", rows: notMessages,
		conf: drawn{answers: stdioguard.AnswerNull},
	},
	{
		name: "AnswerOmit", rows: answerOmit,
		conf: drawn{answers: stdioguard.AnswerOmit},
	},
	{
		name: "AnswerNone", rows: answerNone,
		conf: drawn{answers: stdioguard.AnswerNone},
	},
	{
		name: "AnswerNone, with ids recovered", rows: answerNoneRecovered,
		conf: drawn{answers: stdioguard.AnswerNone, recovered: true},
	},
}

// stream is the input that head, the row's line and tail make, and its outcome.
func (row lineRow) stream(conf drawn, head, tail string) stream {
	s := stream{conf: conf, in: head + row.line + tail, out: head, answers: row.want.answer}
	v := row.want
	switch {
	case v.err != nil:
		number := int64(strings.Count(head, "\n")) + 1
		s.faults = []fault{{number, int64(len(head)), int64(len(row.line)), v.code, v.id, v.answer != "", v.err}}
	case v.same:
		s.out += row.line + "\n"
	case v.out != "":
		s.out += v.out + "\n"
	case len(row.line+tail) > 0:
		s.blank = 1
	}
	if v.tooLong {
		s.discarded = int64(len(row.line))
	}
	s.out += strings.TrimPrefix(tail, "\n")
	return s
}

// Every line stands between two good ones, which must get through whatever it
// is, and once more as the whole of an input that lacks its newline.
func TestEveryKindOfLine(t *testing.T) {
	for _, set := range ruleSets {
		t.Run(set.name, func(t *testing.T) {
			for _, row := range set.rows {
				t.Run(row.name, func(t *testing.T) {
					between := row.stream(set.conf, ping+"\n", "\n"+ping+"\n")
					alone := row.stream(set.conf, "", "")
					for _, s := range []stream{between, alone} {
						inEveryShape(t, s.in, func(t *testing.T, r io.Reader) {
							got := drain(t, r, s.conf)
							s.check(t, got)
							row.checkHint(t, got)
						})
					}
				})
			}
		})
	}
}

func (row lineRow) checkHint(t *testing.T, got outcome) {
	t.Helper()
	if row.want.hint == "" {
		return
	}
	if assert.Len(t, got.hints, 1) {
		assert.Contains(t, strings.ToLower(got.hints[0]), strings.ToLower(row.want.hint))
	}
}

// A hint is for causes that are well known, not for every line.
func TestNoHintIsGivenAtRandom(t *testing.T) {
	lines := []string{
		call(`,"params":NaN`), call(","), ping + "}", request("01"), call(`,"params":"` + "\xff" + `"`),
		`7`, `[]`, `{}`, request("1.5"), errorWith("null"), deep(1001), "\x00", "{bad", ping + " garbage", "1 2",
	}
	for _, line := range lines {
		got := drain(t, strings.NewReader(line+"\n"), drawn{})
		assert.Equal(t, []string{""}, got.hints, "%.80q", line)
	}
}

// cutRows are lines over the limit; § marks where the limit lies. The byte
// after it is the first that is not looked at.
var cutRows = []struct {
	name, line, id string
}{
	{"id and method before it", `{"jsonrpc":"2.0","id":7,"method":"m","params":"aaa§aaaa"}`, "7"},
	{"the comma after the last of them is its last byte", `{"jsonrpc":"2.0","id":7,"method":"m",§"params":"a"}`, "7"},
	{"the comma after the last of them is one byte late", `{"jsonrpc":"2.0","id":7,"method":"m"§,"params":"a"}`, ""},
	{"the comma after a number is one byte late", `{"jsonrpc":"2.0","method":"m","id":7§,"params":"a"}`, ""},
	{"a number goes on behind it", `{"jsonrpc":"2.0","method":"m","id":7§8,"params":"a"}`, ""},
	{"a space after the last of them is no comma", `{"jsonrpc":"2.0","method":"m","id":7 §,"params":"a"}`, ""},
	{"the closing brace is its last byte", `{"jsonrpc":"2.0","method":"m","id":7}§  `, "7"},
	{"the closing brace is one byte late", `{"jsonrpc":"2.0","method":"m","id":7§}  `, ""},
	{"whitespace follows a whole message", `{"jsonrpc":"2.0","method":"m","id":"7"}  § `, `"7"`},
	{"a whole message without a method", `{"jsonrpc":"2.0","id":7}§ `, ""},
	{"a response", `{"jsonrpc":"2.0","id":7,"result":"aaa§aaa"}`, ""},
	{"a second id is whole before it", `{"jsonrpc":"2.0","id":7,"method":"m","id":7,§"params":1}`, ""},
	{"a second id is not whole before it", `{"jsonrpc":"2.0","id":7,"method":"m","id":7§,"params":1}`, "7"},
	{"an Id is whole before it", `{"jsonrpc":"2.0","id":7,"method":"m","Id":7,§"params":1}`, ""},
	{"an Id is not whole before it", `{"jsonrpc":"2.0","id":7,"method":"m","Id":7§,"params":1}`, "7"},
	{"a second id behind it", `{"jsonrpc":"2.0","id":7,"method":"m","params":"a§","id":8}`, "7"},
	{"a byte order mark before", bom + `{"jsonrpc":"2.0","id":7,"method":"m",§"params":"a"}`, "7"},
	{"a syntax fault before it, after id and method", `{"id":7,"method":"m",bad,"id":8§,"params":"a"}`, "7"},
	{"a syntax fault before it, before the method", `{"id":7,bad,"method":"m",§"params":"a"}`, ""},
	{"a second message before it", `{"id":7,"method":"m"}{"id":8,"method":"m",§"params":"a"}`, "7"},
	{"invalid UTF-8 before it, after id and method", `{"id":7,"method":"m","params":"` + "\xff" + `","id":8,§"params":"a"}`, "7"},
	{"a rune is split by it", `{"id":7,"method":"m","params":"` + "\xe2§\x82\xac" + `"}`, "7"},
	{"an escape is split by it", `{"id":7,"method":"m","params":"\u00§e9"}`, "7"},
	{"a batch", `[{"id":7,"method":"m"},§{"id":8,"method":"m"}]`, ""},
	{"garbage", `aaaaaaaa§aaaaaa`, ""},
}

// cut pads a row so that the good lines about it fit the limit as well.
func cut(marked string) (line string, limit int) {
	before, after, _ := strings.Cut(marked, "§")
	mark := ""
	if rest, ok := strings.CutPrefix(before, bom); ok {
		mark, before = bom, rest
	}
	line = mark + strings.Repeat(" ", 40) + before
	return line + after, len(line)
}

func TestRecoveredIDsOfLinesOverTheLimit(t *testing.T) {
	for _, tt := range cutRows {
		t.Run(tt.name, func(t *testing.T) {
			line, limit := cut(tt.line)
			row := lineRow{line: line, want: overCap}
			if tt.id != "" {
				row.want = overCap.recovered(tt.id)
			}
			for _, name := range []string{"with", "without"} {
				conf := lineLimit(limit)
				conf.recovered = name == "with"
				if !conf.recovered {
					row.want = overCap
				}
				s := row.stream(conf, ping+"\n", "\n"+ping+"\n")
				s.faults[0].Size = int64(limit) + 1
				t.Run(name, func(t *testing.T) {
					inEveryShape(t, s.in, func(t *testing.T, r io.Reader) { s.check(t, drain(t, r, s.conf)) })
				})
			}
		})
	}
}

func withheld(faults []fault, from int) []fault {
	for i := range faults[from:] {
		faults[from+i].Answered = false
	}
	return faults
}

// badLines are n faults of lines "x", the first at that line and offset.
func badLines(n int, line, offset int64) []fault {
	var all []fault
	for i := range int64(n) {
		all = append(all, badSyntax(line+i, offset+2*i, 1))
	}
	return all
}

// answeredIn gives a line whose answer is of n bytes, newline included.
func answeredIn(n int) (line, answer string) {
	id := quoted(n - len(invalidRequest("")))
	return withID(id), invalidRequest(id)
}

func floodStreams() []stream {
	const x = "x\n"
	three := answerLimit(3)
	streams := []stream{
		{
			name: "256 answers in a row by default",
			in:   strings.Repeat(x, 256), answers: strings.Repeat(parseError("null"), 256),
			faults: badLines(256, 1, 0),
		},
		{
			name: "the 257th is withheld, as is all that follows",
			in:   strings.Repeat(x, 1000) + "[]\n" + withID("1") + "\n", answers: strings.Repeat(parseError("null"), 256),
			faults: append(withheld(badLines(1000, 1, 0), 256),
				fault{1001, 2000, 2, -32600, "", false, stdioguard.ErrBatch},
				fault{1002, 2003, 24, -32600, "1", false, stdioguard.ErrNotMessage}),
			withheld: 746,
		},
		{
			name: "a forwarded line opens them again",
			conf: three, in: strings.Repeat(x, 5) + ping + "\n" + strings.Repeat(x, 5), out: ping + "\n",
			answers:  strings.Repeat(parseError("null"), 6),
			faults:   append(withheld(badLines(5, 1, 0), 3), withheld(badLines(5, 7, 51), 3)...),
			withheld: 4,
		},
		{
			name: "a forwarded line starts the count anew, withheld or not",
			conf: three, in: strings.Repeat(x, 2) + ping + "\n" + strings.Repeat(x, 4), out: ping + "\n",
			answers:  strings.Repeat(parseError("null"), 5),
			faults:   append(badLines(2, 1, 0), withheld(badLines(4, 4, 45), 3)...),
			withheld: 1,
		},
		{
			name: "a blank line does not open them",
			conf: three, in: strings.Repeat(x, 3) + "\n" + x, blank: 1,
			answers:  strings.Repeat(parseError("null"), 3),
			faults:   append(badLines(3, 1, 0), withheld(badLines(1, 5, 7), 0)...),
			withheld: 1,
		},
		{
			name: "a response that is dropped unanswered is not counted",
			conf: three, in: strings.Repeat(x, 2) + `{"result":1}` + "\n" + strings.Repeat(x, 2),
			answers: strings.Repeat(parseError("null"), 3),
			faults: append(append(badLines(2, 1, 0), fault{3, 4, 12, -32600, "", false, stdioguard.ErrNotMessage}),
				withheld(badLines(2, 4, 17), 1)...),
			withheld: 1,
		},
		{
			name: "a line over the limit is withheld too",
			conf: drawn{limits: stdioguard.Limits{Answers: 1, Line: 50}}, in: x + messageOf(51) + "\n",
			answers:  parseError("null"),
			faults:   append(badLines(1, 1, 0), fault{2, 2, 51, -32700, "", false, stdioguard.ErrTooLong}),
			withheld: 1, discarded: 51,
		},
		{
			name: "an answer that AnswerNone leaves out is not counted",
			conf: drawn{limits: stdioguard.Limits{Answers: 1}, answers: stdioguard.AnswerNone},
			in:   strings.Repeat(x, 3) + withID("1") + "\n" + x + withID("2") + "\n", answers: invalidRequest("1"),
			faults: append(append(withheld(badLines(3, 1, 0), 0), fault{4, 6, 24, -32600, "1", true, stdioguard.ErrNotMessage}),
				append(withheld(badLines(1, 5, 31), 0), fault{6, 33, 24, -32600, "2", false, stdioguard.ErrNotMessage})...),
			withheld: 1,
		},
		{
			name: "with WithAnyJSON any text opens them again",
			conf: drawn{limits: stdioguard.Limits{Answers: 1}, anyJSON: true},
			in:   x + "7\n" + x + x, out: "7\n", answers: strings.Repeat(parseError("null"), 2),
			faults: append(badLines(1, 1, 0), withheld(badLines(2, 3, 4), 1)...), withheld: 1,
		},
		{
			name: "a negative limit is none, of bytes neither",
			conf: answerLimit(-1), in: strings.Repeat(x, 2000),
			answers: strings.Repeat(parseError("null"), 2000), faults: badLines(2000, 1, 0),
		},
	}
	return append(streams, floodsOfBytes()...)
}

// floodsOfBytes reach 20 480 bytes in twenty answers before they are 256.
func floodsOfBytes() []stream {
	line, answer := answeredIn(1024)
	var faults []fault
	for i := range int64(20) {
		id := answer[len(`{"jsonrpc":"2.0","id":`) : len(answer)-len(`,"error":{"code":-32600,"message":"Invalid Request"}}`)-1]
		faults = append(faults, fault{i + 1, i * int64(len(line)+1), int64(len(line)), -32600, id, true, stdioguard.ErrNotMessage})
	}
	next := fault{21, int64(20 * (len(line) + 1)), 1, -32700, "", false, stdioguard.ErrSyntax}
	exactly := stream{
		name: "20 480 bytes of answers in a row, and not one more",
		in:   strings.Repeat(line+"\n", 20) + "x\nx\n", answers: strings.Repeat(answer, 20), withheld: 2,
	}
	exactly.faults = append(append(exactly.faults, faults...), next, next)
	exactly.faults[21].Line, exactly.faults[21].Offset = 22, next.Offset+2

	longer, longerAnswer := answeredIn(1025)
	over := stream{
		name: "an answer that would pass 20 480 bytes is withheld, as is a shorter one after it",
		in:   strings.Repeat(line+"\n", 19) + longer + "\nx\n", answers: strings.Repeat(answer, 19), withheld: 2,
	}
	over.faults = append(over.faults, faults[:19]...)
	over.faults = append(over.faults, faults[19], next)
	over.faults[19].Answered, over.faults[19].Size = false, int64(len(longer))
	over.faults[19].ID = longerAnswer[len(`{"jsonrpc":"2.0","id":`) : len(longerAnswer)-len(`,"error":{"code":-32600,"message":"Invalid Request"}}`)-1]
	over.faults[20].Offset++
	return []stream{exactly, over}
}

func TestAnswersInARowAreLimited(t *testing.T) {
	for _, s := range floodStreams() {
		t.Run(s.name, func(t *testing.T) {
			inEveryShape(t, s.in, func(t *testing.T, r io.Reader) { s.check(t, drain(t, r, s.conf)) })
		})
	}
}

func TestWithoutAWriterNothingIsAnswered(t *testing.T) {
	var answered []bool
	g := stdioguard.New(strings.NewReader("{bad\n"+withID("1")+"\n"+ping+"\n"), nil,
		stdioguard.WithRejectFunc(func(e *stdioguard.FrameError) { answered = append(answered, e.Answered) }))
	out, err := io.ReadAll(g)
	assert.NoError(t, err)
	assert.Equal(t, ping+"\n", string(out))
	assert.Equal(t, []bool{false, false}, answered)
	assert.Equal(t, stdioguard.Stats{Lines: 3, Forwarded: 1, Rejected: 2, BytesIn: 71}, g.Stats())
}

func TestARejectedIDIsACopy(t *testing.T) {
	var all []*stdioguard.FrameError
	in := strings.Repeat(withID(`"aaaaaaaa"`)+"\n"+withID(`"bbbbbbbb"`)+"\n", 1000)
	g := stdioguard.New(iotest.HalfReader(strings.NewReader(in)), io.Discard,
		stdioguard.WithRejectFunc(func(e *stdioguard.FrameError) { all = append(all, e) }))
	_, err := io.ReadAll(g)
	assert.NoError(t, err)
	for i, e := range all {
		want := []string{`"aaaaaaaa"`, `"bbbbbbbb"`}[i%2]
		if string(e.ID) != want {
			t.Fatalf("id %d is %s, want %s", i, e.ID, want)
		}
	}
	assert.Len(t, all, 2000)
}

// reports are public issues, in the bytes that they come down to.
var reports = []stream{
	{
		name: "go-sdk#1209, agent-lsp#14, goreleaser/mcp#54, stackql#701: a bad line",
		in:   "{bad\n" + pingLine, out: pingLine, answers: parseError("null"), faults: []fault{badSyntax(1, 0, 4)},
	},
	{
		name: "rust-sdk#825, kotlin-sdk#956: a byte order mark",
		in:   bom + pingLine, out: pingLine,
	},
	{
		name: "Graphify#227: a blank line between two requests",
		in:   pingLine + "\n" + pingLine, out: pingLine + pingLine, blank: 1,
	},
	{
		name: "stackql#668: CR LF",
		in:   ping + "\r\n", out: pingLine,
	},
	{
		name: "go-sdk#192: a brace too many",
		in:   ping + "}\n" + pingLine, out: pingLine, answers: parseError("null"), faults: []fault{badSyntax(1, 0, 41)},
	},
	{
		name: "typescript-sdk#2247: no jsonrpc",
		in:   `{"id":99,"method":"tools/list","params":{}}` + "\n", answers: invalidRequest("99"),
		faults: []fault{{1, 0, 43, -32600, "99", true, stdioguard.ErrNotMessage}},
	},
	{
		name: "ruby-sdk#400: jsonrpc 1.0",
		in:   `{"jsonrpc":"1.0","id":3,"method":"ping","params":{}}` + "\n", answers: invalidRequest("3"),
		faults: []fault{{1, 0, 52, -32600, "3", true, stdioguard.ErrNotMessage}},
	},
	{
		name: "python-sdk#2751, memtrace-public#18: params nested 256 deep",
		in:   call(`,"params":`+nested(256)) + "\n" + pingLine, out: call(`,"params":`+nested(256)) + "\n" + pingLine,
	},
	{
		name: "python-sdk#2751, memtrace-public#18: params nested past the limit",
		in:   call(`,"params":`+nested(1000)) + "\n" + pingLine, out: pingLine, answers: parseError("null"),
		faults: []fault{{1, 0, 2047, -32700, "", true, stdioguard.ErrTooDeep}},
	},
	{
		name: "python-sdk#2051: a null id",
		in:   `{"jsonrpc":"2.0","id":null,"method":"ping"}` + "\n", answers: invalidRequest("null"),
		faults: []fault{{1, 0, 43, -32600, "", true, stdioguard.ErrNotMessage}},
	},
	{
		name: "python-sdk#2302: a UTF-16 byte order mark",
		in:   "\xff\xfe\n" + pingLine, out: pingLine, answers: parseError("null"), faults: []fault{badSyntax(1, 0, 2)},
	},
	{
		name: "python-sdk#2546, Reasonix#7525: LSP's framing",
		in:   "Content-Length: 40\r\n\r\n" + pingLine, out: pingLine, answers: parseError("null"),
		faults: []fault{badSyntax(1, 0, 19)}, blank: 1,
	},
	{
		name: "claude-agent-sdk-typescript#137: U+2028 within a string",
		in:   `{"jsonrpc":"2.0","id":1,"method":"x","params":{"t":"a` + "\xe2\x80\xa8" + `b"}}` + "\n",
		out:  `{"jsonrpc":"2.0","id":1,"method":"x","params":{"t":"a` + "\xe2\x80\xa8" + `b"}}` + "\n",
	},
	{
		name: "unity-mcp#1186: U+FEFF within a string, escaped and raw",
		in:   strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"x","params":{"code":"\uFEFF`+"\xef\xbb\xbf"+`return"}}`+"\n", 2),
		out:  strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"x","params":{"code":"\uFEFF`+"\xef\xbb\xbf"+`return"}}`+"\n", 2),
	},
	{
		name: "ISHRemote#261: an id of 0",
		in:   `{"jsonrpc":"2.0","id":0,"method":"ping"}` + "\n", out: `{"jsonrpc":"2.0","id":0,"method":"ping"}` + "\n",
	},
	{
		name: "GHSA-wvj2-96wp-fq3f: Method beside method",
		in:   `{"jsonrpc":"2.0","id":1,"method":"a","Method":"b"}` + "\n", answers: invalidRequest("1"),
		faults: []fault{{1, 0, 50, -32600, "1", true, stdioguard.ErrNotMessage}},
	},
	{
		name: "GHSA-wvj2-96wp-fq3f: a long s beside params",
		in:   `{"jsonrpc":"2.0","id":1,"method":"a","params":{},"param\u017f":{}}` + "\n", answers: invalidRequest("1"),
		faults: []fault{{1, 0, 66, -32600, "1", true, stdioguard.ErrNotMessage}},
	},
	{
		name: "GHSA-q382-vc8q-7jhj: a NUL in a name",
		in:   `{"jsonrpc":"2.0","id":1,"method":"a","method\u0000":"b"}` + "\n", answers: invalidRequest("1"),
		faults: []fault{{1, 0, 56, -32600, "1", true, stdioguard.ErrNotMessage}},
	},
	{
		name: "pmcp#82, codex#31805, perseus#643: one byte over the limit",
		in:   strings.Repeat("a", defaultLine+1) + "\n" + pingLine, out: pingLine, answers: parseError("null"),
		faults: []fault{tooLong(1, 0, defaultLine)}, discarded: defaultLine + 1,
	},
	{
		name: "go-sdk ends the session: a request of 17 MiB",
		in:   messageOf(17<<20) + "\n" + pingLine, out: pingLine, answers: parseError("null"),
		faults: []fault{tooLong(1, 0, defaultLine)}, discarded: 17 << 20,
	},
	{
		name: "go-sdk waits for the next line: a request broken off",
		in:   `{"jsonrpc":"2.0","id":2,"method":` + "\n" + pingLine, out: pingLine, answers: parseError("null"),
		faults: []fault{badSyntax(1, 0, 33)},
	},
	{
		name: "mcp-go and jrpc2 lose both: a line that ends in CR alone",
		in:   ping + "\r" + pingLine + pingLine, out: pingLine, answers: parseError("null"), faults: []fault{badSyntax(1, 0, 81)},
	},
	{
		name: "typescript-sdk loses it: a request behind a byte order mark, before initialize",
		in:   bom + `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}` + "\n" + pingLine,
		out:  `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}` + "\n" + pingLine,
	},
	{
		name: "every SDK loses it: a last request without a newline",
		in:   pingLine + ping, out: pingLine + pingLine,
	},
	{
		name: "go-sdk ends the session: a space or a tab after a request",
		in:   ping + " \n" + ping + "\t\n", out: pingLine + pingLine,
	},
	{
		name: "python-sdk#2302: UTF-16 with UTF-16 newlines",
		in:   "\xff\xfe{\x00}\x00\n\x00{\x00}\x00\n\x00\n" + pingLine, out: pingLine,
		answers: strings.Repeat(parseError("null"), 3),
		faults:  []fault{badSyntax(1, 0, 6), badSyntax(2, 7, 5), badSyntax(3, 13, 1)},
	},
}

func TestPublicReports(t *testing.T) {
	for _, s := range reports {
		t.Run(s.name, func(t *testing.T) {
			inEveryShape(t, s.in, func(t *testing.T, r io.Reader) { s.check(t, drain(t, r, s.conf)) })
		})
	}
}

// A client that writes 200 000 bad lines before it reads is not kept waiting.
func TestAFloodOfBadLinesIsAnsweredWithinBounds(t *testing.T) {
	got := drain(t, strings.NewReader(strings.Repeat("x\n", 200_000)+pingLine), drawn{})
	assert.Equal(t, strings.Repeat(parseError("null"), 256), got.answers)
	assert.Equal(t, pingLine, got.out)
	assert.Equal(t, stdioguard.Stats{
		Lines: 200_001, Forwarded: 1, Rejected: 200_000, Answered: 256, Withheld: 200_000 - 256, BytesIn: 400_041,
	}, got.stats)
}
