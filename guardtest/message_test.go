package guardtest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for _, r := range []struct {
		line  string
		fault string // empty: none
	}{
		{`{"jsonrpc":"2.0","id":1,"result":{}}` + "\n", ""},
		{`{"jsonrpc":"2.0","id":1,"result":null}` + "\r\n", ""},
		{`{"jsonrpc":"2.0","id":"a","error":{"code":-1,"message":"m","data":[]}}` + "\n", ""},
		{`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}` + "\n", ""},
		{`{"jsonrpc":"2.0","error":{"code":-32700,"message":"m"}}` + "\n", ""},
		{`{"jsonrpc":"2.0","method":"m"}` + "\n", ""},
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":{},"other":1}` + "\n", ""},

		{`{"jsonrpc":"2.0","id":1,"result":{}}`, "a line that ends without a newline"},
		{`{"jsonrpc":"2.0","id":"` + "\xff" + `","result":{}}` + "\n", "a line that is not UTF-8"},
		{bom + `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n", "a line that is no JSON object"},
		{"\n", "a line that is no JSON object"},
		{"listening\n", "a line that is no JSON object"},
		{"null\n", "a line that is no JSON object"},
		{`[{"jsonrpc":"2.0","id":1,"result":{}}]` + "\n", "a line that is no JSON object"},
		{`{"jsonrpc":"2.0","id":1,"result":{}}{"jsonrpc":"2.0","id":2,"result":{}}` + "\n", "a line that is no JSON object"},
		{`{"level":"info","msg":"x"}` + "\n", "an object without jsonrpc 2.0"},
		{`{"JSONRPC":"2.0","id":1,"result":{}}` + "\n", "an object without jsonrpc 2.0"},
		{`{"jsonrpc":"2.0","id":true,"result":{}}` + "\n", "a message whose id is no string, number or null"},
		{`{"jsonrpc":"2.0","id":{},"result":{}}` + "\n", "a message whose id is no string, number or null"},
		{`{"jsonrpc":"2.0","id":[1],"result":{}}` + "\n", "a message whose id is no string, number or null"},
		{`{"jsonrpc":"2.0","id":1,"method":"m","result":{}}` + "\n", "a message that is both request and response"},
		{`{"jsonrpc":"2.0","id":1,"method":5}` + "\n", "a message whose method is no name"},
		{`{"jsonrpc":"2.0","id":1}` + "\n", "a response without one of result and error"},
		{`{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}` + "\n", "a response without one of result and error"},
		{`{"jsonrpc":"2.0","id":1,"error":"boom"}` + "\n", "a response whose error is none"},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"m"}}` + "\n", "a response whose error is none"},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":"m"}}` + "\n", "a response whose error is none"},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":1}}` + "\n", "a response whose error is none"},
		{`{"jsonrpc":"2.0","id":1,"error":{"message":"m"}}` + "\n", "a response whose error is none"},
	} {
		_, err := parse([]byte(r.line), false)
		if r.fault == "" {
			require.NoError(t, err, r.line)
		} else {
			require.EqualError(t, err, r.fault, r.line)
		}
	}
}

func TestParseBatch(t *testing.T) {
	const one, two = `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"m"}}`
	messages, err := parse([]byte("["+one+","+two+"]\n"), true)
	require.NoError(t, err)
	require.Len(t, messages, 2)
	require.Equal(t, []string{"1", "2", "-1"}, []string{messages[0].id, messages[1].id, messages[1].code})
	_, err = parse([]byte("["+one+",7]\n"), true)
	require.EqualError(t, err, "a line that is no JSON object")
}

func TestSameID(t *testing.T) {
	for _, r := range []struct {
		a, b string
		same bool
	}{
		{"1", "1", true},
		{"0", "-0", true},
		{"9007199254740993", "9007199254740992", true},
		{"1e400", "1e400", true},
		{`"a"`, `"\u0061"`, true},
		{`""`, `""`, true},

		{"1", "1.5", false},
		{"1", `"1"`, false},
		{"0", "null", false},
		{`""`, "null", false},
		{"null", `""`, false},
		{"{}", `""`, false},
	} {
		require.Equal(t, r.same, sameID(r.a, r.b), "%s and %s", r.a, r.b)
	}
}

func TestShow(t *testing.T) {
	for _, r := range []struct {
		text  string
		width int
		shown string
	}{
		{`{"a":1}` + "\n", 20, `{"a":1}\n`},
		{"\ufeff\x00\xff", 20, `\ufeff\x00\xff`},
		{strings.Repeat("a", 20), 20, strings.Repeat("a", 20)},
		{strings.Repeat("a", 21), 20, "aaaaaaaa… (21 bytes)"},
		{strings.Repeat("\x00", 20), 20, `\x00\x00… (20 bytes)`},
		{strings.Repeat("a", 21), 2, "aaaaaaaa… (21 bytes)"},
	} {
		require.Equal(t, r.shown, show(r.text, r.width))
	}
}

func TestShowEnd(t *testing.T) {
	require.Empty(t, lastLines(""))
	require.Empty(t, lastLines("\n \n"))
	require.Equal(t, "a\nb  c\nd", lastLines("before\na\nb\t\x1bc\nd\n"))
	require.Equal(t, strings.Repeat("x", 89)+"…", lastLines(strings.Repeat("x", 91)))
}

func TestInRow(t *testing.T) {
	require.Empty(t, inRow(nil))
	require.Equal(t, "a; 2 x b; a", inRow([]string{"a", "b", "b", "a"}))
	require.Equal(t, "a; b; a; b; and more", inRow([]string{"a", "b", "a", "b", "a", "b"}))
}

func TestTail(t *testing.T) {
	var last tail
	for range 3 {
		last.Write([]byte(strings.Repeat("a", maxStderr-1)))
	}
	last.Write([]byte("end\n"))
	require.Equal(t, strings.Repeat("a", maxStderr-4)+"end", last.text())
}
