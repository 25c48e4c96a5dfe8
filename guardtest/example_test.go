package guardtest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stdioguard/stdioguard/guardtest"
)

// A server that has no tools, and is built with the race detector.
func ExampleTest() {
	TestStdio := func(t *testing.T) { // among the server's own tests
		guardtest.Test(t, func() *exec.Cmd { return exec.Command("./server", "-verbose") },
			guardtest.WithProbe("prompts/list", "{}"),
			guardtest.WithSkip("endless-line", "the race detector takes the memory"))
	}
	_ = TestStdio
}

func ExampleRun() {
	newCmd := func() *exec.Cmd { return exec.Command(os.Args[0]) } // this program, which is a server if it is told so
	report, err := guardtest.Run(context.Background(), newCmd, guardtest.WithEnv(serverEnv+"=takes an id of 1.5 for 1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("MCP", report.Revision)
	for _, r := range report.Failed() {
		fmt.Printf("%s (%s)\n%s\n", r.Name, r.Source, r.Failure)
	}
	// Output:
	// MCP 2025-11-25
	// id-fraction (go-sdk v1.8.0 answers it as 1)
	// sent:     {"jsonrpc":"2.0","id":1.5,"method":"tools/list","params":{}}\n
	// expected: no answer but to what was asked
	// came:     {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}
}
