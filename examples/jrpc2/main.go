// Command jrpc2 is a small MCP server written by hand on creachadair/jrpc2,
// guarded by stdioguard.
package main

import (
	"context"
	"io"
	"log"
	"os"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/channel"
	"github.com/creachadair/jrpc2/handler"
	"github.com/stdioguard/stdioguard"
	"github.com/stdioguard/stdioguard/examples/internal/guardflag"
	"github.com/stdioguard/stdioguard/examples/internal/tools"
)

func main() {
	guarded, opts := guardflag.Parse()
	if err := run(guarded, opts); err != nil {
		log.Fatal(err)
	}
}

func run(guarded bool, opts []stdioguard.Option) error {
	var in io.Reader = os.Stdin
	var out io.WriteCloser = os.Stdout
	if guarded {
		g := stdioguard.New(os.Stdin, os.Stdout, opts...)
		defer g.Close()
		in, out = guardflag.Input(g), g.Writer()
	}
	srv := jrpc2.NewServer(methods(), &jrpc2.ServerOptions{
		DisableBuiltin: true,
		AllowPush:      true, // for ask
		Concurrency:    32,   // calls at a time; the default is one per processor
	})
	return srv.Start(channel.Line(in, out)).Wait()
}

// methods is what MCP asks of a server that has tools. It may ignore
// cancellations, and does.
func methods() handler.Map {
	return handler.Map{
		"initialize":                initialize,
		"notifications/initialized": func(context.Context, *jrpc2.Request) (any, error) { return nil, nil },
		"notifications/cancelled":   func(context.Context, *jrpc2.Request) (any, error) { return nil, nil },
		"ping":                      func(context.Context, *jrpc2.Request) (any, error) { return struct{}{}, nil },
		"tools/list":                func(context.Context, *jrpc2.Request) (any, error) { return toolList(), nil },
		"tools/call":                callTool,
	}
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

func toolList() handler.Obj {
	list := []any{
		handler.Obj{"name": "echo", "description": "returns its text", "inputSchema": handler.Obj{
			"type": "object", "properties": handler.Obj{"text": handler.Obj{"type": "string"}}, "required": []string{"text"},
		}},
		tool("ask", "asks the client's model, and tells what came of it"),
	}
	for _, t := range tools.All {
		list = append(list, tool(t.Name, t.Description))
	}
	return handler.Obj{"tools": list}
}

func tool(name, description string) handler.Obj {
	return handler.Obj{"name": name, "description": description, "inputSchema": handler.Obj{"type": "object"}}
}

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
	case "ask":
		return ask(ctx)
	}
	for _, t := range tools.All {
		if t.Name == call.Name {
			s, err := t.Call(ctx)
			return text(s), err
		}
	}
	return nil, jrpc2.Errorf(jrpc2.InvalidParams, "unknown tool %q", call.Name)
}

func ask(ctx context.Context) (any, error) {
	rsp, err := jrpc2.ServerFromContext(ctx).Callback(ctx, "sampling/createMessage", handler.Obj{
		"maxTokens": 100,
		"messages":  []any{handler.Obj{"role": "user", "content": handler.Obj{"type": "text", "text": "Well?"}}},
	})
	if err != nil {
		return text("no answer: " + err.Error()), nil
	}
	var answer struct {
		Content any `json:"content"`
	}
	if err := rsp.UnmarshalResult(&answer); err != nil {
		return nil, err
	}
	return handler.Obj{"content": []any{answer.Content}}, nil
}

func text(s string) handler.Obj {
	return handler.Obj{"content": []handler.Obj{{"type": "text", "text": s}}}
}
