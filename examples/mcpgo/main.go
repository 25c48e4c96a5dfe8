// Command mcpgo is an MCP server on mark3labs/mcp-go, guarded by stdioguard.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/stdioguard/stdioguard"
	"github.com/stdioguard/stdioguard/examples/internal/guardflag"
)

func main() {
	guarded, opts := guardflag.Parse()

	var in io.Reader = os.Stdin
	var out io.Writer = os.Stdout
	if guarded {
		g := stdioguard.New(os.Stdin, os.Stdout, opts...)
		in, out = g, g.Writer()
	}
	if err := server.NewStdioServer(newServer()).Listen(context.Background(), in, out); err != nil {
		log.Fatal(err)
	}
}

func newServer() *server.MCPServer {
	s := server.NewMCPServer("mcpgo", "v1.0.0")
	s.AddTool(mcp.NewTool("echo", mcp.WithDescription("returns its text"), mcp.WithString("text", mcp.Required())), echo)
	s.AddTool(mcp.NewTool("slow", mcp.WithDescription("takes 300 ms")), slow)
	return s
}

func echo(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	text, err := req.RequireString("text")
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	return mcp.NewToolResultText(text), nil
}

func slow(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	select {
	case <-time.After(300 * time.Millisecond):
		return mcp.NewToolResultText("done"), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
