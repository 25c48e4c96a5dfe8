// Command mcpgo is an MCP server on mark3labs/mcp-go, guarded by stdioguard.
package main

import (
	"context"
	"io"
	"log"
	"os"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
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
	var out io.Writer = os.Stdout
	if guarded {
		g := stdioguard.New(os.Stdin, os.Stdout, opts...)
		defer g.Close()
		in, out = guardflag.Input(g), g.Writer()
	}
	stdio := server.NewStdioServer(newServer())
	server.WithWorkerPoolSize(32)(stdio) // calls at a time; the default is 5
	return stdio.Listen(context.Background(), in, out)
}

func newServer() *server.MCPServer {
	s := server.NewMCPServer("mcpgo", "v1.0.0", server.WithToolCapabilities(true))
	s.EnableSampling()
	s.AddTool(mcp.NewTool("echo", mcp.WithDescription("returns its text"), mcp.WithString("text", mcp.Required())), echo)
	s.AddTool(mcp.NewTool("ask", mcp.WithDescription("asks the client's model, and tells what came of it")), ask)
	for _, t := range tools.All {
		s.AddTool(mcp.NewTool(t.Name, mcp.WithDescription(t.Description)),
			func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				s, err := t.Call(ctx)
				return mcp.NewToolResultText(s), err
			})
	}
	return s
}

func echo(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	text, err := req.RequireString("text")
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	return mcp.NewToolResultText(text), nil
}

func ask(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	question := mcp.SamplingMessage{Role: mcp.RoleUser, Content: mcp.NewTextContent("Well?")}
	answer, err := server.ServerFromContext(ctx).RequestSampling(ctx, mcp.CreateMessageRequest{
		CreateMessageParams: mcp.CreateMessageParams{MaxTokens: 100, Messages: []mcp.SamplingMessage{question}},
	})
	if err != nil {
		return mcp.NewToolResultText("no answer: " + err.Error()), nil
	}
	return mcp.NewToolResultText(mcp.GetTextFromContent(answer.Content)), nil
}
