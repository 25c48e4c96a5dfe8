// Command client is an MCP client on the official Go SDK that starts a server and
// reads from it through stdioguard:
//
//	client [-call TOOL -text TEXT] SERVER [ARGUMENT...]
//
// It lists the server's tools, or calls one, and prints what it got. A server that
// logs to its standard output costs it nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stdioguard/stdioguard"
)

var (
	guard = flag.Bool("guard", true, "read from the server through the guard")
	call  = flag.String("call", "", "the `tool` to call instead of listing all")
	text  = flag.String("text", "", "the argument of that name for the tool")
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	if flag.NArg() == 0 {
		log.Fatal("usage: client [-call TOOL -text TEXT] SERVER [ARGUMENT...]")
	}
	if err := run(context.Background(), exec.Command(flag.Arg(0), flag.Args()[1:]...)); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, server *exec.Cmd) error {
	server.Stderr = os.Stderr
	stdin, err := server.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	err = use(ctx, guarded(stdout), stdin)
	// Its end of input tells the server to exit. If it was talked to in vain, there
	// is no need to wait for that.
	stdin.Close()
	if err != nil {
		server.Process.Kill()
	}
	return errors.Join(err, server.Wait())
}

// guarded hands on what is a message of the server's, and drops the rest. A client
// answers none of it: the second argument is nil.
func guarded(stdout io.ReadCloser) io.ReadCloser {
	if !*guard {
		return stdout
	}
	return stdioguard.New(stdout, nil)
}

func use(ctx context.Context, r io.ReadCloser, w io.WriteCloser) error {
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "v1.0.0"}, nil)
	session, err := client.Connect(ctx, &mcp.IOTransport{Reader: r, Writer: w, MaxLineLength: -1}, nil)
	if err != nil {
		return err
	}
	defer session.Close()
	if *call != "" {
		return callTool(ctx, session)
	}
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		fmt.Println(tool.Name)
	}
	return nil
}

func callTool(ctx context.Context, session *mcp.ClientSession) error {
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: *call, Arguments: map[string]any{"text": *text}})
	if err != nil {
		return err
	}
	for _, c := range result.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			fmt.Println(t.Text)
		}
	}
	return nil
}
