package stdioguard_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stdioguard/stdioguard"
	"github.com/stdioguard/stdioguard/internal/jsonscan"
)

const note = `{"jsonrpc":"2.0","method":"n"}`

func response(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":"r"}` }

// pendingIDs are those of the requests that were read before anything is written.
var pendingIDs = []string{"1", "2", `"a"`, "0"}

type outConf struct {
	limits  stdioguard.Limits
	anyJSON bool
}

// An outRow is what a server writes, and what becomes of it.
type outRow struct {
	name string
	outConf
	in string // § stands where one Write ends and the next begins
	fate
	apart *fate // byte by byte, where that makes a difference
}

type fate struct {
	out      []string // messages, in Writes of the client's stream of their own
	diverted string
	held     string // the end of what was written, which is diverted by Close
}

// Of an apart row: what was whole had left before the text came.
func apart(diverted string, out ...string) *fate { return &fate{out: out, diverted: diverted} }

func messages(m ...string) fate { return fate{out: m} }

func divertedAll(in string) fate { return fate{diverted: in} }

func mixed(diverted string, out ...string) fate { return fate{out: out, diverted: diverted} }

func heldBack(held string, out ...string) fate { return fate{out: out, held: held} }

func outRows() []outRow {
	return slices.Concat(wholeRows, spaceRows, utf8Rows, gluedRows, textRows, mixedRows, brokenRows, cutWriteRows, heldRows, anyJSONRows)
}

// What is a message: an object with the version, or a batch of such.
var wholeRows = []outRow{
	{name: "a request leaves", in: request("5") + "\n", fate: messages(request("5"))},
	{name: "a notification leaves", in: note + "\n", fate: messages(note)},
	{name: "a response leaves", in: response("1") + "\n", fate: messages(response("1"))},
	{name: "a response to nobody leaves", in: response("77") + "\n", fate: messages(response("77"))},
	{name: "an error with a null id leaves", in: parseError("null"), fate: messages(strings.TrimSpace(parseError("null")))},
	{name: "the version alone makes a message", in: `{"jsonrpc":"2.0"}` + "\n", fate: messages(`{"jsonrpc":"2.0"}`)},
	{name: "the version may stand last", in: `{"method":"n","params":{},"jsonrpc":"2.0"}` + "\n", fate: messages(`{"method":"n","params":{},"jsonrpc":"2.0"}`)},
	{name: "the version may be written with escapes", in: `{"json\u0072pc":"2\u002e0","method":"n"}` + "\n", fate: messages(`{"json\u0072pc":"2\u002e0","method":"n"}`)},
	{name: "space within a message stays", in: "{ \"jsonrpc\" :\t\"2.0\"\r, \"method\": \"n\" }\n", fate: messages("{ \"jsonrpc\" :\t\"2.0\"\r, \"method\": \"n\" }")},
	{name: "another version is text", in: `{"jsonrpc":"1.0","method":"n"}` + "\n", fate: divertedAll(`{"jsonrpc":"1.0","method":"n"}` + "\n")},
	{name: "a number for a version is text", in: `{"jsonrpc":2.0,"method":"n"}` + "\n", fate: divertedAll(`{"jsonrpc":2.0,"method":"n"}` + "\n")},
	{name: "another spelling of the version is text", in: `{"JSONRPC":"2.0","method":"n"}` + "\n", fate: divertedAll(`{"JSONRPC":"2.0","method":"n"}` + "\n")},
	{name: "the version further inside is text", in: `{"a":{"jsonrpc":"2.0"}}` + "\n", fate: divertedAll(`{"a":{"jsonrpc":"2.0"}}` + "\n")},
	{name: "an empty object is text", in: "{}\n", fate: divertedAll("{}\n")},
	{name: "a JSON log line is text", in: `{"level":"info","msg":"x"}` + "\n", fate: divertedAll(`{"level":"info","msg":"x"}` + "\n")},
	{name: "null is text", in: "null\n", fate: divertedAll("null\n")},
	{name: "a number is text", in: "7\n", fate: divertedAll("7\n")},
	{name: "a string is text", in: `"jsonrpc"` + "\n", fate: divertedAll(`"jsonrpc"` + "\n")},
	{name: "a batch leaves as it is", in: "[" + response("1") + ", " + note + "]\n", fate: messages("[" + response("1") + ", " + note + "]")},
	{name: "a batch of one leaves", in: "[" + note + "]\n", fate: messages("[" + note + "]")},
	{name: "an empty batch is text", in: "[]\n", fate: divertedAll("[]\n")},
	{name: "a batch with something else in it is text, and nothing in it is looked at", in: "[" + note + ",{}," + response("1") + "]\n", fate: divertedAll("[" + note + ",{}," + response("1") + "]\n")},
	{name: "a batch with a number in it is text", in: "[" + note + ",7]\n", fate: divertedAll("[" + note + ",7]\n")},
	{name: "a batch of batches is text", in: "[[" + note + "]]\n", fate: divertedAll("[[" + note + "]]\n")},
	{name: "a message in an object that is none is not looked at", in: `{"sent":` + response("1") + "}\n", fate: divertedAll(`{"sent":` + response("1") + "}\n")},
	{name: "a message in a message is not looked at", in: `{"jsonrpc":"2.0","id":1,"result":` + response("2") + "}\n", fate: messages(`{"jsonrpc":"2.0","id":1,"result":` + response("2") + "}")},
	{name: "a message of any depth leaves", in: deep(jsonscan.MaxDepth) + "\n", fate: messages(deep(jsonscan.MaxDepth))},
	{name: "a message that is too deep to read is text", in: deep(jsonscan.MaxDepth+1) + "\n", fate: divertedAll(deep(jsonscan.MaxDepth+1) + "\n")},
	{name: "nothing is nothing", in: ""},
}

// Whitespace and byte order marks around messages are dropped.
var spaceRows = []outRow{
	{name: "space, tab and CR about a message go", in: "\t \r" + note + " \r\t\r\n", fate: messages(note)},
	{name: "a byte order mark before a message goes", in: bom + note + "\n", fate: messages(note)},
	{name: "space and a byte order mark go in any order", in: " " + bom + "\t" + note + "\n", fate: messages(note)},
	{name: "a byte order mark goes from any line", in: note + "\n" + bom + response("1") + "\n" + bom + note, fate: messages(note, response("1"), note)},
	{name: "a byte order mark within a string stays", in: `{"jsonrpc":"2.0","method":"` + bom + `"}` + "\n", fate: messages(`{"jsonrpc":"2.0","method":"` + bom + `"}`)},
	{name: "blank lines go", in: "\n\r\n \t\n" + bom + "\n" + note + "\n\n", fate: messages(note)},
	{name: "CR ends no line", in: note + "\r" + response("1") + "\r", fate: messages(note, response("1"))},
	{name: "a byte order mark in text is text", in: "x" + bom + "\n", fate: divertedAll("x" + bom + "\n")},
	{name: "two bytes of a byte order mark are text", in: bom[:2] + note + "\n", fate: divertedAll(bom[:2] + note + "\n")},
	{name: "two bytes of a byte order mark and a newline are text", in: bom[:2] + "\n", fate: divertedAll(bom[:2] + "\n")},
	{name: "a byte order mark that comes in three Writes goes", in: bom[:1] + "§" + bom[1:2] + "§" + bom[2:] + note + "\n", fate: messages(note)},
	{name: "what may become a byte order mark is held", in: note + "\n" + bom[:2], fate: heldBack(bom[:2], note)},
	{name: "a byte order mark broken off by another Write is text", in: bom[:2] + "§" + note + "\n", fate: divertedAll(bom[:2] + note + "\n")},
	{name: "a form feed is text", in: "\f" + note + "\n", fate: divertedAll("\f" + note + "\n")},
	{name: "a line separator is text", in: "\u2028" + note + "\n", fate: divertedAll("\u2028" + note + "\n")},
	{name: "a no-break space is text", in: "\u00a0" + note + "\n", fate: divertedAll("\u00a0" + note + "\n")},
	{name: "NUL is text", in: "\x00" + note + "\n", fate: divertedAll("\x00" + note + "\n")},
}

func saying(s string) string { return `{"jsonrpc":"2.0","method":"` + s + `"}` }

// Each byte of a string that is not UTF-8 becomes one U+FFFD.
var utf8Rows = []outRow{
	{name: "a byte that is no UTF-8 is replaced", in: saying("a\xffb") + "\n", fate: messages(saying("a\ufffdb"))},
	{name: "each such byte is", in: saying("\xff\xfe\x80") + "\n", fate: messages(saying("\ufffd\ufffd\ufffd"))},
	{name: "each byte of a rune cut short is", in: saying("\xe2\x82") + "\n", fate: messages(saying("\ufffd\ufffd"))},
	{name: "a rune cut short by another is", in: saying("\xf0\x9f\x98é") + "\n", fate: messages(saying("\ufffd\ufffd\ufffdé"))},
	{name: "each byte of a surrogate is", in: saying("\xed\xa0\x80") + "\n", fate: messages(saying("\ufffd\ufffd\ufffd"))},
	{name: "each byte of an overlong form is", in: saying("\xc0\xaf\xe0\x80\xaf") + "\n", fate: messages(saying("\ufffd\ufffd\ufffd\ufffd\ufffd"))},
	{name: "each byte beyond U+10FFFF is", in: saying("\xf4\x90\x80\x80") + "\n", fate: messages(saying("\ufffd\ufffd\ufffd\ufffd"))},
	{name: "in a name too", in: "{\"jsonrpc\":\"2.0\",\"\xff\":\"\xfe\"}\n", fate: messages(`{"jsonrpc":"2.0","` + "\ufffd\":\"\ufffd\"}")},
	{name: "in a batch too", in: "[" + saying("\xff") + "," + saying("\xff") + "]\n", fate: messages("[" + saying("\ufffd") + "," + saying("\ufffd") + "]")},
	{name: "U+FFFD itself and other runes stay", in: saying("\ufffd \u00e9 € 🙂 \u2028 \x7f") + "\n", fate: messages(saying("\ufffd \u00e9 € 🙂 \u2028 \x7f"))},
	{name: "a lone surrogate's escape stays", in: saying(`\ud800`) + "\n", fate: messages(saying(`\ud800`))},
	{name: "beside a string it is a fault", in: "{\"jsonrpc\":\"2.0\"\xff}\n", fate: divertedAll("{\"jsonrpc\":\"2.0\"\xff}\n")},
	{name: "after a backslash it is a fault", in: saying("\\\xff") + "\n", fate: divertedAll(saying("\\\xff") + "\n")},
	{name: "in an escape it is a fault", in: saying("\\u00\xff0") + "\n", fate: divertedAll(saying("\\u00\xff0") + "\n")},
	{name: "a control byte in a string is a fault", in: saying("a\tb") + "\n", fate: divertedAll(saying("a\tb") + "\n")},
	{name: "what is diverted stays as it was", in: "x " + saying("\xff") + " \xe2\x82\n", fate: divertedAll("x " + saying("\xff") + " \xe2\x82\n")},
	{
		name: "in an answer beside text", in: "x{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\xff\"}\n",
		fate: mixed("x\n", "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\ufffd\"}"),
	},
}

// Several messages in a line, or several lines in a Write.
var gluedRows = []outRow{
	{name: "many lines in one Write are a Write each", in: note + "\n" + response("1") + "\n" + request("9") + "\n", fate: messages(note, response("1"), request("9"))},
	{name: "glued messages come apart", in: note + response("1") + request("9") + "\n", fate: messages(note, response("1"), request("9"))},
	{name: "glued with space between", in: note + " \t" + response("1") + "\r" + request("9") + " \n", fate: messages(note, response("1"), request("9"))},
	{name: "a batch glued to a message", in: "[" + note + "]" + note + "\n", fate: messages("["+note+"]", note)},
	{name: "agent-deck#1329: two bodies and then two newlines", in: response("1") + "§" + response("2") + "§\n§\n", fate: messages(response("1"), response("2"))},
	{name: "the last line may lack its newline", in: note + "\n" + response("1"), fate: messages(note, response("1"))},
	{name: "body and newline in two Writes", in: note + "§\n§" + response("1") + "§\n", fate: messages(note, response("1"))},
	{name: "a message in the middle of a Write", in: note[:9] + "§" + note[9:] + "\n" + response("1")[:5] + "§" + response("1")[5:] + "§\n", fate: messages(note, response("1"))},
	{name: "an answer twice goes twice", in: response("1") + "\n" + response("1") + "\n", fate: messages(response("1"), response("1"))},
}

// What is no message goes to the diversion, byte for byte.
var textRows = []outRow{
	{name: "go-sdk#572, mcp-taskfile-server#54: a handler prints", in: "hi\n", fate: divertedAll("hi\n")},
	{name: "slack-mcp-server#65: the server prints a JSON log line between messages", in: note + "\n" + `{"level":"info","msg":"x"}` + "\n" + note + "\n", fate: mixed(`{"level":"info","msg":"x"}`+"\n", note, note)},
	{name: "mcp-toolbox#638: the server prints null between messages", in: note + "\nnull\n" + note + "\n", fate: mixed("null\n", note, note)},
	{name: "text keeps the space within and after it", in: "a  b \t c \r\n", fate: divertedAll("a  b \t c \r\n")},
	{name: "text keeps the space before it that came with it", in: "\t hi\n", fate: divertedAll("\t hi\n"), apart: apart("hi\n")},
	{name: "text without a newline is diverted at once", in: "progress: 5%", fate: divertedAll("progress: 5%")},
	{name: "lines of text with blank lines between", in: "a\n\nb\n", fate: divertedAll("a\nb\n")},
	{name: "an LSP header is text", in: "Content-Length: 30\r\n\r\n" + note + "\n", fate: mixed("Content-Length: 30\r\n", note)},
	{name: "a message spread over lines is text", in: "{\n  \"jsonrpc\": \"2.0\",\n  \"method\": \"n\"\n}\n", fate: divertedAll("{\n  \"jsonrpc\": \"2.0\",\n  \"method\": \"n\"\n}\n"), apart: apart("{\n\"jsonrpc\": \"2.0\",\n\"method\": \"n\"\n}\n")},
	{name: "a quote in text begins no string", in: `say "` + response("1") + `"` + "\n", fate: mixed(`say ""`+"\n", response("1"))},
	{name: "a bracket that closes nothing is text", in: "]}" + response("1") + "\n", fate: mixed("]}\n", response("1"))},
}

// From a line with text only an awaited answer leaves.
var mixedRows = []outRow{
	{name: "a notification after text is diverted", in: "x " + note + "\n", fate: divertedAll("x " + note + "\n")},
	{name: "a request after text is diverted", in: "x " + request("9") + "\n", fate: divertedAll("x " + request("9") + "\n")},
	{name: "a request with the id of an awaited answer after text is diverted", in: "x " + request("1") + "\n", fate: divertedAll("x " + request("1") + "\n")},
	{name: "an awaited answer after text leaves", in: "x " + response("1") + "\n", fate: mixed("x \n", response("1"))},
	{name: "an awaited error after text leaves", in: "x " + errorWith(`{"code":-1,"message":"m"}`) + "\n", fate: mixed("x \n", errorWith(`{"code":-1,"message":"m"}`))},
	{name: "an answer to nobody after text is diverted", in: "x " + response("77") + "\n", fate: divertedAll("x " + response("77") + "\n")},
	{name: "a second answer after text is diverted", in: "x " + response("1") + response("1") + "\n", fate: mixed("x "+response("1")+"\n", response("1"))},
	{name: "an answer after text that was given before is diverted", in: response("1") + "\nx" + response("1") + "\n", fate: mixed("x"+response("1")+"\n", response("1"))},
	{name: "an answer that a batch has given is diverted", in: "[" + response("1") + "]\nx" + response("1") + "\n", fate: mixed("x"+response("1")+"\n", "["+response("1")+"]")},
	{name: "an id with another spelling is awaited", in: `x{"jsonrpc":"2.0","id":"\u0061","result":1}` + "\n", fate: mixed("x\n", `{"jsonrpc":"2.0","id":"\u0061","result":1}`)},
	{name: "a string is not the number", in: "x" + response(`"1"`) + "\n", fate: divertedAll("x" + response(`"1"`) + "\n")},
	{name: "an object with only an id is no answer", in: "x" + withID("1") + "\n", fate: divertedAll("x" + withID("1") + "\n")},
	{name: "an answer with a method is none", in: `x{"jsonrpc":"2.0","id":1,"method":"m","result":1}` + "\n", fate: divertedAll(`x{"jsonrpc":"2.0","id":1,"method":"m","result":1}` + "\n")},
	{name: "an answer without the version is none", in: `x{"id":1,"result":1}` + "\n", fate: divertedAll(`x{"id":1,"result":1}` + "\n")},
	{name: "an answer with a null id is diverted", in: "x" + parseError("null"), fate: divertedAll("x" + parseError("null"))},
	{name: "a batch of awaited answers after text is diverted", in: "x[" + response("1") + "]\n", fate: divertedAll("x[" + response("1") + "]\n")},
	{name: "text in a batch's place makes the line mixed", in: "{}" + note + "\n", fate: divertedAll("{}" + note + "\n")},
	{name: "several awaited answers leave", in: "a" + response("1") + "b" + response("2") + "c" + response(`"a"`) + "d\n", fate: mixed("abcd\n", response("1"), response("2"), response(`"a"`))},
	{name: "the next line is judged afresh", in: "x\n" + note + "\n", fate: mixed("x\n", note)},
	{
		name: "a notification before text in the same Write is diverted", in: note + " x\n",
		fate: divertedAll(note + " x\n"), apart: apart("x\n", note),
	},
	{
		name: "a notification before a JSON log line in the same Write is diverted", in: note + "{}\n",
		fate: divertedAll(note + "{}\n"), apart: apart("{}\n", note),
	},
	{
		name: "two notifications before text in the same Write are diverted", in: note + note + "x\n",
		fate: divertedAll(note + note + "x\n"), apart: apart("x\n", note, note),
	},
	{
		name: "an awaited answer before text in the same Write leaves", in: response("1") + "x\n",
		fate: mixed("x\n", response("1")), apart: apart("x\n", response("1")),
	},
	{
		name: "text on the next line of the same Write is another matter", in: note + "\nx" + note + "\n",
		fate: mixed("x"+note+"\n", note),
	},
}

// Where a value breaks off.
var brokenRows = []outRow{
	{name: "a message cut short by its line's end is text", in: note[:20] + "\n" + note + "\n", fate: mixed(note[:20]+"\n", note)},
	{name: "a message with a fault is text", in: `{"jsonrpc":"2.0",}` + "\n", fate: divertedAll(`{"jsonrpc":"2.0",}` + "\n")},
	{name: "a message begins where another breaks off", in: `{"jsonrpc":` + response("1") + "\n", fate: mixed(`{"jsonrpc":`+"\n", response("1"))},
	{name: "a message begins at the very fault", in: `{"a"` + response("1") + "\n", fate: mixed(`{"a"`+"\n", response("1"))},
	{name: "a bracket at the fault begins a value", in: "{" + response("1") + "\n", fate: mixed("{\n", response("1"))},
	{name: "brackets alone", in: "{[{[{[\n", fate: divertedAll("{[{[{[\n")},
	{name: "whole answers inside are read", in: "[" + response("1") + ", " + response("2") + " x\n", fate: mixed("[,  x\n", response("1"), response("2"))},
	{name: "whole notifications inside are not sent", in: "[" + note + " x\n", fate: divertedAll("[" + note + " x\n")},
	{name: "an answer deep inside is read", in: `{"a":[1,{"b":` + response("1") + "\n", fate: mixed(`{"a":[1,{"b":`+"\n", response("1"))},
	{name: "nothing inside a whole value inside is read", in: `[{"b":` + response("1") + `},` + response("2") + " x\n", fate: mixed(`[{"b":`+response("1")+`}, x`+"\n", response("2"))},
	{name: "a string inside is skipped as a string", in: `{"a":"{",` + `"b":` + response("1") + ` x` + "\n", fate: mixed(`{"a":"{","b": x`+"\n", response("1"))},
	{name: "a name inside is skipped as a string", in: `{"[\"{":` + response("1") + " x\n", fate: mixed(`{"[\"{": x`+"\n", response("1"))},
	{name: "a string that breaks off ends at its fault", in: "{\"a\":\"{\x01" + response("1") + "\n", fate: mixed("{\"a\":\"{\x01\n", response("1"))},
	{name: "a string that the line's end breaks off hides what is in it", in: `{"a":"` + `{}[]` + "\n", fate: divertedAll(`{"a":"{}[]` + "\n")},
	{name: "after the fault a quote begins no string", in: `{"a" "` + response("1") + "\n", fate: mixed(`{"a" "`+"\n", response("1"))},
	{name: "a wrong bracket breaks off what is open", in: "[" + response("1") + "}" + response("2") + "\n", fate: mixed("[}\n", response("1"), response("2"))},
	{name: "a line's end after whole values inside", in: `{"a":` + response("1") + "," + "\n", fate: mixed(`{"a":,`+"\n", response("1"))},
	{
		name: "where a value before it breaks off, a notification is diverted with it", in: `{"a"` + note + "\n",
		fate: divertedAll(`{"a"` + note + "\n"),
	},
	{
		name: "where a value after it breaks off in the same Write, a notification is diverted", in: note + `{"a"` + "\n",
		fate: divertedAll(note + `{"a"` + "\n"), apart: apart(`{"a"`+"\n", note),
	},
}

// What the ends of Writes make of it.
var cutWriteRows = []outRow{
	{name: "text of an earlier Write stands before a message", in: "50%§" + note + "\n", fate: divertedAll("50%" + note + "\n")},
	{name: "an awaited answer after text of an earlier Write leaves", in: "50%§" + response("1") + "\n", fate: mixed("50%\n", response("1"))},
	{name: "a newline between is enough", in: "50%§\n§" + note + "\n", fate: mixed("50%\n", note)},
	{name: "space of an earlier Write is no text", in: " §\t§" + note + "\n", fate: messages(note)},
	{name: "text of a later Write comes too late for a message", in: note + "§x\n", fate: mixed("x\n", note)},
	{name: "text of a later Write comes in time for the next message", in: note + "§x§" + note + "\n", fate: mixed("x"+note+"\n", note)},
	{name: "a beginning after a message is no text yet", in: note + `{"a"`, fate: heldBack(`{"a"`, note)},
	{
		name: "a beginning that turns out to be text is text for what follows", in: note + `{"a"§x` + note + "\n",
		fate: mixed(`{"a"x`+note+"\n", note),
	},
	{name: "a beginning is held", in: note[:12], fate: heldBack(note[:12])},
	{name: "a beginning is held over Writes", in: note[:12] + "§" + note[12:20], fate: heldBack(note[:20])},
	{name: "a beginning after text is held, the text is not", in: "x " + note[:12], fate: fate{diverted: "x ", held: note[:12]}},
	{name: "a whole element of a beginning is held with it", in: "[" + response("1"), fate: heldBack("[" + response("1"))},
	{name: "a batch over Writes", in: "[§" + response("1") + "§,§" + note + "§]§\n", fate: messages("[" + response("1") + "," + note + "]")},
	{name: "a beginning after a batch goes on in the next Write", in: "[" + note + "]" + note[:20] + "§" + note[20:] + "\n", fate: messages("["+note+"]", note)},
	{name: "a beginning after a message goes on in the next Write", in: response("1") + note[:20] + "§" + note[20:] + "\n", fate: messages(response("1"), note)},
	{name: "a beginning after one that broke off goes on in the next Write", in: `{"a" ` + response("1")[:20] + "§" + response("1")[20:] + "\n", fate: mixed(`{"a" `+"\n", response("1"))},
	{name: "a rune over two Writes is whole", in: saying("a\xe2§\x82\xac") + "\n", fate: messages(saying("a€"))},
	{name: "half a rune at the end of a Write that nothing completes", in: saying("a\xe2§b") + "\n", fate: messages(saying("a\ufffdb"))},
	{name: "an escape over two Writes is whole", in: saying(`\§u00§e9\§"`) + "\n", fate: messages(saying(`\u00e9\"`))},
	{name: "an empty Write changes nothing", in: "§" + note[:12] + "§§" + note[12:] + "§§\n§", fate: messages(note)},
}

func held(n int) outConf { return outConf{limits: stdioguard.Limits{Held: n}} }

// A beginning has 20 bytes at the most at the end of a Write, less one.
var heldRows = []outRow{
	{name: "19 bytes are held where 20 are too many", outConf: held(20), in: note[:19], fate: heldBack(note[:19])},
	{name: "20 bytes are diverted", outConf: held(20), in: note[:20], fate: divertedAll(note[:20])},
	{name: "19 bytes and the rest", outConf: held(20), in: note[:19] + "§" + note[19:] + "\n", fate: messages(note), apart: &fate{diverted: note + "\n"}},
	{name: "19 bytes of two Writes and the rest", outConf: held(20), in: note[:9] + "§" + note[9:19] + "§" + note[19:] + "\n", fate: messages(note), apart: &fate{diverted: note + "\n"}},
	{name: "20 bytes of two Writes and the rest", outConf: held(20), in: note[:9] + "§" + note[9:20] + "§" + note[20:] + "\n", fate: divertedAll(note + "\n")},
	{name: "a message that comes whole has no limit", outConf: held(20), in: note + note + "\n", fate: messages(note, note), apart: &fate{diverted: note + note + "\n"}},
	{name: "the rest of the line is text, the next line is not", outConf: held(20), in: note[:25] + "§" + note[25:] + "\n" + note + "\n", fate: mixed(note+"\n", note), apart: &fate{diverted: note + "\n" + note + "\n"}},
	{
		name: "after it the line is mixed", outConf: held(20), in: note[:25] + "§" + note[25:] + note + response("1") + "\n",
		fate: mixed(note+note+"\n", response("1")), apart: &fate{diverted: note + note + response("1") + "\n"},
	},
	{
		name: "a message before it is not", outConf: held(20), in: response("1") + "\n" + note + note[:20],
		fate: mixed(note[:20], response("1"), note), apart: &fate{diverted: response("1") + "\n" + note + note[:20]},
	},
	{name: "text does not count", outConf: held(20), in: strings.Repeat("x", 30) + `{"a"`, fate: fate{diverted: strings.Repeat("x", 30), held: `{"a"`}},
	{name: "a limit of one byte holds nothing", outConf: held(1), in: `{§"jsonrpc":"2.0"}` + "\n" + note + "\n", fate: mixed(`{"jsonrpc":"2.0"}`+"\n", note), apart: &fate{diverted: `{"jsonrpc":"2.0"}` + "\n" + note + "\n"}},
}

var outAnyJSON = outConf{anyJSON: true}

// WithAnyJSON: any object or array is a message.
var anyJSONRows = []outRow{
	{name: "with any JSON, an object leaves", outConf: outAnyJSON, in: "{}\n" + `{"a":1}` + "\n", fate: messages("{}", `{"a":1}`)},
	{name: "with any JSON, an array leaves", outConf: outAnyJSON, in: "[]\n[1,[2]]\n", fate: messages("[]", "[1,[2]]")},
	{name: "with any JSON, glued ones come apart", outConf: outAnyJSON, in: "{}[1] {}\n", fate: messages("{}", "[1]", "{}")},
	{name: "with any JSON, other values are text", outConf: outAnyJSON, in: "null\n7\n\"s\"\n", fate: divertedAll("null\n7\n\"s\"\n")},
	{name: "with any JSON, a line with text lets awaited answers out alone", outConf: outAnyJSON, in: "x{}" + note + response("1") + "[]\n", fate: mixed("x{}"+note+"[]\n", response("1"))},
	{name: "with any JSON, what breaks off is text", outConf: outAnyJSON, in: "[{},\n", fate: divertedAll("[{},\n")},
}

// An outRun is a row in one of the ways in which it can be written.
type outRun struct {
	name   string
	writes []string
	fate
}

func (row outRow) runs() []outRun {
	cut := outRun{"as it is cut", strings.Split(row.in, "§"), row.fate}
	bytewise := outRun{"byte by byte", nil, row.fate}
	if row.apart != nil {
		bytewise.fate = *row.apart
	}
	for _, c := range []byte(strings.ReplaceAll(row.in, "§", "")) {
		bytewise.writes = append(bytewise.writes, string([]byte{c}))
	}
	return []outRun{cut, bytewise}
}

// A clientLog is the client's side. It insists that each Write is one line.
type clientLog struct {
	t     testing.TB
	lines []string // without their newlines
}

func (c *clientLog) Write(p []byte) (int, error) {
	line, ok := strings.CutSuffix(string(p), "\n")
	assert.True(c.t, ok && !strings.Contains(line, "\n"), "a Write of something else than a line: %q", p)
	c.lines = append(c.lines, line)
	return len(p), nil
}

// A divertLog keeps what is diverted, and says when there is more.
type divertLog struct {
	mu   sync.Mutex
	more sync.Cond
	b    bytes.Buffer
}

func newDivertLog() *divertLog {
	d := &divertLog{}
	d.more.L = &d.mu
	return d
}

func (d *divertLog) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.more.Broadcast()
	return d.b.Write(p)
}

// await waits for so many bytes; if they never come the test does not end.
func (d *divertLog) await(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for int64(d.b.Len()) < n {
		d.more.Wait()
	}
}

func (d *divertLog) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.b.String()
}

// An output is a guard whose Writer is written to.
type output struct {
	t       testing.TB
	guard   *stdioguard.Guard
	writer  io.Writer
	client  *clientLog
	log     *divertLog
	bytesIn int64
}

// newOutput returns one that has read the pending requests, but not the end.
func newOutput(t testing.TB, conf outConf) *output {
	t.Helper()
	var in string
	for _, id := range pendingIDs {
		in += request(id) + "\n"
	}
	s := &output{t: t, client: &clientLog{t: t}, log: newDivertLog(), bytesIn: int64(len(in))}
	opts := []stdioguard.Option{stdioguard.WithLimits(conf.limits), stdioguard.WithDiversion(s.log)}
	if conf.anyJSON {
		opts = append(opts, stdioguard.WithAnyJSON())
	}
	s.guard = stdioguard.New(strings.NewReader(in), s.client, opts...)
	s.writer = s.guard.Writer()
	_, err := io.ReadFull(s.guard, make([]byte, len(in)))
	require.NoError(t, err)
	return s
}

// write hands over a slice that is looked at and scribbled on afterwards.
func (s *output) write(p []byte) {
	s.t.Helper()
	const beyond = "beyond the slice"
	buf := append(slices.Clone(p), beyond...)
	n, err := s.writer.Write(buf[:len(p)])
	require.NoError(s.t, err)
	require.Len(s.t, p, n)
	require.Equal(s.t, string(p)+beyond, string(buf), "the caller's slice was written to")
	for i := range buf {
		buf[i] = '#'
	}
}

// close diverts what is held, and waits until all that was diverted has come.
func (s *output) close() {
	s.t.Helper()
	require.NoError(s.t, s.guard.Writer().Close())
	s.log.await(s.guard.Stats().Diverted)
	require.NoError(s.t, s.guard.Close())
}

func TestWhatBecomesOfOutput(t *testing.T) {
	for _, row := range outRows() {
		for _, run := range row.runs() {
			t.Run(row.name+"/"+run.name, func(t *testing.T) {
				s := newOutput(t, row.outConf)
				for _, p := range run.writes {
					s.write([]byte(p))
				}
				assert.Equal(t, run.out, s.client.lines)
				stats := s.guard.Stats()
				assert.EqualValues(t, len(run.out), stats.Written, "messages written")
				assert.EqualValues(t, len(run.diverted), stats.Diverted, "bytes diverted as they come")
				assert.Zero(t, stats.DiversionLost)
				s.close()
				assertSame(t, run.diverted+run.held, s.log.String(), "diverted")
				assert.EqualValues(t, len(run.diverted+run.held), s.guard.Stats().Diverted)
				assert.Equal(t, run.out, s.client.lines, "Close sends nothing")
			})
		}
	}
}

// Text that a handler logs about what it sends must not send it twice, whatever
// stands on the line and however the Writes are cut.
func TestALoggedMessageIsNotSentTwice(t *testing.T) {
	for _, sent := range []string{request("9"), note} {
		for _, logged := range []string{"send: " + sent + "\n", sent + " sent\n", "[" + sent + " …\n", "{\"msg\":" + sent + "\n"} {
			s := newOutput(t, outConf{})
			s.write([]byte(logged))
			s.write([]byte(sent + "\n"))
			assert.Equal(t, []string{sent}, s.client.lines, "after %q", logged)
			s.close()
			assert.Equal(t, logged, s.log.String())
		}
	}
}

func TestWriterIsTheSameEachTime(t *testing.T) {
	g := stdioguard.New(strings.NewReader(""), io.Discard)
	assert.Same(t, g.Writer(), g.Writer())
}

// sameBytes reports whether two slices lie at the same place.
func sameBytes(a, b []byte) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }

func TestARightLineLeavesWithoutACopy(t *testing.T) {
	one, two := []byte(messageOf(100)+"\n"), []byte(messageOf(1<<20)+"\n")
	for _, tt := range []struct {
		name  string
		write []byte
		lines []int // their lengths
	}{
		{"a short line", one, []int{len(one)}},
		{"a long line", two, []int{len(two)}},
		{"lines in one Write", slices.Concat(one, two, one), []int{len(one), len(two), len(one)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got [][]byte
			g := stdioguard.New(strings.NewReader(""), writerFunc(func(p []byte) (int, error) {
				got = append(got, p)
				return len(p), nil
			}))
			_, err := g.Writer().Write(tt.write)
			require.NoError(t, err)
			require.Len(t, got, len(tt.lines))
			at := 0
			for i, n := range tt.lines {
				assert.True(t, sameBytes(tt.write[at:at+n], got[i]), "line %d was copied", i)
				at += n
			}
		})
	}
}

func TestARightLineAllocatesNothing(t *testing.T) {
	for _, n := range []int{100, 4 << 10, 1 << 20} {
		t.Run(fmt.Sprintf("a line of %d bytes", n), func(t *testing.T) {
			w := stdioguard.New(strings.NewReader(""), io.Discard).Writer()
			line := []byte(messageOf(n) + "\n")
			assert.Zero(t, fewestAllocs(func() {
				for range 8 {
					w.Write(line)
				}
			}))
		})
	}
	for _, tt := range []struct{ message, piece int }{{4 << 10, 100}, {4 << 20, 64 << 10}} {
		t.Run(fmt.Sprintf("a line of %d bytes in pieces", tt.message), func(t *testing.T) {
			w := stdioguard.New(strings.NewReader(""), io.Discard).Writer()
			line := []byte(messageOf(tt.message) + "\n")
			assert.Zero(t, fewestAllocs(func() {
				for p := range slices.Chunk(line, tt.piece) {
					w.Write(p)
				}
			}))
		})
	}
}

// What a large message took is given back when none follows.
func TestTheWriterGivesItsBufferBack(t *testing.T) {
	g := stdioguard.New(strings.NewReader(""), io.Discard)
	held := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := held()
	line := messageOf(16 << 20)
	for _, p := range []string{line[:10<<20], line[10<<20:] + "\n"} {
		_, err := g.Writer().Write([]byte(p))
		require.NoError(t, err)
	}
	line = ""
	for range 64 {
		_, err := g.Writer().Write([]byte(note + "\n"))
		require.NoError(t, err)
	}
	assert.Less(t, held()-before, int64(2<<20))
	runtime.KeepAlive(g)
}

// trackedPass returns a function that reads a thousand requests through a guard
// and writes their responses.
func trackedPass(t testing.TB) (pass func(), lines int) {
	const n = 1000
	var in, out []byte
	for i := range n {
		id := fmt.Sprintf(`"call-%d"`, i)
		if i%2 == 0 {
			id = fmt.Sprint(1_000_000 + i)
		}
		in = append(in, request(id)+"\n"...)
		out = append(out, response(id)+"\n"...)
	}
	g := stdioguard.New(&endlessReader{data: in}, io.Discard)
	w := g.Writer()
	buf := make([]byte, len(in))
	return func() {
		if _, err := io.ReadFull(g, buf); err != nil {
			t.Fatal(err)
		}
		for p := out; len(p) > 0; {
			end := bytes.IndexByte(p, '\n') + 1
			if _, err := w.Write(p[:end]); err != nil {
				t.Fatal(err)
			}
			p = p[end:]
		}
	}, n
}

func TestTrackingAllocatesNothing(t *testing.T) {
	pass, _ := trackedPass(t)
	for range 4 {
		pass()
	}
	assert.Zero(t, fewestAllocs(pass), "allocations for a thousand requests and their responses")
}

// What is quadratic in the bytes written would not end here before any test's
// deadline; no time is measured.
func TestOutputInSmallPiecesIsLinear(t *testing.T) {
	var nest bytes.Buffer
	for nest.Len() < 512<<10 {
		nest.WriteString(`{"a":`)
	}
	for _, tt := range []struct {
		name  string
		in    []byte
		piece int
		out   int
	}{
		{"a message byte by byte", []byte(messageOf(1<<20) + "\n"), 1, 1},
		{"a message in pages", []byte(messageOf(16<<20) + "\n"), 4 << 10, 1},
		{"text byte by byte", bytes.Repeat([]byte("x"), 1<<20), 1, 0},
		{"objects that never close, byte by byte", nest.Bytes(), 1, 0},
		{"objects that never close, at once", nest.Bytes(), nest.Len(), 0},
		{"brackets that never close, then their line's end", append(bytes.Repeat([]byte("["), 512<<10), '\n'), 512, 0},
		{"arrays broken off at once", bytes.Repeat([]byte("[[[x"), 128<<10), 64 << 10, 0},
		{"whole values inside one that breaks off", slices.Concat([]byte("["), bytes.Repeat([]byte("{},"), 256<<10), []byte("x\n")), 100, 0},
		{"glued messages in pages", bytes.Repeat([]byte(note), 32<<10), 4 << 10, 32 << 10},
		{"glued messages and then text at once", append(bytes.Repeat([]byte(note), 32<<10), 'x'), 2 << 20, 0},
		{"a string of bytes that are not UTF-8", []byte(saying(strings.Repeat("\xff", 512<<10)) + "\n"), 100, 1},
		{"byte order marks byte by byte", bytes.Repeat([]byte(bom), 256<<10), 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			written := 0
			g := stdioguard.New(strings.NewReader(""), writerFunc(func(p []byte) (int, error) {
				written++
				return len(p), nil
			}), stdioguard.WithDiversion(nil))
			writeInPieces(t, g.Writer(), tt.in, tt.piece)
			assert.Equal(t, tt.out, written)
			require.NoError(t, g.Close())
		})
	}
}

func writeInPieces(t testing.TB, w io.Writer, in []byte, piece int) {
	for len(in) > 0 {
		n := min(len(in), piece)
		if _, err := w.Write(in[:n]); err != nil {
			t.Fatal(err)
		}
		in = in[n:]
	}
}

var errHungUp = errors.New("the client hung up")

func TestAWriteErrorIsFinal(t *testing.T) {
	for _, tt := range []struct {
		name string
		n    int // what the third Write returns, off from what it should
		err  error
		want error
	}{
		{"the write fails", -10, errHungUp, errHungUp},
		{"the write fails after everything", 0, errHungUp, errHungUp},
		{"the write is short", -10, nil, io.ErrShortWrite},
		{"the writer lies", 1, nil, io.ErrShortWrite},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls := 0
			w := writerFunc(func(p []byte) (int, error) {
				calls++
				if calls == 3 {
					return len(p) + tt.n, tt.err
				}
				return len(p), nil
			})
			g := stdioguard.New(strings.NewReader("x\n"+pingLine), w, stdioguard.WithDiversion(nil))
			n, err := g.Writer().Write([]byte(note + "\n"))
			require.NoError(t, err)
			require.Equal(t, len(note)+1, n)

			in := []byte(strings.Repeat(note+"\n", 3))
			n, err = g.Writer().Write(in)
			require.ErrorIs(t, err, tt.want)
			assert.GreaterOrEqual(t, n, 0)
			assert.LessOrEqual(t, n, len(in))
			for _, again := range []string{note + "\n", "text\n", note[:3], ""} {
				_, err := g.Writer().Write([]byte(again))
				assert.ErrorIs(t, err, tt.want, "sticky for %q", again)
			}
			_, err = g.Read(make([]byte, 100))
			assert.ErrorIs(t, err, tt.want, "an answer cannot be given either")
			assert.Equal(t, 3, calls, "nothing follows")
			assert.EqualValues(t, 2, g.Stats().Written)
		})
	}
}

// A failing stream takes so many bytes, fails once, and would take all that follows.
type failing struct {
	takes  int // bytes
	over   int // what Write returns beyond the bytes that it took
	err    error
	failed bool
	got    []byte
}

func (f *failing) Write(p []byte) (int, error) {
	if f.failed || len(f.got)+len(p) <= f.takes {
		f.got = append(f.got, p...)
		return len(p), nil
	}
	n := f.takes - len(f.got)
	f.got = append(f.got, p[:n]...)
	f.failed = true
	return n + f.over, f.err
}

// Answers and messages go to a stream that fails at each byte of them in turn.
// Nothing follows what it took, whoever writes, and everybody is told.
func TestAStreamThatFailsAtEveryByte(t *testing.T) {
	const in = "x\n" + pingLine + "y\n" + pingLine
	writes := []string{response("1") + "\n", note + note + "\n", "text " + response("1") + "\n", "[" + note + "]\n"}
	sent := []string{parseError("null"), writes[0], parseError("null"), lines(note), lines(note), lines(response("1")), writes[3]}
	client := strings.Join(sent, "")
	for _, tt := range []struct {
		name string
		over int
		err  error
		want error
	}{
		{"it fails", 0, errHungUp, errHungUp},
		{"it is short", 0, nil, io.ErrShortWrite},
		{"it takes more than there is", 1000, nil, io.ErrShortWrite},
		{"it takes less than nothing", -1000, nil, io.ErrShortWrite},
		{"it fails with an impossible count", 1000, errHungUp, errHungUp},
		{"it times out", 0, os.ErrDeadlineExceeded, os.ErrDeadlineExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for n := range len(client) {
				w := &failing{takes: n, over: tt.over, err: tt.err}
				g := stdioguard.New(strings.NewReader(in), w, stdioguard.WithDiversion(nil))
				left := n // bytes until it fails
				ok := func(lines ...string) bool {
					for _, line := range lines {
						left -= len(line)
					}
					return left >= 0
				}
				check := func(good bool, err error, what string) {
					t.Helper()
					if good {
						require.NoError(t, err, "%s, of %d bytes", what, n)
						return
					}
					require.ErrorIs(t, err, tt.want, "%s, of %d bytes", what, n)
				}
				p := make([]byte, 100)
				_, err := g.Read(p)
				check(ok(sent[0]), err, "the first Read")
				_, err = g.Writer().Write([]byte(writes[0]))
				check(ok(sent[1]), err, "the first Write")
				_, err = g.Read(p)
				check(ok(sent[2]), err, "the second Read")
				_, err = g.Writer().Write([]byte(writes[1]))
				check(ok(sent[3:5]...), err, "the second Write")
				_, err = g.Writer().Write([]byte(writes[2]))
				check(ok(sent[5]), err, "the third Write")
				_, err = g.Writer().Write([]byte(writes[3]))
				check(ok(sent[6]), err, "the last Write")
				require.Equal(t, client[:n], string(w.got))
			}
		})
	}
}

// Whatever happens at once, every line is whole and goes once, the counts agree
// with each other, and nobody is left, as a bubble insists on.
func TestEverythingAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name  string
		takes int // bytes that the client's stream takes
		close func(*stdioguard.Guard) error
	}{
		{"and CloseRead", 1 << 30, (*stdioguard.Guard).CloseRead},
		{"and Close", 1 << 30, (*stdioguard.Guard).Close},
		{"and the writer's Close", 1 << 30, func(g *stdioguard.Guard) error { return errors.Join(g.Writer().Close(), g.CloseRead()) }},
		{"and a stream that fails", 5000, (*stdioguard.Guard).CloseRead},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for round := range 6 {
				synctest.Test(t, func(t *testing.T) { everythingAtOnce(t, &failing{takes: tt.takes, err: errHungUp}, round, tt.close) })
			}
		})
	}
}

func everythingAtOnce(t *testing.T, client *failing, round int, close func(*stdioguard.Guard) error) {
	const writers, each = 4, 40
	log := newDivertLog()
	g := stdioguard.New(&endlessReader{data: []byte(lines(request("1"), "x", note, cancelled("1")))}, client, stdioguard.WithDiversion(log))
	w := g.Writer()
	var all sync.WaitGroup
	var written, text [writers]int
	var over atomic.Bool
	for i := range writers {
		all.Go(func() {
			for k := range each {
				m := saying(fmt.Sprintf("%d-%d", i, k))
				if _, err := io.WriteString(w, m+"\n"); err == nil {
					written[i]++
				}
				if _, err := io.WriteString(w, "text\n"); err == nil {
					text[i]++
				}
			}
		})
	}
	for range 2 {
		all.Go(func() {
			for g.Stats().Forwarded < int64(100*round) && !over.Load() {
				runtime.Gosched()
			}
			assert.NoError(t, close(g))
		})
		all.Go(func() {
			for range 200 {
				s := g.Stats()
				assert.Equal(t, s.Lines, s.Blank+s.Forwarded+s.Rejected)
			}
		})
	}
	_, err := g.WriteTo(io.Discard)
	over.Store(true)
	all.Wait()
	if err != nil {
		assert.ErrorIs(t, err, errHungUp)
	}
	require.NoError(t, g.Close())

	s := g.Stats()
	seen := map[string]bool{}
	answers := int64(0)
	for line := range strings.Lines(string(client.got)) {
		if !strings.HasSuffix(line, "\n") {
			require.True(t, client.failed, "half a line: %q", line)
			continue
		}
		if line == parseError("null") {
			answers++
			continue
		}
		require.False(t, seen[line], "twice: %q", line)
		seen[line] = true
	}
	require.Equal(t, s.Answered, answers)
	require.EqualValues(t, s.Written, len(seen))
	count, texts := 0, 0
	for i := range writers {
		count += written[i]
		texts += text[i]
		for k := range written[i] {
			require.True(t, seen[lines(saying(fmt.Sprintf("%d-%d", i, k)))], "a message that was written is lost")
		}
	}
	require.Len(t, seen, count)
	require.EqualValues(t, texts*len("text\n"), s.Diverted)
	require.Equal(t, strings.Repeat("text\n", texts), log.String())
}

// While a writer of the diversion is stuck, nothing else is.
func TestADiversionThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var got int64
		var out bytes.Buffer
		g := stdioguard.New(strings.NewReader("x\n"), &out, stdioguard.WithDiversion(writerFunc(func(p []byte) (int, error) {
			<-release
			got += int64(len(p))
			return len(p), nil
		})))
		text := []byte(strings.Repeat("x", 64<<10-1) + "\n")
		for range 256 { // 16 MiB
			n, err := g.Writer().Write(text)
			require.NoError(t, err)
			require.Len(t, text, n)
		}
		_, err := g.Writer().Write([]byte(note + "\n"))
		require.NoError(t, err)
		_, err = io.ReadAll(g)
		require.NoError(t, err)
		assert.Equal(t, note+"\n"+parseError("null"), out.String())
		assert.EqualValues(t, 16<<20, g.Stats().Diverted)
		assert.EqualValues(t, 12<<20, g.Stats().DiversionLost, "the buffer is of 4 MiB")

		start := time.Now()
		require.NoError(t, g.Close())
		assert.LessOrEqual(t, time.Since(start), time.Second, "Close gives it a moment")
		close(release)
		synctest.Wait()
		assert.EqualValues(t, 16<<20, got+g.Stats().DiversionLost, "every byte was written or lost")
	})
}

// A slow writer of the diversion gets everything that fits its buffer, and Close
// waits a moment for it.
func TestADiversionThatIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newDivertLog()
		slow := writerFunc(func(p []byte) (int, error) {
			time.Sleep(time.Millisecond)
			return log.Write(p)
		})
		g := stdioguard.New(strings.NewReader(""), io.Discard, stdioguard.WithDiversion(slow))
		var want strings.Builder
		start := time.Now()
		for i := range 1000 {
			fmt.Fprintf(&want, "line %d\n", i)
			_, err := fmt.Fprintf(g.Writer(), "line %d\n", i)
			require.NoError(t, err)
		}
		assert.Zero(t, time.Since(start), "nothing was held up")
		require.NoError(t, g.Close())
		assert.Equal(t, want.String(), log.String(), "in order")
		assert.Zero(t, g.Stats().DiversionLost)
	})
}

func TestADiversionThatFails(t *testing.T) {
	for _, tt := range []struct {
		name string
		n    int
		err  error
	}{
		{"at once", 0, errHungUp},
		{"in the middle", 2, errHungUp},
		{"without saying so", 2, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got int64
				var out bytes.Buffer
				g := stdioguard.New(strings.NewReader(""), &out, stdioguard.WithDiversion(writerFunc(func(p []byte) (int, error) {
					got += int64(min(len(p), tt.n))
					return min(len(p), tt.n), tt.err
				})))
				for range 10 {
					_, err := g.Writer().Write([]byte("hello\n" + note + "\n"))
					require.NoError(t, err)
					synctest.Wait()
				}
				require.NoError(t, g.Close())
				synctest.Wait()
				assert.Equal(t, strings.Repeat(note+"\n", 10), out.String())
				assert.EqualValues(t, 60, g.Stats().Diverted)
				assert.EqualValues(t, 60, got+g.Stats().DiversionLost, "every byte was written or lost")
			})
		})
	}
}

func TestADiversionToNowhere(t *testing.T) {
	var out bytes.Buffer
	g := stdioguard.New(strings.NewReader(""), &out, stdioguard.WithDiversion(nil))
	_, err := g.Writer().Write([]byte("hello\n" + note + "\n"))
	require.NoError(t, err)
	require.NoError(t, g.Close())
	assert.Equal(t, note+"\n", out.String())
	assert.EqualValues(t, 6, g.Stats().Diverted)
}

// As soon as a byte is diverted it can be read, without Close or a newline.
func TestTextIsDivertedAsItComes(t *testing.T) {
	s := newOutput(t, outConf{})
	for i, p := range []string{"50%", " 60%", "\n", "x{", "y"} {
		s.write([]byte(p))
		want := strings.TrimSuffix(strings.Join([]string{"50%", " 60%", "\n", "x{", "y"}[:i+1], ""), "{")
		s.log.await(int64(len(want)))
		assert.Equal(t, want, s.log.String())
	}
	s.close()
}

// By default what is diverted goes to the process's standard error.
func TestTheDiversionIsStandardError(t *testing.T) {
	const env = "STDIOGUARD_TEST_CHILD"
	if os.Getenv(env) != "" {
		g := stdioguard.New(strings.NewReader(""), os.Stdout)
		fmt.Fprintf(g.Writer(), "hello\n%s\n", note)
		g.Close()
		os.Exit(0)
	}
	var out, log bytes.Buffer
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), env+"=1")
	cmd.Stdout, cmd.Stderr = &out, &log
	require.NoError(t, cmd.Run())
	assert.Equal(t, note+"\n", out.String())
	assert.Equal(t, "hello\n", log.String())
}

// Bad lines on the input are answered while a message of the server's is in the
// making.
func TestAnAnswerDoesNotWaitForAMessageInTheMaking(t *testing.T) {
	var out bytes.Buffer
	g := stdioguard.New(strings.NewReader("x\n"), &out)
	_, err := g.Writer().Write([]byte(note[:12]))
	require.NoError(t, err)
	_, err = io.ReadAll(g)
	require.NoError(t, err)
	_, err = g.Writer().Write([]byte(note[12:] + "\n"))
	require.NoError(t, err)
	assert.Equal(t, parseError("null")+note+"\n", out.String())
}

// What a Writer's Close diverts of a message in the making is not sent.
func TestClosingTheWriterDivertsWhatIsHeld(t *testing.T) {
	for _, tt := range []struct {
		name  string
		close func(*stdioguard.Guard) error
	}{
		{"the writer's", func(g *stdioguard.Guard) error { return g.Writer().Close() }},
		{"the guard's", (*stdioguard.Guard).Close},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newOutput(t, outConf{})
			s.write([]byte(note[:12]))
			assert.Zero(t, s.guard.Stats().Diverted)
			require.NoError(t, tt.close(s.guard))
			s.log.await(12)
			assert.Equal(t, note[:12], s.log.String())
			assert.EqualValues(t, 12, s.guard.Stats().Diverted)
			require.NoError(t, tt.close(s.guard))
			n, err := s.guard.Writer().Write([]byte(note[12:] + "\n"))
			assert.Zero(t, n)
			assert.Equal(t, io.ErrClosedPipe, err)
			assert.Empty(t, s.client.lines)
			assert.Equal(t, note[:12], s.log.String(), "diverted once")
		})
	}
}

// BenchmarkWrite compares a line through the guard with the same line to the
// writer below it.
func BenchmarkWrite(b *testing.B) {
	for _, size := range []struct {
		name string
		n    int
	}{{"100B", 100}, {"4KiB", 4 << 10}, {"1MiB", 1 << 20}} {
		line := []byte(messageOf(size.n-1) + "\n")
		for _, peer := range []struct {
			name string
			w    io.Writer
		}{
			{"guard", stdioguard.New(strings.NewReader(""), &bareWriter{}).Writer()},
			{"bare", &bareWriter{}},
		} {
			b.Run("size="+size.name+"/peer="+peer.name, func(b *testing.B) {
				b.SetBytes(int64(len(line)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := peer.w.Write(line); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// A bareWriter copies, as a pipe does.
type bareWriter struct{ buf [64 << 10]byte }

func (w *bareWriter) Write(p []byte) (int, error) {
	for n := 0; n < len(p); {
		n += copy(w.buf[:], p[n:])
	}
	return len(p), nil
}

// BenchmarkTrack is a request read through the guard and its response written.
func BenchmarkTrack(b *testing.B) {
	pass, lines := trackedPass(b)
	pass()
	b.ReportAllocs()
	for b.Loop() {
		pass()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*lines), "ns/request")
}

// BenchmarkWriteSmallPieces has each case at two sizes: where time is linear the
// MB/s of both are the same.
func BenchmarkWriteSmallPieces(b *testing.B) {
	repeated := func(unit string) func(int) []byte {
		return func(n int) []byte { return bytes.Repeat([]byte(unit), n/len(unit)) }
	}
	message := func(n int) []byte { return []byte(messageOf(n-1) + "\n") }
	for _, c := range []struct {
		name  string
		make  func(n int) []byte
		piece int
		sizes []int
	}{
		{"message-by-byte", message, 1, []int{256 << 10, 1 << 20}},
		{"message-by-page", message, 4 << 10, []int{4 << 20, 16 << 20}},
		{"never-closed-by-byte", repeated(`{"a":`), 1, []int{256 << 10, 1 << 20}},
		{"never-closed-by-page", repeated(`{"a":`), 4 << 10, []int{4 << 20, 16 << 20}},
		{"never-closed-in-one", repeated(`{"a":`), 1 << 30, []int{4 << 20, 16 << 20}},
	} {
		for _, n := range c.sizes {
			in := c.make(n)
			b.Run(fmt.Sprintf("case=%s/size=%dKiB", c.name, n>>10), func(b *testing.B) {
				b.SetBytes(int64(len(in)))
				for b.Loop() {
					g := stdioguard.New(strings.NewReader(""), io.Discard, stdioguard.WithDiversion(nil))
					writeInPieces(b, g.Writer(), in, c.piece)
				}
			})
		}
	}
}

func TestAnUnderlyingWriterThatPanicsLeavesNoLock(t *testing.T) {
	g := stdioguard.New(strings.NewReader(""), writerFunc(func([]byte) (int, error) { panic("in the middle of a line") }))
	assert.Panics(t, func() { g.Writer().Write([]byte(note + "\n")) })
	_, err := g.Writer().Write([]byte(note + "\n"))
	assert.Equal(t, io.ErrShortWrite, err)
	require.NoError(t, g.Close())
	_, err = g.Writer().Write([]byte(note + "\n"))
	assert.Equal(t, io.ErrClosedPipe, err)
}

func TestADiversionThatMisbehaves(t *testing.T) {
	for _, tt := range []struct {
		name string
		w    writerFunc
		lost int64
	}{
		{"it panics", func([]byte) (int, error) { panic("out of ink") }, 5},
		{"it takes more than there is", func(p []byte) (int, error) { return len(p) + 1000, nil }, 5},
		{"it takes less than nothing", func(p []byte) (int, error) { return -5, errors.New("no") }, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := stdioguard.New(strings.NewReader(""), io.Discard, stdioguard.WithDiversion(tt.w))
				for range 2 {
					_, err := g.Writer().Write([]byte("text\n"))
					require.NoError(t, err)
					synctest.Wait()
				}
				assert.EqualValues(t, 10, g.Stats().Diverted)
				assert.EqualValues(t, 5+tt.lost, g.Stats().DiversionLost)
			})
		})
	}
}

// What is closed while a message is being written lets no further one out.
func TestCloseBetweenTwoMessagesOfAWrite(t *testing.T) {
	var out bytes.Buffer
	var g *stdioguard.Guard
	g = stdioguard.New(strings.NewReader(""), writerFunc(func(p []byte) (int, error) {
		assert.NoError(t, g.Writer().Close())
		return out.Write(p)
	}))
	_, err := g.Writer().Write([]byte(note + "\n" + note + "\n"))
	assert.Equal(t, io.ErrClosedPipe, err)
	assert.Equal(t, note+"\n", out.String())
}

func TestAWriteOfManyMessagesIsForgotten(t *testing.T) {
	g := stdioguard.New(strings.NewReader(""), io.Discard)
	many := []byte(strings.Repeat(note, 200_000) + "\n")
	_, err := g.Writer().Write(many)
	require.NoError(t, err)
	many = nil
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before := m.HeapAlloc
	runtime.KeepAlive(g)
	g = nil
	runtime.GC()
	runtime.ReadMemStats(&m)
	assert.Less(t, int64(before)-int64(m.HeapAlloc), int64(2<<20), "what the guard held")
}
