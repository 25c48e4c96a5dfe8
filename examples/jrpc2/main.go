// Command jrpc2 is a small MCP server written by hand on creachadair/jrpc2,
// guarded by stdioguard.
package main

import (
	"context"
	"fmt"
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
	way, opts := guardflag.Parse("stdio", "new", "off")
	serve := map[string]func(...stdioguard.Option) error{"stdio": serveStdio, "new": serveNew, "off": serveBare}[way]
	err := serve(opts...)
	guardflag.Goodbye()
	if err != nil {
		log.Fatal(err)
	}
}

// serveStdio is what a server should do: it takes standard input and output for the
// protocol alone.
func serveStdio(opts ...stdioguard.Option) error {
	g, err := stdioguard.Stdio(opts...) // first thing in main
	if err != nil {
		return err
	}
	defer g.Close()
	return newServer().Start(channel.Line(guardflag.Input(g), g.Writer())).Wait()
}

// serveNew guards the protocol and leaves the process as it is.
func serveNew(opts ...stdioguard.Option) error {
	g := stdioguard.New(os.Stdin, os.Stdout, opts...)
	defer g.Close()
	return newServer().Start(channel.Line(guardflag.Input(g), g.Writer())).Wait()
}

func serveBare(...stdioguard.Option) error {
	return newServer().Start(channel.Line(os.Stdin, os.Stdout)).Wait()
}

func newServer() *jrpc2.Server {
	return jrpc2.NewServer(methods(), &jrpc2.ServerOptions{
		DisableBuiltin: true,
		AllowPush:      true, // for ask and announce
		Concurrency:    32,   // calls at a time; the default is one per processor
	})
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
		tool("ask", "asks the client's model, and tells what came of it"),
		tool("announce", "prints its text and sends a notification"),
	}
	for _, t := range tools.All {
		list = append(list, tool(t.Name, t.Description))
	}
	return handler.Obj{"tools": list}
}

func tool(name, description string) handler.Obj {
	return handler.Obj{"name": name, "description": description, "inputSchema": handler.Obj{
		"type": "object", "properties": handler.Obj{"text": handler.Obj{"type": "string"}},
	}}
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
	case "ask":
		return ask(ctx)
	case "announce":
		return announce(ctx, call.Arguments.Text)
	}
	for _, t := range tools.All {
		if t.Name == call.Name {
			s, err := t.Call(ctx, call.Arguments.Text)
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

func announce(ctx context.Context, s string) (any, error) {
	fmt.Println(s)
	err := jrpc2.ServerFromContext(ctx).Notify(ctx, "notifications/progress", handler.Obj{"progressToken": "p", "progress": 1})
	return text("announced"), err
}

func text(s string) handler.Obj {
	return handler.Obj{"content": []handler.Obj{{"type": "text", "text": s}}}
}
