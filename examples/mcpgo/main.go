// Command mcpgo is an MCP server on mark3labs/mcp-go, guarded by stdioguard.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/stdioguard/stdioguard"
	"github.com/stdioguard/stdioguard/examples/internal/guardflag"
	"github.com/stdioguard/stdioguard/examples/internal/tools"
)

func main() {
	way, opts := guardflag.Parse("stdio", "new", "run", "run-servestdio", "off")
	serve := map[string]func(*server.MCPServer, ...stdioguard.Option) error{
		"stdio": serveStdio, "new": serveNew, "run": serveRun, "run-servestdio": serveServeStdio, "off": serveBare,
	}[way]
	err := serve(newServer(), opts...)
	guardflag.Goodbye()
	if err != nil {
		log.Fatal(err)
	}
}

// serveStdio is what a server should do: it takes standard input and output for the
// protocol alone.
func serveStdio(s *server.MCPServer, opts ...stdioguard.Option) error {
	g, err := stdioguard.Stdio(opts...) // first thing in main
	if err != nil {
		return err
	}
	defer g.Close()
	return stdio(s).Listen(context.Background(), guardflag.Input(g), g.Writer())
}

// serveNew guards the protocol and leaves the process as it is.
func serveNew(s *server.MCPServer, opts ...stdioguard.Option) error {
	g := stdioguard.New(os.Stdin, os.Stdout, opts...)
	defer g.Close()
	return stdio(s).Listen(context.Background(), guardflag.Input(g), g.Writer())
}

// serveRun guards a server that reads os.Stdin and writes os.Stdout. The signal is
// Run's: it ends the input, and with it Listen, once the answers are written.
func serveRun(s *server.MCPServer, opts ...stdioguard.Option) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the next signal kills
	return stdioguard.Run(ctx, func(context.Context) error {
		return stdio(s).Listen(context.Background(), os.Stdin, os.Stdout)
	}, opts...)
}

// serveServeStdio guards the SDK's own way to serve. It catches signals itself, and
// drops what it has not answered by then.
func serveServeStdio(s *server.MCPServer, opts ...stdioguard.Option) error {
	return stdioguard.Run(context.Background(), func(context.Context) error {
		return server.ServeStdio(s, workers)
	}, opts...)
}

func serveBare(s *server.MCPServer, _ ...stdioguard.Option) error {
	return stdio(s).Listen(context.Background(), os.Stdin, os.Stdout)
}

// workers is how many calls are served at a time; the default is 5.
var workers = server.WithWorkerPoolSize(32)

func stdio(s *server.MCPServer) *server.StdioServer {
	stdio := server.NewStdioServer(s)
	workers(stdio)
	return stdio
}

func newServer() *server.MCPServer {
	s := server.NewMCPServer("mcpgo", "v1.0.0", server.WithToolCapabilities(true))
	s.EnableSampling()
	text := mcp.WithString("text")
	s.AddTool(mcp.NewTool("ask", mcp.WithDescription("asks the client's model, and tells what came of it")), ask)
	s.AddTool(mcp.NewTool("announce", mcp.WithDescription("prints its text and sends a notification"), text), announce)
	for _, t := range tools.All {
		s.AddTool(mcp.NewTool(t.Name, mcp.WithDescription(t.Description), text),
			func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				s, err := t.Call(ctx, req.GetString("text", ""))
				return mcp.NewToolResultText(s), err
			})
	}
	return s
}

func ask(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	question := mcp.SamplingMessage{Role: mcp.RoleUser, Content: mcp.NewTextContent("Well?")}
	//lint:ignore SA1019 clients of the revisions that have sampling are to be served
	answer, err := server.ServerFromContext(ctx).RequestSampling(ctx, mcp.CreateMessageRequest{
		CreateMessageParams: mcp.CreateMessageParams{MaxTokens: 100, Messages: []mcp.SamplingMessage{question}},
	})
	if err != nil {
		return mcp.NewToolResultText("no answer: " + err.Error()), nil
	}
	return mcp.NewToolResultText(mcp.GetTextFromContent(answer.Content)), nil
}

func announce(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	fmt.Println(req.GetString("text", ""))
	err := server.ServerFromContext(ctx).SendNotificationToClient(ctx, "notifications/progress",
		map[string]any{"progressToken": "p", "progress": 1})
	return mcp.NewToolResultText("announced"), err
}
