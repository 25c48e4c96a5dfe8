package drive

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// The messages of a client, each without its newline.
const (
	Initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":` +
		`{"protocolVersion":"2025-06-18","capabilities":{"sampling":{}},"clientInfo":{"name":"drive","version":"1"}}}`
	Initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// ListTools is a tools/list request.
func ListTools(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/list"}`
}

// Call is a tools/call request for a tool that takes no arguments.
func Call(id, tool string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":{}}}`
}

// CallText is a tools/call request for a tool that takes a text.
func CallText(id, tool, text string) string {
	quoted, _ := json.Marshal(text)
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":{"text":` + string(quoted) + `}}}`
}

// Cancel is the notification that cancels a request.
func Cancel(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
}

// Handshake opens the session, with prefix before the first request.
func (c *Child) Handshake(prefix string) error {
	c.SendString(prefix + Initialize + "\n")
	line, err := c.Next()
	if err != nil {
		return fmt.Errorf("no answer to initialize: %w", err)
	}
	if !IsResult(line, "1") {
		return fmt.Errorf("initialize: %s", line)
	}
	c.SendString(Initialized + "\n")
	return nil
}

// SendString sends s.
func (c *Child) SendString(s string) { c.Send(strings.NewReader(s)) }

// AwaitResult reads lines up to the result for id and returns all of them, that
// one last, or those that came before the error of [Child.Next].
func (c *Child) AwaitResult(id string) ([]string, error) {
	var lines []string
	for {
		line, err := c.Next()
		if err != nil {
			return lines, err
		}
		lines = append(lines, line)
		if IsResult(line, id) {
			return lines, nil
		}
	}
}

// Rest returns the lines up to the end of stdout.
func (c *Child) Rest() ([]string, error) {
	var lines []string
	for {
		line, err := c.Next()
		if err == io.EOF {
			return lines, nil
		}
		if err != nil {
			return lines, err
		}
		lines = append(lines, line)
	}
}

// IsResult reports whether line is a successful response to id.
func IsResult(line, id string) bool {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Result json.RawMessage `json:"result"`
	}
	return json.Unmarshal([]byte(line), &m) == nil && string(m.ID) == id && m.Result != nil
}

// The answers that a guard writes, each without its newline.

// ParseError answers a line that is not JSON, or past a limit. An empty id stands
// for an answer without one.
func ParseError(id string) string { return rpcError(id, `-32700,"message":"Parse error"`) }

// InvalidRequest answers a line that is JSON and no JSON-RPC 2.0 message.
func InvalidRequest(id string) string { return rpcError(id, `-32600,"message":"Invalid Request"`) }

func rpcError(id, codeAndMessage string) string {
	if id != "" {
		id = `"id":` + id + `,`
	}
	return `{"jsonrpc":"2.0",` + id + `"error":{"code":` + codeAndMessage + `}}`
}
