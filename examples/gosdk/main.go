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
)

func main() {
	// The guard has a limit of its own, which costs a caller one line and not
	// the session; so the SDK's is switched off unless a test wants both.
	sdkLine := flag.Int("sdk-line", -1, "the SDK's MaxLineLength behind the guard; 0 is the SDK's default")
	guarded, opts := guardflag.Parse()

	var transport mcp.Transport = &mcp.StdioTransport{}
	if guarded {
		g := stdioguard.New(os.Stdin, os.Stdout, opts...)
		transport = &mcp.IOTransport{Reader: g, Writer: g.Writer(), MaxLineLength: *sdkLine}
	}
	if err := newServer().Run(context.Background(), transport); err != nil {
		log.Fatal(err)
	}
}

func newServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "gosdk", Version: "v1.0.0"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "returns its text"}, echo)
	mcp.AddTool(s, &mcp.Tool{Name: "slow", Description: "takes 300 ms"}, slow)
	return s
}

type echoInput struct {
	Text string `json:"text"`
}

func echo(_ context.Context, _ *mcp.CallToolRequest, in echoInput) (*mcp.CallToolResult, any, error) {
	return text(in.Text), nil, nil
}

func slow(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
	select {
	case <-time.After(300 * time.Millisecond):
		return text("done"), nil, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}
