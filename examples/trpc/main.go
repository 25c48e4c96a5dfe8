// Command trpc is an MCP server on trpc-mcp-go, guarded by stdioguard. That SDK
// reads os.Stdin and writes os.Stdout itself, so [stdioguard.Run] is the way.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/stdioguard/stdioguard"
	"github.com/stdioguard/stdioguard/examples/internal/guardflag"
	"github.com/stdioguard/stdioguard/examples/internal/tools"
	mcp "trpc.group/trpc-go/trpc-mcp-go"
)

func main() {
	way, opts := guardflag.Parse("run", "off")
	serve := map[string]func(*mcp.StdioServer, ...stdioguard.Option) error{"run": serveRun, "off": serveBare}[way]
	err := serve(newServer(), opts...)
	guardflag.Goodbye()
	if err != nil {
		log.Fatal(err)
	}
}

// serveRun is what a server should do. Start knows nothing of a context: on a signal
// Run ends its input, once the answers are written, and so Start.
func serveRun(s *mcp.StdioServer, opts ...stdioguard.Option) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the next signal kills
	return stdioguard.Run(ctx, func(context.Context) error { return s.Start() }, opts...)
}

func serveBare(s *mcp.StdioServer, _ ...stdioguard.Option) error { return s.Start() }

func newServer() *mcp.StdioServer {
	s := mcp.NewStdioServer("trpc", "v1.0.0")
	// Without a handler each session begins with a warning.
	s.RegisterNotificationHandler("notifications/initialized", func(context.Context, *mcp.JSONRPCNotification) error { return nil })
	text := mcp.WithString("text")
	s.RegisterTool(mcp.NewTool("ask", mcp.WithDescription("asks the client for its roots, and tells what came of it")), ask(s))
	s.RegisterTool(mcp.NewTool("announce", mcp.WithDescription("prints its text and sends a notification"), text), announce)
	for _, t := range tools.All {
		s.RegisterTool(mcp.NewTool(t.Name, mcp.WithDescription(t.Description), text),
			func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				s, err := t.Call(ctx, textOf(req))
				return mcp.NewTextResult(s), err
			})
	}
	return s
}

func textOf(req *mcp.CallToolRequest) string {
	text, _ := req.Params.Arguments["text"].(string)
	return text
}

func ask(s *mcp.StdioServer) func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer, err := s.ListRoots(ctx)
		switch {
		case err != nil:
			return mcp.NewTextResult("no answer: " + err.Error()), nil
		case len(answer.Roots) == 0: // which is also what the SDK makes of an error
			return mcp.NewTextResult("no roots"), nil
		}
		return mcp.NewTextResult(answer.Roots[0].Name), nil
	}
}

func announce(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	fmt.Println(textOf(req))
	session, ok := mcp.ClientSessionFromContext(ctx).(interface {
		NotificationChannel() chan<- mcp.JSONRPCNotification
	})
	if !ok {
		return nil, errors.New("no session")
	}
	session.NotificationChannel() <- *mcp.NewJSONRPCNotificationFromMap("notifications/progress",
		map[string]any{"progressToken": "p", "progress": 1})
	return mcp.NewTextResult("announced"), nil
}
