// Command gosdk is an MCP server on the official Go SDK, guarded by stdioguard.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stdioguard/stdioguard"
	"github.com/stdioguard/stdioguard/examples/internal/guardflag"
	"github.com/stdioguard/stdioguard/examples/internal/tools"
)

func main() {
	// The guard has a limit of its own, which costs a caller one line and not
	// the session; so the SDK's is switched off unless a test wants both.
	sdkLine := flag.Int("sdk-line", -1, "the SDK's MaxLineLength behind the guard; 0 is the SDK's default")
	keepAlive := flag.Duration("keepalive", 0, "how often the server pings the client; 0: never")
	guarded, opts := guardflag.Parse()

	if err := run(guarded, *sdkLine, *keepAlive, opts); err != nil {
		log.Fatal(err)
	}
}

func run(guarded bool, sdkLine int, keepAlive time.Duration, opts []stdioguard.Option) error {
	var transport mcp.Transport = &mcp.StdioTransport{}
	if guarded {
		g := stdioguard.New(os.Stdin, os.Stdout, opts...)
		defer g.Close()
		transport = &mcp.IOTransport{Reader: guardflag.Input(g), Writer: g.Writer(), MaxLineLength: sdkLine}
	}
	return newServer(keepAlive).Run(context.Background(), transport)
}

func newServer(keepAlive time.Duration) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "gosdk", Version: "v1.0.0"}, &mcp.ServerOptions{KeepAlive: keepAlive})
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "returns its text"}, echo)
	mcp.AddTool(s, &mcp.Tool{Name: "ask", Description: "asks the client's model, and tells what came of it"}, ask)
	for _, t := range tools.All {
		mcp.AddTool(s, &mcp.Tool{Name: t.Name, Description: t.Description},
			func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
				s, err := t.Call(ctx)
				return text(s), nil, err
			})
	}
	return s
}

type echoInput struct {
	Text string `json:"text"`
}

func echo(_ context.Context, _ *mcp.CallToolRequest, in echoInput) (*mcp.CallToolResult, any, error) {
	return text(in.Text), nil, nil
}

func ask(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
	answer, err := req.Session.CreateMessage(ctx, &mcp.CreateMessageParams{
		MaxTokens: 100,
		Messages:  []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "Well?"}}},
	})
	if err != nil {
		return text("no answer: " + err.Error()), nil, nil
	}
	return &mcp.CallToolResult{Content: []mcp.Content{answer.Content}}, nil, nil
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}
