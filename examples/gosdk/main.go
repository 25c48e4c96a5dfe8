// Command gosdk is an MCP server on the official Go SDK, guarded by stdioguard.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stdioguard/stdioguard"
	"github.com/stdioguard/stdioguard/examples/internal/guardflag"
	"github.com/stdioguard/stdioguard/examples/internal/tools"
)

// The guard has a limit of its own, which costs a caller one line and not the
// session; so the SDK's is switched off unless a test wants both.
var sdkLine = flag.Int("sdk-line", -1, "the SDK's MaxLineLength behind the guard; 0 is the SDK's default")

func main() {
	keepAlive := flag.Duration("keepalive", 0, "how often the server pings the client; 0: never")
	way, opts := guardflag.Parse("stdio", "new", "run", "off")

	serve := map[string]func(*mcp.Server, ...stdioguard.Option) error{
		"stdio": serveStdio, "new": serveNew, "run": serveRun, "off": serveBare,
	}[way]
	err := serve(newServer(*keepAlive), opts...)
	guardflag.Goodbye()
	if err != nil {
		log.Fatal(err)
	}
}

// serveStdio is what a server should do: it takes standard input and output for the
// protocol alone. On a signal it takes no more requests, answers those that it has,
// and ends; on a second one it ends at once.
func serveStdio(server *mcp.Server, opts ...stdioguard.Option) error {
	g, err := stdioguard.Stdio(opts...) // first thing in main
	if err != nil {
		return err
	}
	defer g.Close()
	transport := &mcp.IOTransport{Reader: guardflag.Input(g), Writer: g.Writer(), MaxLineLength: *sdkLine}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		stop() // the next signal kills
		g.CloseRead()
	})
	return server.Run(context.Background(), transport)
}

// serveNew guards the protocol and leaves the process as it is. It is for streams
// that are not the process's own; what is printed gets between the messages here.
func serveNew(server *mcp.Server, opts ...stdioguard.Option) error {
	g := stdioguard.New(os.Stdin, os.Stdout, opts...)
	defer g.Close()
	return server.Run(context.Background(), &mcp.IOTransport{Reader: guardflag.Input(g), Writer: g.Writer(), MaxLineLength: *sdkLine})
}

// serveRun guards a server whose transport is not to be touched.
func serveRun(server *mcp.Server, opts ...stdioguard.Option) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the next signal kills
	return stdioguard.Run(ctx, func(ctx context.Context) error {
		return server.Run(ctx, &mcp.StdioTransport{MaxLineLength: *sdkLine})
	}, opts...)
}

func serveBare(server *mcp.Server, _ ...stdioguard.Option) error {
	return server.Run(context.Background(), &mcp.StdioTransport{})
}

func newServer(keepAlive time.Duration) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "gosdk", Version: "v1.0.0"}, &mcp.ServerOptions{KeepAlive: keepAlive})
	mcp.AddTool(s, &mcp.Tool{Name: "ask", Description: "asks the client's model, and tells what came of it"}, ask)
	mcp.AddTool(s, &mcp.Tool{Name: "announce", Description: "prints its text and sends a notification"}, announce)
	for _, t := range tools.All {
		mcp.AddTool(s, &mcp.Tool{Name: t.Name, Description: t.Description},
			func(ctx context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
				s, err := t.Call(ctx, in.Text)
				return text(s), nil, err
			})
	}
	return s
}

type input struct {
	Text string `json:"text,omitempty"`
}

//lint:ignore SA1019 see ask
var question = &mcp.CreateMessageParams{
	MaxTokens: 100,
	//lint:ignore SA1019 see ask
	Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "Well?"}}},
}

func ask(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
	//lint:ignore SA1019 clients of the revisions that have sampling are to be served
	answer, err := req.Session.CreateMessage(ctx, question)
	if err != nil {
		return text("no answer: " + err.Error()), nil, nil
	}
	return &mcp.CallToolResult{Content: []mcp.Content{answer.Content}}, nil, nil
}

func announce(ctx context.Context, req *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
	fmt.Println(in.Text)
	err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: "p", Progress: 1})
	return text("announced"), nil, err
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}
