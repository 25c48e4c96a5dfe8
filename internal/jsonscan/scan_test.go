package jsonscan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A scanCase is a text and what Scan has to say of it. In text the mark § stands
// before the byte at fault and is taken out; a text that breaks off is at fault
// where it ends, and has none.
type scanCase struct {
	name string
	text string
	want Status
}

const mark = "§"

// parts returns the text without its mark and the offset of the mark, or of the
// text's end.
func (c scanCase) parts() (text string, fault int) {
	before, after, _ := strings.Cut(c.text, mark)
	return before + after, len(before)
}

// lineOf returns text as a line that fills its array, so that a read past the
// newline is an index out of range.
func lineOf(text string) []byte {
	line := make([]byte, len(text)+1)
	copy(line, text)
	line[len(text)] = '\n'
	return line
}

// valueCases judge the same wherever a value may stand.
var valueCases = slices.Concat(literalCases, numberCases, stringCases, arrayCases, objectCases, spaceCases)

// RFC 8259 §3.
var literalCases = []scanCase{
	{"true", `true`, Valid},
	{"false", `false`, Valid},
	{"null", `null`, Valid},
	{"true in capitals", `§True`, Syntax},
	{"null in capitals", `§NULL`, Syntax},
	{"true that breaks off", `tru`, Truncated},
	{"false that breaks off", `f`, Truncated},
	{"false that breaks off before its last letter", `fals`, Truncated},
	{"null that breaks off", `nul`, Truncated},
	{"true misspelled at its second letter", `t§Rue`, Syntax},
	{"true misspelled at its last letter", `tru§x`, Syntax},
	{"false misspelled at its second letter", `f§4lse`, Syntax},
	{"false misspelled at its last letter", `fals§y`, Syntax},
	{"null misspelled at its last letter", `nul§k`, Syntax},
	{"null with a letter more", `null§l`, Syntax},
	{"true with a digit more", `true§1`, Syntax},
	{"false run into true", `false§true`, Syntax},
	{"NaN", `§NaN`, Syntax},
	{"Infinity", `§Infinity`, Syntax},
	{"undefined", `§undefined`, Syntax},
	{"a word", `§hello`, Syntax},
	{"a comment", `§/* */1`, Syntax},
	{"a colon", `§:`, Syntax},
	{"a comma", `§,`, Syntax},
	{"a closing brace", `§}`, Syntax},
	{"NUL", "§\x00", Syntax},
	{"DEL", "§\x7f", Syntax},
	{"a letter outside ASCII", `§é`, Syntax},
	{"a byte order mark", "§\uFEFF1", Syntax},
	{"a byte that is not UTF-8", "§\xff", Syntax},
	{"half a rune at the end", "§\xe4\xb8", Syntax},
}

// RFC 8259 §6.
var numberCases = []scanCase{
	{"zero", `0`, Valid},
	{"minus zero", `-0`, Valid},
	{"one digit", `7`, Valid},
	{"every digit", `9876543210`, Valid},
	{"a negative integer", `-15`, Valid},
	{"400 digits", strings.Repeat("9", 400), Valid},
	{"zero with a fraction", `0.5`, Valid},
	{"a fraction that starts with zero", `10.01`, Valid},
	{"minus zero point zero", `-0.0`, Valid},
	{"an exponent", `1e5`, Valid},
	{"an exponent in capitals", `1E5`, Valid},
	{"an exponent with plus", `1e+5`, Valid},
	{"an exponent with minus", `1E-5`, Valid},
	{"an exponent that starts with zero", `1e007`, Valid},
	{"zero with an exponent", `0e0`, Valid},
	{"all at once", `-12.34e+56`, Valid},
	{"more than a float64 holds", `1e400`, Valid},
	{"a plus sign", `§+1`, Syntax},
	{"a minus alone", `-`, Truncated},
	{"a minus and a letter", `-§x`, Syntax},
	{"two minuses", `-§-1`, Syntax},
	{"a minus and a space", `-§ 1`, Syntax},
	{"minus Infinity", `-§Infinity`, Syntax},
	{"a leading zero", `0§1`, Syntax},
	{"a leading zero after minus", `-0§1`, Syntax},
	{"two zeros", `0§0`, Syntax},
	{"hexadecimal", `0§x10`, Syntax},
	{"an underscore", `1§_000`, Syntax},
	{"no digit before the point", `§.5`, Syntax},
	{"no digit after the point", `1.`, Truncated},
	{"a letter after the point", `1.§x`, Syntax},
	{"an exponent after the point", `1.§e5`, Syntax},
	{"two points", `1.§.5`, Syntax},
	{"a second fraction", `1.5§.5`, Syntax},
	{"no digit after the e", `1e`, Truncated},
	{"no digit after the e and its sign", `1e+`, Truncated},
	{"a letter after the e", `1e§x`, Syntax},
	{"a letter after the sign", `1e-§x`, Syntax},
	{"two signs", `1e+§-5`, Syntax},
	{"a fraction in the exponent", `1e5§.5`, Syntax},
	{"a second exponent", `1e5§e5`, Syntax},
	{"a second exponent after a fraction", `1.5e5§E5`, Syntax},
	{"a fullwidth digit", `§１`, Syntax},
	{"a fullwidth digit after one of ASCII", `1§１`, Syntax},
}

// RFC 8259 §7.
var stringCases = []scanCase{
	{"an empty string", `""`, Valid},
	{"one character", `"a"`, Valid},
	{"seven characters", `"1234567"`, Valid},
	{"eight characters", `"12345678"`, Valid},
	{"nine characters", `"123456789"`, Valid},
	{"every one-letter escape", `"\"\\\/\b\f\n\r\t"`, Valid},
	{"an escaped quote at the end", `"a\""`, Valid},
	{"an escaped backslash at the end", `"a\\"`, Valid},
	{"an escaped NUL", `"\u0000"`, Valid},
	{"hex digits of either case", `"\uabcd\uABCD\u0123\u4567\u89eF"`, Valid},
	{"a surrogate pair", `"\ud83d\ude00"`, Valid},
	{"a lone high surrogate", `"\ud800"`, Valid},
	{"a lone low surrogate", `"\udc00 x"`, Valid},
	{"DEL", "\"\x7f\"", Valid},
	{"U+2028, U+2029 and U+0085", "\"\u2028\u2029\u0085\"", Valid},
	{"U+FEFF", "\"\uFEFF\"", Valid},
	{"U+0000 to U+10FFFF's last", "\"\U0010FFFF\"", Valid},
	{"brackets, colons and commas", `"[{]}:,"`, Valid},
	{"single quotes", `§'a'`, Syntax},
	{"no closing quote", `"`, Truncated},
	{"no closing quote after text", `"abcdefghij`, Truncated},
	{"no closing quote after an escaped one", `"abc\"`, Truncated},
	{"a backslash at the end", `"abc\`, Truncated},
	{"an escape that breaks off after u", `"\u`, Truncated},
	{"an escape that breaks off after three digits", `"\u123`, Truncated},
	{"an escape of a letter that has none", `"\§x41"`, Syntax},
	{"an escape of a capital letter", `"\§N"`, Syntax},
	{"an escape of U", `"\§U0041"`, Syntax},
	{"an escape of a single quote", `"\§'"`, Syntax},
	{"an escape of zero", `"\§0"`, Syntax},
	{"an escape of a newline's code", "\"\\§\r\"", Syntax},
	{"an escape of a letter outside ASCII", `"\§é"`, Syntax},
	{"a first hex digit that is none", `"\u§g000"`, Syntax},
	{"a second hex digit that is none", `"\u0§G00"`, Syntax},
	{"a third hex digit that is none", `"\u00§/0"`, Syntax},
	{"a fourth hex digit that is none", `"\u000§:"`, Syntax},
	{"a quote for a hex digit", `"\u00§"`, Syntax},
	{"a backslash for a hex digit", `"\u§\u0041"`, Syntax},
	{"braces around the hex digits", `"\u§{41}"`, Syntax},
	{"a TAB", "\"a§\tb\"", Syntax},
	{"a CR", "\"a§\rb\"", Syntax},
	{"NUL", "\"§\x00\"", Syntax},
	{"the last control character", "\"12345678§\x1f\"", Syntax},
	{"a control character before one that is not UTF-8", "\"§\x01\xff\"", Syntax},
	{"a letter after the closing quote", `"a"§b`, Syntax},
	{"a string after a string", `"a"§"b"`, Syntax},
	{"a string after an escape and a quote", `"a\\"§"`, Syntax},
}

// RFC 8259 §5.
var arrayCases = []scanCase{
	{"an empty array", `[]`, Valid},
	{"a space in an empty array", `[ ]`, Valid},
	{"one element", `[1]`, Valid},
	{"elements of every kind", `[1,"a",true,false,null,[],{}]`, Valid},
	{"arrays in arrays", `[[],[[]],[[],[]]]`, Valid},
	{"an array that breaks off at once", `[`, Truncated},
	{"an array that breaks off in a number", `[12`, Truncated},
	{"an array that breaks off after an element", `["a"`, Truncated},
	{"an array that breaks off after a comma", `[1,`, Truncated},
	{"an array that breaks off after a space", `[1 `, Truncated},
	{"an array that breaks off inside another", `[[]`, Truncated},
	{"a leading comma", `[§,1]`, Syntax},
	{"a trailing comma", `[1,§]`, Syntax},
	{"a trailing comma and a space", `[1, §]`, Syntax},
	{"two commas", `[1,§,2]`, Syntax},
	{"a comma alone", `[§,]`, Syntax},
	{"no comma between numbers", `[1 §2]`, Syntax},
	{"no comma between strings", `["a"§"b"]`, Syntax},
	{"a colon for a comma", `["a"§:1]`, Syntax},
	{"a semicolon for a comma", `[1§;2]`, Syntax},
	{"an array closed as an object", `[1§}`, Syntax},
	{"an empty array closed as an object", `[§}`, Syntax},
	{"an array in an object closed as one", `{"a":[1§}`, Syntax},
	{"a comment after an element", `[1§//`, Syntax},
	{"a minus alone", `[-§]`, Syntax},
	{"a point without digits", `[1.§]`, Syntax},
	{"an e without digits", `[1e§]`, Syntax},
	{"an e and a sign without digits", `[1e+§]`, Syntax},
	{"true cut short", `[tru§]`, Syntax},
	{"a word after an element", `[1 §true]`, Syntax},
}

// RFC 8259 §4.
var objectCases = []scanCase{
	{"an empty object", `{}`, Valid},
	{"a space in an empty object", `{ }`, Valid},
	{"one member", `{"a":1}`, Valid},
	{"members of every kind", `{"a":1,"b":"c","d":true,"e":false,"f":null,"g":[],"h":{}}`, Valid},
	{"an empty name", `{"":0}`, Valid},
	{"a name with escapes", `{"\u0061\n\"":0}`, Valid},
	{"a name longer than a word", `{"abcdefghijklmnop":0}`, Valid},
	{"the same name twice", `{"a":1,"a":2}`, Valid},
	{"objects in objects", `{"a":{"b":{"c":{}}},"d":{}}`, Valid},
	{"an object that breaks off at once", `{`, Truncated},
	{"an object that breaks off in a name", `{"a`, Truncated},
	{"an object that breaks off after a name", `{"a"`, Truncated},
	{"an object that breaks off after a colon", `{"a":`, Truncated},
	{"an object that breaks off after a value", `{"a":""`, Truncated},
	{"an object that breaks off in a number", `{"a":1`, Truncated},
	{"an object that breaks off after a comma", `{"a":1,`, Truncated},
	{"an object that breaks off after a space", `{"a" `, Truncated},
	{"a name without quotes", `{§a:1}`, Syntax},
	{"a number for a name", `{§1:1}`, Syntax},
	{"null for a name", `{§null:1}`, Syntax},
	{"an array for a name", `{§[]:1}`, Syntax},
	{"a second name without quotes", `{"a":1,§b:2}`, Syntax},
	{"a name alone", `{"a"§}`, Syntax},
	{"a name and a comma", `{"a"§,"b":1}`, Syntax},
	{"an equals sign for a colon", `{"a"§=1}`, Syntax},
	{"no colon", `{"a" §1}`, Syntax},
	{"no value", `{"a":§}`, Syntax},
	{"no value before a comma", `{"a":§,"b":1}`, Syntax},
	{"two colons", `{"a":§:1}`, Syntax},
	{"a leading comma", `{§,"a":1}`, Syntax},
	{"a trailing comma", `{"a":1,§}`, Syntax},
	{"a trailing comma and a space", `{"a":1, §}`, Syntax},
	{"two commas", `{"a":1,§,"b":2}`, Syntax},
	{"no comma", `{"a":1 §"b":2}`, Syntax},
	{"an object closed as an array", `{"a":1§]`, Syntax},
	{"an empty object closed as an array", `{§]`, Syntax},
	{"an object in an array closed as one", `[{"a":1§]`, Syntax},
	{"a TAB in a name", "{\"a§\tb\":1}", Syntax},
	{"a bad escape in a name", `{"\§a":1}`, Syntax},
	{"a leading zero for a value", `{"a":0§1}`, Syntax},
	{"a comment before a name", `{§/**/"a":1}`, Syntax},
}

// RFC 8259 §2. The newline is whitespace there, but no line can contain it.
var spaceCases = []scanCase{
	{"space, tab and CR wherever they may stand", " \t\r{ \t\r\"a\" \t\r: \t\r[ \t\r1 \t\r, \t\r2 \t\r] \t\r, \t\r\"b\" \t\r: \t\r{ \t\r} \t\r} \t\r", Valid},
	{"a vertical tab", "[§\v]", Syntax},
	{"a form feed", "[1§\f]", Syntax},
	{"NUL", "[1,§\x00]", Syntax},
	{"a no-break space", "[1§\u00a0]", Syntax},
	{"U+0085", "{§\u0085}", Syntax},
	{"U+2028", "{\"a\"§\u2028:1}", Syntax},
	{"an ideographic space", "{\"a\":§\u30001}", Syntax},
	{"a space in a literal", `[tr§ ue]`, Syntax},
	{"a space in a number", `[1 §2]`, Syntax},
	{"a space after a number's point", `[1.§ 2]`, Syntax},
	{"a space after an exponent's sign", `[1e+§ 2]`, Syntax},
	{"a newline that is not the last byte", "[1,§\n2]", Syntax},
	{"a newline in a string", "\"a§\nb\"", Syntax},
}

// lineCases are about what stands beside a line's value (RFC 8259 §2).
var lineCases = []scanCase{
	{"nothing", ``, Truncated},
	{"only whitespace", " \t\r", Truncated},
	{"whitespace around a number", " \t\r7 \t\r", Valid},
	{"whitespace around an object", "\t{} ", Valid},
	{"two numbers", `1 §2`, Syntax},
	{"two objects", `{}§{}`, Syntax},
	{"two objects with a space", `{} §{}`, Syntax},
	{"an object and a bracket", `{}§}`, Syntax},
	{"an array and a bracket", `[]§]`, Syntax},
	{"a closing bracket", `§]`, Syntax},
	{"an array and a comma", `[]§,`, Syntax},
	{"a number and a comma", `7§,8`, Syntax},
	{"an object and garbage", `{"a":1} §garbage`, Syntax},
	{"an object and NUL", "{}§\x00", Syntax},
	{"an object and a byte that is not UTF-8", "{} §\xff", Syntax},
	{"a string and a fault in what would be the next", "\"a\" §\"\xff\"", Syntax},
	{"a comma after whitespace", ` §, 1`, Syntax},
}

func TestScanKnowsTheGrammar(t *testing.T) {
	for _, c := range slices.Concat(valueCases, lineCases) {
		t.Run(c.name, func(t *testing.T) { checkScan(t, c) })
	}
}

// A fault one or two levels down is found by other code than one at the top.
func TestScanKnowsTheGrammarInsideContainers(t *testing.T) {
	for _, c := range valueCases {
		for _, in := range []struct{ open, close string }{
			{`[`, `]`}, {`[[`, `]]`}, {`[0,[0, `, ` ],0]`}, {`{"n":`, `}`}, {`[{"a":0,"n": `, ` ,"z":0}]`},
		} {
			inner := c
			inner.text = in.open + c.text
			if c.want == Valid {
				inner.text += in.close
			}
			t.Run(c.name+" in "+in.open+in.close, func(t *testing.T) { checkScan(t, inner) })
		}
	}
}

// checkScan scans the text with 0 to 15 spaces before it, so that each of its
// bytes is met at each place in a word, and asks encoding/json for its opinion.
func checkScan(t *testing.T, c scanCase) {
	t.Helper()
	text, fault := c.parts()
	s := New(MaxDepth)
	for pad := range 16 {
		line := lineOf(strings.Repeat(" ", pad) + text)
		require.Equal(t, c.want, s.Scan(line, messageNames), "%q", line)
		if c.want != Valid {
			require.Equal(t, pad+fault, s.Offset(), "fault in %q", line)
		}
	}
	if !strings.Contains(text, "\n") { // whitespace to encoding/json, never inside a line
		valid := json.Valid([]byte(text)) && utf8.ValidString(text)
		require.Equal(t, c.want == Valid, valid, "encoding/json on %q", text)
	}
}

func TestScanRejectsEveryRawControlCharacter(t *testing.T) {
	for c := range byte(0x20) {
		for before := range 16 {
			s := New(1)
			line := lineOf(`"` + strings.Repeat("x", before) + string(rune(c)) + `y"`)
			require.Equal(t, Syntax, s.Scan(line, messageNames), "%q", line)
			require.Equal(t, 1+before, s.Offset(), "%q", line)
		}
	}
}

// utf8Cases are the bounds of each row of the Unicode Standard's Table 3-7,
// Well-Formed UTF-8 Byte Sequences, and what lies just past them.
var utf8Cases = []struct {
	name  string
	bytes string
	valid bool
}{
	{"U+007F, the last of one byte", "\x7f", true},
	{"U+0080, the first of two bytes", "\xc2\x80", true},
	{"U+07FF, the last of two bytes", "\xdf\xbf", true},
	{"U+0800, the first of three bytes", "\xe0\xa0\x80", true},
	{"U+0FFF, the last after E0", "\xe0\xbf\xbf", true},
	{"U+1000, the first after E1", "\xe1\x80\x80", true},
	{"U+CFFF, the last after EC", "\xec\xbf\xbf", true},
	{"U+D000, the first after ED", "\xed\x80\x80", true},
	{"U+D7FF, the last before the surrogates", "\xed\x9f\xbf", true},
	{"U+E000, the first after the surrogates", "\xee\x80\x80", true},
	{"U+FEFF", "\xef\xbb\xbf", true},
	{"U+FFFF, the last of three bytes", "\xef\xbf\xbf", true},
	{"U+10000, the first of four bytes", "\xf0\x90\x80\x80", true},
	{"U+3FFFF, the last after F0", "\xf0\xbf\xbf\xbf", true},
	{"U+40000, the first after F1", "\xf1\x80\x80\x80", true},
	{"U+FFFFF, the last after F3", "\xf3\xbf\xbf\xbf", true},
	{"U+100000, the first after F4", "\xf4\x80\x80\x80", true},
	{"U+10FFFF, the last", "\xf4\x8f\xbf\xbf", true},
	{"runes of two, three and four bytes in a row", "é中🙂é🙂中", true},

	{"the first tail byte alone", "\x80", false},
	{"the last tail byte alone", "\xbf", false},
	{"U+0000 in two bytes", "\xc0\x80", false},
	{"a quote in two bytes", "\xc0\xa2", false},
	{"U+007F in two bytes", "\xc1\xbf", false},
	{"U+0000 in three bytes", "\xe0\x80\x80", false},
	{"U+07FF in three bytes", "\xe0\x9f\xbf", false},
	{"U+0000 in four bytes", "\xf0\x80\x80\x80", false},
	{"U+FFFF in four bytes", "\xf0\x8f\xbf\xbf", false},
	{"U+D800, the first surrogate", "\xed\xa0\x80", false},
	{"U+DBFF, the last high surrogate", "\xed\xaf\xbf", false},
	{"U+DC00, the first low surrogate", "\xed\xb0\x80", false},
	{"U+DFFF, the last surrogate", "\xed\xbf\xbf", false},
	{"a surrogate pair as CESU-8 has it", "\xed\xa0\xbd\xed\xb8\x80", false},
	{"U+110000, the first past the end", "\xf4\x90\x80\x80", false},
	{"U+13FFFF", "\xf4\xbf\xbf\xbf", false},
	{"U+140000", "\xf5\x80\x80\x80", false},
	{"F7", "\xf7\xbf\xbf\xbf", false},
	{"five bytes", "\xf8\x88\x80\x80\x80", false},
	{"six bytes", "\xfc\x84\x80\x80\x80\x80", false},
	{"FE", "\xfe", false},
	{"FF", "\xff", false},
	{"the marks of UTF-16", "\xff\xfe", false},
	{"ISO 8859-1", "\xe9t\xe9", false},
	{"one byte of two", "\xc3", false},
	{"one byte of three", "\xe4", false},
	{"two bytes of three", "\xe4\xb8", false},
	{"one byte of four", "\xf0", false},
	{"two bytes of four", "\xf0\x9f", false},
	{"three bytes of four", "\xf0\x9f\x99", false},
	{"a lead byte for the second of two", "\xc3\xc3", false},
	{"a lead byte for the second of three", "\xe4\xe4\xb8", false},
	{"a lead byte for the third of three", "\xe4\xb8\xc3", false},
	{"a lead byte for the second of four", "\xf0\xf0\x9f\x99", false},
	{"a lead byte for the third of four", "\xf0\x9f\xe4", false},
	{"a lead byte for the fourth of four", "\xf0\x9f\x99\xc3", false},
	{"a tail byte too many after two", "\xc3\xa9\xa9", false},
	{"a tail byte too many after four", "\xf0\x9f\x99\x82\x82", false},
}

// Each sequence is met at each place in a word, after ASCII and after runes of
// two and three bytes, with the string's end right after it and far away.
func TestScanKnowsUTF8(t *testing.T) {
	for _, c := range utf8Cases {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.valid, utf8.ValidString(c.bytes), "the table is wrong")
			for _, filler := range []string{"x", "é", "中"} {
				for before := range 16 {
					for _, after := range []string{"", "x", "é", "0123456789abcdef"} {
						checkUTF8(t, strings.Repeat(filler, before), c.bytes, after)
					}
				}
			}
		})
	}
}

// What is not UTF-8 is passed over and said so; a later fault is what it is.
func TestALenientScanPassesOverWhatIsNotUTF8(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		status     Status
		offset     int
		repair     bool
	}{
		{"nothing to repair", `["é"]`, Valid, 6, false},
		{"a byte", "[\"\xff\"]", Valid, 5, true},
		{"a rune cut short", "[\"\xe4\xb8\"]", Valid, 6, true},
		{"in a name", "{\"\xff\":1}", Valid, 7, true},
		{"before a control character", "\"\xff\x01\"", Syntax, 2, true},
		{"before an unknown escape", "\"\xff\\q\"", Syntax, 3, true},
		{"in a string before what is no value", "[\"\xff\"x]", Syntax, 4, true},
		{"before a number that goes on after a zero", "[\"\xff\",01]", Syntax, 6, true},
		{"before a level too deep", "[\"\xff\",[", TooDeep, 5, true},
		{"before the text breaks off", "[\"\xff\",", Truncated, 5, true},
		{"a rune that may go on", "[\"\xe4\xb8", Truncated, 2, false},
		{"outside a string", "[\xff]", Syntax, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := New(1)
			s.Lenient = true
			assert.Equal(t, tt.status, s.Value(lineOf(tt.text), messageNames))
			assert.Equal(t, tt.offset, s.Offset())
			assert.Equal(t, tt.repair, s.Repair)
		})
	}
}

// checkUTF8 scans a string that holds the three, and the same as a name. The
// fault is the first byte of the first sequence that utf8.DecodeRune refuses.
func checkUTF8(t *testing.T, before, middle, after string) {
	t.Helper()
	content := before + middle + after
	want, fault := Valid, invalidAt(content)
	if fault >= 0 {
		want = UTF8
	}
	for _, around := range [][2]string{{`"`, `"`}, {`{"`, `":0}`}} {
		s := New(1)
		line := lineOf(around[0] + content + around[1])
		require.Equal(t, want, s.Scan(line, messageNames), "%q", line)
		if want != Valid {
			require.Equal(t, len(around[0])+fault, s.Offset(), "%q", line)
		}
	}
}

func invalidAt(s string) int {
	for i, r := range s {
		if _, size := utf8.DecodeRuneInString(s[i:]); r == utf8.RuneError && size == 1 {
			return i
		}
	}
	return -1
}

// Every lead byte with every second byte, and the tails at their bounds.
func TestScanAgreesWithUnicodeUTF8(t *testing.T) {
	bounds := []string{"", "\x80", "\xbf", "\xc0", "\x7f"}
	for lead := 0x80; lead < 0x100; lead++ {
		for second := 0x20; second < 0x100; second++ {
			if second == '"' || second == '\\' {
				continue // ends the string or starts an escape
			}
			for _, third := range bounds {
				for _, fourth := range bounds {
					content := string([]byte{byte(lead), byte(second)}) + third + fourth
					s := New(1)
					got := s.Scan(lineOf(`"`+content+`"`), messageNames)
					if fault := invalidAt(content); fault < 0 && got != Valid || fault >= 0 && (got != UTF8 || s.Offset() != 1+fault) {
						t.Fatalf("%q: status %d at %d, the invalid byte is at %d", content, got, s.Offset(), 1+fault)
					}
				}
			}
		}
	}
}

// A line that ends inside a rune is at fault there, not where it ends.
func TestScanFindsARuneThatTheLineCutsShort(t *testing.T) {
	for _, whole := range []string{"é", "中", "🙂"} {
		for n := 1; n < len(whole); n++ {
			for before := range 16 {
				s := New(1)
				line := lineOf(`["` + strings.Repeat("x", before) + whole[:n])
				require.Equal(t, UTF8, s.Scan(line, messageNames), "%q", line)
				require.Equal(t, 2+before, s.Offset(), "%q", line)
			}
		}
	}
}

func TestScanFindsTheFirstFault(t *testing.T) {
	for _, c := range []struct {
		scanCase
		depth int
	}{
		{scanCase{"a scalar needs no depth", `"a"`, Valid}, 1},
		{scanCase{"the outermost container counts", `[]`, Valid}, 1},
		{scanCase{"one level too many", `[§[]]`, TooDeep}, 1},
		{scanCase{"one level too many in an object", `{"a":§{}}`, TooDeep}, 1},
		{scanCase{"exactly the limit", `[{"a":[]}]`, Valid}, 3},
		{scanCase{"an array past the limit", `[{"a":[§[]]}]`, TooDeep}, 3},
		{scanCase{"an object past the limit", `[{"a":[§{}]}]`, TooDeep}, 3},
		{scanCase{"siblings do not add up", `[[],[],{},{"a":[]},[[]]]`, Valid}, 3},
		{scanCase{"depth comes back after siblings", `[[[]],[[]],[[§[]]]]`, TooDeep}, 3},
		{scanCase{"brackets in strings do not count", `["[[[[",{"{{{{":"[[[["}]`, Valid}, 2},
		{scanCase{"a fault after the limit", `[§[x`, TooDeep}, 1},
		{scanCase{"a fault before the limit", `[§x,[[`, Syntax}, 1},
		{scanCase{"invalid UTF-8 after the limit", "[§[\"\xff\"]]", TooDeep}, 1},
		{scanCase{"invalid UTF-8 before the limit", "[\"§\xff\",[]]", UTF8}, 1},
		{scanCase{"invalid UTF-8 before garbage", "[\"§\xff\"x", UTF8}, 1},
		{scanCase{"garbage before invalid UTF-8", "[§x\"\xff\"", Syntax}, 1},
		{scanCase{"invalid UTF-8 before the line breaks off", "[\"§\xff", UTF8}, 1},
		{scanCase{"the line breaks off past the limit", `[§[`, TooDeep}, 1},
		{scanCase{"no room for a bracket that would be wrong anyway", `[1 §[`, Syntax}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, fault := c.parts()
			s := New(c.depth)
			require.Equal(t, c.want, s.Scan(lineOf(text), messageNames))
			if c.want != Valid {
				require.Equal(t, fault, s.Offset())
			}
		})
	}
}

func TestScanHoldsEveryDepthToTheLimit(t *testing.T) {
	for _, depth := range []int{1, 2, 63, 64, 65, 1000, MaxDepth} {
		for _, level := range []struct{ open, close string }{{`[`, `]`}, {`{"a":`, `}`}} {
			deep := func(n int) string {
				return strings.Repeat(level.open, n) + "1" + strings.Repeat(level.close, n)
			}
			s := New(depth)
			require.Equal(t, Valid, s.Scan(lineOf(deep(depth)), messageNames), "depth %d of %s", depth, level.open)
			require.Equal(t, TooDeep, s.Scan(lineOf(deep(depth+1)), messageNames), "depth %d of %s", depth, level.open)
			require.Equal(t, depth*len(level.open), s.Offset(), "depth %d of %s", depth, level.open)
			require.Equal(t, Valid, s.Scan(lineOf(deep(depth)), messageNames), "depth %d after one too deep", depth)
		}
	}
}

func TestNewPanicsOnADepthThatItCannotKeep(t *testing.T) {
	for _, depth := range []int{-1, 0, MaxDepth + 1} {
		assert.Panics(t, func() { New(depth) }, "depth %d", depth)
	}
}

// messageNames are the names that the guard looks for, and six of eight.
var (
	messageNameList = []string{"jsonrpc", "id", "method", "params", "result", "error"}
	messageNames    = NewNames(messageNameList...)
)

const usualOpening = `{"jsonrpc":"2.0"`

// describe writes what a scan of line found of each name: name=value, then
// "again" and "other" where they are set.
func describe(m Members, line []byte) string {
	var found []string
	for k, name := range messageNameList {
		if m.Seen.Has(k) {
			start, end := m.Span(k)
			found = append(found, fmt.Sprintf("%s=%s", name, line[start:end]))
		}
		if m.Again.Has(k) {
			found = append(found, name+" again")
		}
		if m.Other.Has(k) {
			found = append(found, name+" other")
		}
	}
	return strings.Join(found, ", ")
}

var memberCases = []struct {
	name string
	text string
	want string
}{
	{"a request", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `jsonrpc="2.0", id=1, method="ping"`},
	{"a response", `{"id":"a","result":{},"jsonrpc":"2.0"}`, `jsonrpc="2.0", id="a", result={}`},
	{"all of them", `{"error":6,"result":5,"params":4,"method":3,"id":2,"jsonrpc":1}`, `jsonrpc=1, id=2, method=3, params=4, result=5, error=6`},
	{"values of every kind", `{"jsonrpc":-1.5e3,"id":true,"method":null,"params":[1,[2]],"result":{"a":{}},"error":"\"x\\"}`,
		`jsonrpc=-1.5e3, id=true, method=null, params=[1,[2]], result={"a":{}}, error="\"x\\"`},
	{"whitespace around names and values", "\t{ \"id\" :\t1 ,\r\"method\": \"m\"\t, \"params\" : [ 1 ] } ", `id=1, method="m", params=[ 1 ]`},
	{"whitespace in a string value", `{"id":" a "}`, `id=" a "`},
	{"free members beside", `{"a":1,"id":2,"_meta":{},"i":3,"idx":4,"":5}`, `id=2`},
	{"no members", `{}`, ``},
	{"names in an inner object", `{"a":{"id":1,"method":"m"},"id":2}`, `id=2`},
	{"names in an object in an array", `{"params":[{"id":1}]}`, `params=[{"id":1}]`},
	{"names in an array of objects", `[{"id":1,"method":"m"}]`, ``},
	{"names as values", `{"a":"id","b":"method"}`, ``},
	{"a string alone", `"id"`, ``},
	{"a name twice", `{"id":1,"id":2}`, `id=2, id again`},
	{"a name three times", `{"id":1,"a":0,"id":2,"id":3}`, `id=3, id again`},
	{"a name twice, once in escapes", `{"id":1,"\u0069d":2}`, `id=2, id again`},
	{"an inner name does not count as twice", `{"id":1,"params":{"id":2}}`, `id=1, params={"id":2}`},

	{"a name in escapes", `{"\u0069\u0064":1}`, `id=1`},
	{"a name half in escapes", `{"m\u0065thod":1,"jsonrp\u0063":2}`, `jsonrpc=2, method=1`},
	{"escapes with hex digits in capitals", `{"para\u006Ds":1}`, `params=1`},
	{"a name in capitals", `{"ID":1}`, `id other`},
	{"a name with one capital (GHSA-wvj2-96wp-fq3f)", `{"method":"a","Method":"b"}`, `method="a", method other`},
	{"the longest name in capitals", `{"JSONRPC":1,"jsonRPC":2}`, `jsonrpc other`},
	{"a capital in an escape", `{"\u004dethod":1}`, `method other`},
	{"a long s for an s (GHSA-wvj2-96wp-fq3f)", `{"params":1,"param\u017f":2}`, `params=1, params other`},
	{"a long s as it is", `{"paramſ":1,"reſult":2}`, `params other, result other`},
	{"a long s and a capital", `{"Re\u017fult":1}`, `result other`},
	{"a NUL after a name (GHSA-q382-vc8q-7jhj)", `{"method":"a","method\u0000":"b"}`, `method="a", method other`},
	{"a NUL and more after a name", `{"id\u0000 and more":1}`, `id other`},
	{"a NUL after the longest name", `{"jsonrpc\u0000":1}`, `jsonrpc other`},
	{"a NUL after a name in capitals", `{"JSONRPC\u0000":1}`, `jsonrpc other`},
	{"a NUL after a name in escapes", `{"\u0069\u0064\u0000\u0000":1}`, `id other`},
	{"a NUL before a name", `{"\u0000id":1}`, ``},
	{"a NUL in a name", `{"i\u0000d":1}`, ``},
	{"a NUL alone", `{"\u0000":1}`, ``},
	{"a name and another escape", `{"id\n":1,"id\u0001":2,"id\\":3,"id\/":4}`, ``},
	{"a name with a letter less", `{"i":1,"jsonrp":2,"metho":3}`, ``},
	{"a name with a letter more", `{"idd":1,"jsonrpcs":2,"methods":3}`, ``},
	{"a name with a space", `{" id":1,"id ":2}`, ``},
	{"bytes that differ from a letter in bit 0x20 only", `{"\u0009d":1,"I\u0044":2,"@d":3}`, `id other`},
	{"a letter with an accent", `{"ïd":1,"méthod":2}`, ``},
	{"a dotless or dotted i does not fold to i", `{"ıd":1,"İd":2}`, ``},
	{"a rune whose number is the bytes of a name", `{"\u6469":1,"摩":2}`, ``},
	{"a fullwidth letter does not fold", `{"ｉd":1}`, ``},
	{"an escaped surrogate", `{"\ud83d\ude00id":1,"id\ud800":2}`, ``},

	{"a member ends at a comma", `{"id":1,`, `id=1`},
	{"a member ends at a brace", `{"id":1}`, `id=1`},
	{"a member ends at a comma after spaces", `{"id":1  ,`, `id=1`},
	{"a number may go on", `{"id":1`, ``},
	{"a space after a number is no end", `{"id":1 `, ``},
	{"a string is no end", `{"id":"a"`, ``},
	{"an array is no end", `{"params":[]`, ``},
	{"an object is no end", `{"id":1,"params":{}`, `id=1`},
	{"a value that breaks off", `{"id":1,"method":"pi`, `id=1`},
	{"a name that breaks off", `{"id":1,"metho`, `id=1`},
	{"a name without a value", `{"id":1,"method"`, `id=1`},
	{"a fault right after a value", `{"id":1x`, ``},
	{"a fault after a value and a space", `{"id":1 "method":"m"}`, ``},
	{"a fault right after a comma", `{"id":1,}`, `id=1`},
	{"a fault in the next value", `{"id":1,"method":nil,"params":[]}`, `id=1`},
	{"what follows the fault is not looked at", `{"id":1,"a":01,"method":"m"}`, `id=1`},
	{"invalid UTF-8 in the next value", "{\"id\":1,\"method\":\"\xff\",\"params\":1}", `id=1`},
	{"invalid UTF-8 in the next name", "{\"id\":1,\"method\xff\":1}", `id=1`},
	{"members before the limit of depth", `{"id":1,"method":"m","params":[[[[1]]]],"error":1}`, `id=1, method="m"`},
	{"garbage after the object", `{"id":1,"method":"m"} x`, `id=1, method="m"`},
	{"the second object of two", `{"id":1}{"method":"m"}`, `id=1`},
}

// Each text with 0 to 15 spaces before it: names are compared a word at a time.
func TestScanReportsMembers(t *testing.T) {
	for _, c := range memberCases {
		t.Run(c.name, func(t *testing.T) {
			s := New(4)
			for pad := range 16 {
				line := lineOf(strings.Repeat(" ", pad) + c.text)
				s.Scan(line, messageNames)
				require.Equal(t, c.want, describe(s.Members, line), "%q", line)
			}
		})
	}
}

func TestScanForgetsTheMembersOfTheScanBefore(t *testing.T) {
	s := New(10)
	for _, text := range []string{`{"id":1,"id":2,"Method":3,`, `{"params":4}`, `[`, `7`} {
		line := lineOf(text)
		s.Scan(line, messageNames)
		fresh := New(10)
		fresh.Scan(line, messageNames)
		require.Equal(t, describe(fresh.Members, line), describe(s.Members, line), "%q", line)
	}
	require.Empty(t, describe(s.Members, nil))
}

// Every way to write one letter of a name, decoded by encoding/json and compared
// by strings.EqualFold, which folds as Unicode's simple case folding does.
func TestNamesAreMatchedAsTheirDecodedFormIs(t *testing.T) {
	letters := []string{"a", "A", "d", "D", "s", "S", "ſ", `\u017f`, "k", "\u212a", `\u212A`, "é", "中", "🙂",
		`\u0000`, `\n`, `\\`, `\"`, `\ud800`, " ", "", "@", "`", "{", "[", "\x7f"}
	for _, name := range messageNameList {
		for at := range len(name) + 1 {
			spellings := slices.Concat(letters, hexForms(name, at))
			for _, spelling := range spellings {
				checkSpelling(t, name[:at]+spelling+name[min(at+1, len(name)):])
				checkSpelling(t, name[:at]+spelling+name[at:])
				checkSpelling(t, strings.ToUpper(name[:at])+spelling+name[min(at+1, len(name)):])
			}
		}
	}
}

// hexForms are the escapes of the letter of name at i and of its capital.
func hexForms(name string, i int) []string {
	if i == len(name) {
		return nil
	}
	low := fmt.Sprintf(`\u%04x`, name[i])
	high := fmt.Sprintf(`\u%04X`, name[i]-'a'+'A')
	return []string{name[i : i+1], strings.ToUpper(name[i : i+1]), low, high}
}

func checkSpelling(t *testing.T, raw string) {
	t.Helper()
	var decoded string
	require.NoError(t, json.Unmarshal([]byte(`"`+raw+`"`), &decoded))
	var want []string
	for _, name := range messageNameList {
		head, _, cut := strings.Cut(decoded, "\x00")
		switch {
		case decoded == name:
			want = append(want, name+"=0")
		case strings.EqualFold(decoded, name), cut && strings.EqualFold(head, name):
			want = append(want, name+" other")
		}
	}
	line := lineOf(`{"` + raw + `":0}`)
	s := New(1)
	require.Equal(t, Valid, s.Scan(line, messageNames), "%q", line)
	require.Equal(t, strings.Join(want, ", "), describe(s.Members, line), "%q", line)
}

func TestNewNamesPanicsOnNamesThatItCannotMatch(t *testing.T) {
	for _, names := range [][]string{
		{""}, {"eightlet"}, {"Id"}, {"_meta"}, {"naïve"}, {"id2"},
		{"a", "b", "c", "d", "e", "f", "g", "h", "i"}, {"method", "message"},
	} {
		assert.Panics(t, func() { NewNames(names...) }, "%q", names)
	}
	assert.NotPanics(t, func() { NewNames("a", "b", "c", "d", "e", "f", "g", "seventh") })
}

func TestANameOfEachLengthIsFound(t *testing.T) {
	list := []string{"a", "bb", "ccc", "dddd", "eeeee", "ffffff", "ggggggg"}
	names := NewNames(list...)
	s := New(1)
	for k, name := range list {
		for _, text := range []string{`{"` + name + `":1}`, `{"` + name + `" : 1, "longer than a word":2}`, `{"":0,"longer than a word":2,"` + name + `":1}`} {
			line := lineOf(text)
			require.Equal(t, Valid, s.Scan(line, names))
			require.Equal(t, Set(1)<<k, s.Seen, "%q", text)
			start, end := s.Span(k)
			require.Equal(t, "1", string(line[start:end]))
		}
		require.Equal(t, Valid, s.Scan(lineOf(`{"`+name+`x":1,"`+name[1:]+`":1,"x`+name+`":1}`), names))
		require.Zero(t, s.Seen|s.Other, "not quite %s", name)
	}
}

// The eighth name is the last that a Set has room for.
func TestEightNamesAreKeptApart(t *testing.T) {
	names := NewNames("a", "b", "c", "d", "e", "f", "g", "h")
	line := lineOf(`{"h":1,"a":2,"H":3,"h":4,"G":5}`)
	s := New(1)
	require.Equal(t, Valid, s.Scan(line, names))
	assert.Equal(t, Set(0b10000001), s.Seen)
	assert.Equal(t, Set(0b10000000), s.Again)
	assert.Equal(t, Set(0b11000000), s.Other)
	start, end := s.Span(7)
	assert.Equal(t, "4", string(line[start:end]), "the last of two")
}

// In these texts the mark stands after the value.
func TestValueEndsWhereTheValueDoes(t *testing.T) {
	for _, c := range []struct {
		name string
		text string
	}{
		{"an object and more", `{"a":[1,"}"]}§ {"b"`},
		{"two objects without a gap", `{}§{}`},
		{"an array and a bracket", `[[]]§]`},
		{"a string and a letter", `"a\""§b`},
		{"a literal and a letter", `true§x`},
		{"a number and a letter", `12§x`},
		{"a zero and a digit", `0§1`},
		{"a number with an exponent and a point", `1.5e3§.2`},
		{"spaces before the value, and after it", " \t{}§ \t"},
		{"bytes that are not UTF-8 after the value", "[]§\xff\xfe"},
		{"a newline after the value", "[1]§\n[2"},
		{"nothing after the value", `{"a":1}§`},
		{"a number at the end", `42§`},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, end := scanCase{text: c.text}.parts()
			s := New(MaxDepth)
			require.Equal(t, Valid, s.Value(lineOf(text), messageNames))
			require.Equal(t, end, s.Offset())
		})
	}
}

// A verdict is all that a scan by Value or Resume tells.
type verdict struct {
	Status  Status
	Offset  int
	Members string
}

func verdictOf(s *Scanner, status Status, text string) verdict {
	return verdict{status, s.Offset(), describe(s.Members, []byte(text))}
}

// splitTexts are the texts of every table, within a few levels of depth.
func splitTexts() []string {
	var texts []string
	for _, c := range slices.Concat(valueCases, lineCases) {
		text, _ := c.parts()
		texts = append(texts, text, `{"id":1,"params":[`+text, `{"id":`+text+`,"method":"m"}`)
	}
	for _, c := range memberCases {
		texts = append(texts, c.text)
	}
	for _, c := range utf8Cases {
		texts = append(texts, `["`+c.bytes+`é",0]`, `{"id":7,"`+c.bytes+`":0}`)
	}
	for _, after := range []string{
		`}`, ` }`, `,"id":1,"method":"ping"}`, "\t,\r\"id\" : 1 }", `,"jsonrpc":"2.0"}`, `,"JSONRPC":1}`, `,}`, `]`, `:1}`, `"}`,
		``, `,`, ` `, `x`, "\xff", `}}`, `,"params":[[[[]]]],"id":1}`, `,"params":[[[`, `,"id":1x`, `,"method":"\x"`,
	} {
		texts = append(texts, usualOpening+after)
	}
	return texts
}

// What a scan says must not depend on the pieces that the text came in.
func TestASuspendedScanGoesOnAsIfItHadBeenWhole(t *testing.T) {
	for _, text := range splitTexts() {
		s := New(4)
		whole := verdictOf(s, s.Value(lineOf(text), messageNames), text)
		for cut := range len(text) {
			status := s.Value(lineOf(text[:cut]), messageNames)
			if status == Truncated {
				status = s.Resume(lineOf(text))
			} else if isNumber(text[:cut]) {
				continue // whole as it stands, whatever a longer text makes of it
			}
			require.Equal(t, whole, verdictOf(s, status, text), "%q cut at %d", text, cut)
		}
	}
}

func TestAScanThatIsSuspendedAtEveryByteGoesOn(t *testing.T) {
	for _, text := range splitTexts() {
		s := New(4)
		whole := verdictOf(s, s.Value(lineOf(text), messageNames), text)
		status := s.Value(lineOf(""), messageNames)
		for n := 1; n <= len(text) && status == Truncated; n++ {
			status = s.Resume(lineOf(text[:n]))
		}
		if n := s.Offset(); status == Valid && isNumber(text[:n]) {
			continue
		}
		require.Equal(t, whole, verdictOf(s, status, text), "%q", text)
	}
}

// An opening only spares the machine the way: to the same text it says the same, at
// any depth, in one piece or in two.
func TestAnOpeningChangesNothing(t *testing.T) {
	withOpening := messageNames.WithOpening(usualOpening)
	for _, text := range splitTexts() {
		for depth := 1; depth <= 4; depth++ {
			plain, opened := New(depth), New(depth)
			want := verdictOf(plain, plain.Scan(lineOf(text), messageNames), text)
			require.Equal(t, want, verdictOf(opened, opened.Scan(lineOf(text), withOpening), text), "%q within %d", text, depth)
			require.Equal(t, plain.Open(nil), opened.Open(nil), "%q within %d", text, depth)
			for cut := range len(text) {
				wants, gots := plain.Value(lineOf(text[:cut]), messageNames), opened.Value(lineOf(text[:cut]), withOpening)
				require.Equal(t, wants, gots, "%q cut at %d", text, cut)
				if wants == Truncated {
					wants, gots = plain.Resume(lineOf(text)), opened.Resume(lineOf(text))
				}
				require.Equal(t, verdictOf(plain, wants, text), verdictOf(opened, gots, text), "%q cut at %d", text, cut)
			}
		}
	}
}

func TestWithOpeningPanicsOnWhatIsNone(t *testing.T) {
	for _, text := range []string{
		``, `{"jsonrpc":"2.0`, `{"jsonrpc":"2.0",`, `{"jsonrpc":"2.0"}`, `{"jsonrpc":"2" ,`, `{"jsonrpc": 2.0,`, `{"a":{"b":1234}}`,
	} {
		assert.Panics(t, func() { messageNames.WithOpening(text) }, "%q", text)
	}
}

// isNumber reports whether text is a number at the top level: the one value
// that has no end of its own.
func isNumber(text string) bool {
	text = strings.Trim(text, " \t\r")
	return json.Valid([]byte(text)) && strings.Trim(text, "-+.eE0123456789") == ""
}

// A long string that breaks off is not scanned anew for each piece of it: the
// scan stands where the piece ended, less what may be part of an escape or rune.
func TestASuspendedScanStandsNearTheEnd(t *testing.T) {
	const longestUnit = 5 // \u000 of an escape that lacks a digit
	text := `{"id":1,"params":["` + strings.Repeat(`0123456789\u00e9é中🙂\n`, 50)
	s := New(4)
	status := s.Value(lineOf(""), messageNames)
	for n := 1; n <= len(text); n++ {
		require.Equal(t, Truncated, status)
		status = s.Resume(lineOf(text[:n]))
		require.GreaterOrEqual(t, s.Offset(), n-longestUnit)
	}
}

func TestScanAllocatesNothing(t *testing.T) {
	var lines [][]byte
	for _, c := range slices.Concat(valueCases, lineCases) {
		text, _ := c.parts()
		lines = append(lines, lineOf(text))
	}
	for _, c := range memberCases {
		lines = append(lines, lineOf(c.text))
	}
	lines = append(lines, lineOf(`{"params":"`+strings.Repeat("long ", 1<<16)+`"}`), bytes.Repeat([]byte("\n"), 1))
	s := New(MaxDepth)
	assert.Zero(t, testing.AllocsPerRun(1, func() {
		for _, line := range lines {
			s.Scan(line, messageNames)
		}
	}))
}

// Long strings are scanned by words: what a string can hold, and cannot, stands at each
// place of several of them, with room behind the line and without.
func TestWhatStandsAnywhereInALongString(t *testing.T) {
	const plainBefore, length = 8, 140
	fillers := map[string]string{
		"plain": "a", "escapes": `\"`, "runes of three bytes": "中", "others": "丁",
		"runes of two bytes": "é", "of four": "🙂", "runes apart": "aébc中", "runes a word apart": "abcdefgé",
	}
	pieces := []string{
		`\"`, `\\`, `\n`, `\/`, `\u00e9`, "é", "中", "\u0800", "\ud7ff", "\ue000", "🙂", `\"#`, `\\]`, "#", "]",
		`\x`, `\u12g4`, "\x00", "\x1f", "\n", "\xff", "\x80", "\xc0\xaf", "\xe0\x80\x80", "\xe0\x9f\xbf", "\xed\xa0\x80",
		"\xed\xbf\xbf", "\xe4\xb8", "\xe4\xb8a", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
		"\xc4\xb8\xad", "\xd4\xb8\xad", "\xf4\xb8\xad", "\x84\xb8\xad", "\xe4\xf8\xad", "\xe4\xb8\xed", "\xe4\x38\xad", "\xe4\xb8\x2d",
		strings.Repeat("\xe0\x80\x80", 9), strings.Repeat("\xed\xa0\x80", 9), strings.Repeat("\xed\x9f\xbf", 9),
	}
	for name, filler := range fillers {
		t.Run(name, func(t *testing.T) {
			for _, piece := range pieces {
				for at := range length {
					text := `"` + strings.Repeat("a", plainBefore) + strings.Repeat(filler, at) + piece + strings.Repeat(filler, length-at) + `"`
					valid := json.Valid([]byte(text)) && utf8.ValidString(text)
					fault := 0
					if !valid {
						fault = plainFault(text)
					}
					tight := lineOf(text)
					roomy := append(slices.Clip(tight), `"}]\u12"}]`+strings.Repeat("中", 20)...)[:len(tight)]
					for _, line := range [][]byte{tight, roomy} {
						s := New(1)
						status := s.Scan(line, messageNames)
						require.Equal(t, valid, status == Valid, "%q at %d", piece, at)
						if !valid {
							require.Equal(t, fault, s.Offset(), "%q at %d", piece, at)
						}
					}
				}
			}
		})
	}
}

// plainFault is where a scanner finds a string's fault that cannot load a word.
func plainFault(text string) int {
	s := New(1)
	n := sort.Search(len(text)-1, func(n int) bool { return s.Value(lineOf(text[:n+1]), messageNames) != Truncated })
	s.Value(lineOf(text[:n+1]), messageNames)
	return s.Offset()
}

func TestAreDigits(t *testing.T) {
	for size := range 20 {
		for _, behind := range []string{"", "7", "x", "77777777", "xxxxxxxx"} {
			b := []byte(strings.Repeat("0918273645", 2)[:size] + behind)
			for _, value := range [][]byte{b[:size], b[:size:size]} {
				assert.True(t, AreDigits(value), "%q before %q", value, behind)
				for at := range size {
					digit := b[at]
					for c := range 256 {
						b[at] = byte(c)
						assert.Equal(t, '0' <= c && c <= '9', AreDigits(value), "%q before %q", value, behind)
					}
					b[at] = digit
				}
			}
		}
	}
}
