package stdioguard_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/stdioguard/stdioguard"
)

// A log line is answered, a byte order mark and a blank line are not even noticed.
func ExampleNew() {
	stdin := strings.NewReader("INFO starting\n" +
		"\ufeff" + `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\r\n\n")
	g := stdioguard.New(stdin, os.Stdout)

	messages, err := io.ReadAll(g)
	fmt.Printf("the server reads: %s", messages)
	fmt.Println(err)
	// Output:
	// {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}
	// the server reads: {"jsonrpc":"2.0","id":1,"method":"ping"}
	// <nil>
}

// A server that prints: the client sees its messages, standard error the rest.
func ExampleStdio() {
	inProcess("ExampleStdio", "INFO starting\n"+`{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n", func() {
		g, err := stdioguard.Stdio()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		defer g.Close()
		for in := bufio.NewScanner(g); in.Scan(); {
			fmt.Println("debug: got", in.Text())
			fmt.Fprintln(g.Writer(), `{"jsonrpc":"2.0","id":1,"result":{}}`)
		}
	})
	// Output:
	// {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}
	// {"jsonrpc":"2.0","id":1,"result":{}}
}

// An SDK that reads os.Stdin and writes os.Stdout itself.
func ExampleRun() {
	inProcess("ExampleRun", "\ufeff"+`{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n", func() {
		err := stdioguard.Run(context.Background(), func(context.Context) error {
			for in := bufio.NewScanner(os.Stdin); in.Scan(); {
				fmt.Println("debug: got", in.Text())
				fmt.Println(`{"jsonrpc":"2.0","id":1,"result":{}}`)
			}
			return nil
		})
		fmt.Fprintln(os.Stderr, "the session ended with", err)
	})
	// Output:
	// {"jsonrpc":"2.0","id":1,"result":{}}
}

// inProcess runs main in a process of its own, since it takes the standard streams
// for good, and prints what a client gets.
func inProcess(example, stdin string, main func()) {
	const child = "STDIOGUARD_EXAMPLE"
	if os.Getenv(child) != "" {
		main()
		os.Exit(0)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+example+"$")
	cmd.Env = append(os.Environ(), child+"=1")
	cmd.Stdin = strings.NewReader(stdin)
	stdout, err := cmd.Output()
	fmt.Printf("%s", stdout)
	if err != nil {
		fmt.Println(err)
	}
}

// What is no message does not get to the client.
func ExampleGuard_Writer() {
	g := stdioguard.New(strings.NewReader(""), os.Stdout, stdioguard.WithDiversion(nil))
	w := g.Writer()
	fmt.Fprintln(w, "connecting to the database")
	fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{}}{"jsonrpc":"2.0","id":2,"result":{}}`)
	fmt.Println("diverted:", g.Stats().Diverted, "bytes")
	// Output:
	// {"jsonrpc":"2.0","id":1,"result":{}}
	// {"jsonrpc":"2.0","id":2,"result":{}}
	// diverted: 27 bytes
}

func ExampleWithRejectFunc() {
	stdin := strings.NewReader("Content-Length: 40\r\n\r\n" + `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`)
	g := stdioguard.New(stdin, io.Discard, stdioguard.WithRejectFunc(func(e *stdioguard.FrameError) {
		fmt.Println(e)
		fmt.Printf("%t %d %q\n", errors.Is(e, stdioguard.ErrSyntax), e.Code, e.ID)
	}))
	io.Copy(io.Discard, g)
	// Output:
	// stdioguard: line 1 at byte 0: not one JSON text: at byte 0 of the line (looks like a header of the Language Server Protocol's framing; here each line is one message)
	// true -32700 ""
	// stdioguard: line 3 at byte 22: not a JSON-RPC 2.0 message: the id is not a string or a 64-bit integer
	// false -32600 "1.5"
}

// The caller of a request that is too long gets an error of its own.
func ExampleWithRecoveredIDs() {
	stdin := strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"write","params":{"text":"` + strings.Repeat("a", 100) + `"}}`)
	g := stdioguard.New(stdin, os.Stdout,
		stdioguard.WithRecoveredIDs(),
		stdioguard.WithLimits(stdioguard.Limits{Line: 100}))
	io.Copy(io.Discard, g)
	// Output:
	// {"jsonrpc":"2.0","id":7,"error":{"code":-32700,"message":"Parse error"}}
}

// A client that reads a server's output lets nothing but messages through to its SDK.
func ExampleGuard_WriteTo() {
	serverStdout := strings.NewReader("listening\n" + `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n")
	g := stdioguard.New(serverStdout, nil)
	_, err := g.WriteTo(os.Stdout)
	fmt.Println(err, g.Stats().Rejected)
	// Output:
	// {"jsonrpc":"2.0","id":1,"result":{}}
	// <nil> 1
}
