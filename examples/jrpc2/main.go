// Command jrpc2 is a small MCP server written by hand on creachadair/jrpc2,
// guarded by stdioguard.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"time"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/channel"
	"github.com/creachadair/jrpc2/handler"
	"github.com/stdioguard/stdioguard"
	"github.com/stdioguard/stdioguard/examples/internal/guardflag"
)

func main() {
	guarded, opts := guardflag.Parse()

	var in io.Reader = os.Stdin
	var out io.WriteCloser = os.Stdout
	if guarded {
		g := stdioguard.New(os.Stdin, os.Stdout, opts...)
		in, out = g, g.Writer()
	}
	srv := jrpc2.NewServer(methods, &jrpc2.ServerOptions{DisableBuiltin: true})
	if err := srv.Start(channel.Line(in, out)).Wait(); err != nil {
		log.Fatal(err)
	}
}

// What MCP asks of a server that has tools.
var methods = handler.Map{
	"initialize":                initialize,
	"notifications/initialized": func(context.Context, *jrpc2.Request) (any, error) { return nil, nil },
	"ping":                      func(context.Context, *jrpc2.Request) (any, error) { return struct{}{}, nil },
	"tools/list":                func(context.Context, *jrpc2.Request) (any, error) { return toolList, nil },
	"tools/call":                callTool,
}

func initialize(_ context.Context, req *jrpc2.Request) (any, error) {
	var client struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	if err := req.UnmarshalParams(&client); err != nil {
		return nil, err
	}
	return handler.Obj{
		"protocolVersion": client.ProtocolVersion,
		"capabilities":    handler.Obj{"tools": handler.Obj{}},
		"serverInfo":      handler.Obj{"name": "jrpc2", "version": "v1.0.0"},
	}, nil
}

var toolList = handler.Obj{"tools": []any{
	handler.Obj{"name": "echo", "description": "returns its text", "inputSchema": handler.Obj{
		"type": "object", "properties": handler.Obj{"text": handler.Obj{"type": "string"}}, "required": []string{"text"},
	}},
	handler.Obj{"name": "slow", "description": "takes 300 ms", "inputSchema": handler.Obj{"type": "object"}},
}}

func callTool(ctx context.Context, req *jrpc2.Request) (any, error) {
	var call struct {
		Name      string `json:"name"`
		Arguments struct {
			Text string `json:"text"`
		} `json:"arguments"`
	}
	if err := req.UnmarshalParams(&call); err != nil {
		return nil, err
	}
	switch call.Name {
	case "echo":
		return text(call.Arguments.Text), nil
	case "slow":
		select {
		case <-time.After(300 * time.Millisecond):
			return text("done"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, jrpc2.Errorf(jrpc2.InvalidParams, "unknown tool %q", call.Name)
}

func text(s string) handler.Obj {
	return handler.Obj{"content": []handler.Obj{{"type": "text", "text": s}}}
}
