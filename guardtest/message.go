package guardtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A message is one that the server wrote.
type message struct {
	text   []byte
	id     string // as it is written; empty: none
	method string // of a request or a notification
	code   string // of an error
	result json.RawMessage
}

func (m *message) isResponse() bool { return m.method == "" }

// nameless reports whether a response has no id that says what it responds to.
func (m *message) nameless() bool { return m.id == "" || m.id == "null" }

// parse judges a line of the server's output: it has to be one JSON-RPC 2.0 message.
// The id of a response may be null, and missing, as MCP's schema has it since
// 2025-11-25. In the one revision that has batches it may be one.
func parse(line []byte, batches bool) ([]message, error) {
	text, ended := bytes.CutSuffix(line, []byte("\n"))
	text = bytes.TrimRight(text, "\r")
	switch {
	case !ended:
		return nil, errors.New("a line that ends without a newline")
	case !utf8.Valid(text):
		return nil, errors.New("a line that is not UTF-8")
	}
	if batches && bytes.HasPrefix(text, []byte("[")) {
		var all []json.RawMessage
		if err := json.Unmarshal(text, &all); err != nil {
			return nil, err
		}
		messages := make([]message, len(all))
		for i, one := range all {
			var err error
			if messages[i], err = parseMessage(one); err != nil {
				return nil, err
			}
		}
		return messages, nil
	}
	m, err := parseMessage(text)
	return []message{m}, err
}

func parseMessage(text []byte) (message, error) {
	m := message{text: text}
	var members map[string]json.RawMessage // a struct would take a name in any case
	if err := json.Unmarshal(text, &members); err != nil || members == nil {
		return m, errors.New("a line that is no JSON object")
	}
	if string(members["jsonrpc"]) != `"2.0"` {
		return m, errors.New("an object without jsonrpc 2.0")
	}
	if m.id = string(members["id"]); m.id != "" && strings.ContainsAny(m.id[:1], "[{tf") {
		return m, errors.New("a message whose id is no string, number or null")
	}
	method, isCall := members["method"]
	result, isResult := members["result"]
	failure, isError := members["error"]
	switch {
	case isCall && (isResult || isError):
		return m, errors.New("a message that is both request and response")
	case isCall:
		if json.Unmarshal(method, &m.method) != nil || m.method == "" {
			return m, errors.New("a message whose method is no name")
		}
	case isResult == isError:
		return m, errors.New("a response without one of result and error")
	case isError:
		var ok bool
		if m.code, ok = errorCode(failure); !ok {
			return m, errors.New("a response whose error is none")
		}
	}
	m.result = result
	return m, nil
}

func errorCode(failure json.RawMessage) (string, bool) {
	var members map[string]json.RawMessage
	var code int64
	var text *string
	ok := json.Unmarshal(failure, &members) == nil && members["code"] != nil &&
		json.Unmarshal(members["code"], &code) == nil && json.Unmarshal(members["message"], &text) == nil && text != nil
	return strconv.FormatInt(code, 10), ok
}

// sameID compares ids as they are written, as the strings that they are, and as float64
// has them, since SDKs round.
func sameID(a, b string) bool {
	if a == b {
		return true
	}
	var s, t string
	if json.Unmarshal([]byte(a), &s) == nil && json.Unmarshal([]byte(b), &t) == nil && a != "null" && b != "null" {
		return s == t
	}
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return errX == nil && errY == nil && x == y
}

// answerTo says in a few words what a response is to the input of a case.
func (m *message) answerTo() string {
	id := "id " + show(m.id, 24)
	if m.id == "" {
		id = "no id"
	}
	switch {
	case m.code != "":
		return m.code + ", " + id
	case m.nameless():
		return "a result, " + id
	}
	return "served"
}

// inRow joins what is said in a row, the same things counted.
func inRow(said []string) string {
	const most = 4
	var parts []string
	for i := 0; i < len(said); {
		n := 1
		for i+n < len(said) && said[i+n] == said[i] {
			n++
		}
		part := said[i]
		if n > 1 {
			part = fmt.Sprintf("%d x %s", n, part)
		}
		if i += n; len(parts) == most {
			return strings.Join(parts, "; ") + "; and more"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

// show returns text in printable form, cut to a width, which is at least 20. If it is
// cut, its length is told.
func show(text string, width int) string {
	width = max(width, 20)
	head := text
	if len(head) > width {
		head = head[:width]
	}
	head = strconv.Quote(head)
	head = strings.ReplaceAll(head[1:len(head)-1], `\"`, `"`)
	shown := []rune(head)
	if len(text) <= width && len(shown) <= width {
		return head
	}
	tail := fmt.Sprintf("… (%d bytes)", len(text))
	keep := max(0, width-utf8.RuneCountInString(tail))
	return string(shown[:min(keep, len(shown))]) + tail
}

// lastLines returns the last lines of what a server wrote to stderr, in printable form.
func lastLines(stderr string) string {
	const most = 3
	printable := func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return ' '
	}
	lines := strings.Split(strings.TrimSpace(strings.Map(printable, stderr)), "\n")
	lines = lines[max(0, len(lines)-most):]
	for i, line := range lines {
		lines[i] = cut(line)
	}
	return strings.Join(lines, "\n")
}

// cut cuts a line of a failure to what is left beside its label.
func cut(line string) string {
	const most = width - 10
	if runes := []rune(line); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return line
}
