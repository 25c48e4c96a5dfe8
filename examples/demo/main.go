// Command demo shows the guard at work: it builds a real MCP server on the official Go
// SDK, and probes it with a battery of bad and odd lines, bare and behind the guard:
//
//	go run -C examples ./demo
//
// Flags are passed on: -json prints an object for each case. It exits with status 1 if
// the guarded server fails in a case.
package main

import (
	"errors"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/stdioguard/stdioguard/examples/internal/drive"
)

func main() {
	log.SetFlags(0)
	status, err := run()
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(status)
}

func run() (status int, err error) {
	dir, err := os.MkdirTemp("", "stdioguard-demo")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	log.Print("building the server and the command")
	if err := drive.Build(dir, "./gosdk", "github.com/stdioguard/stdioguard/cmd/stdioguard"); err != nil {
		return 0, err
	}
	// A bare server that has not answered by then will not: it waits for more.
	args := append([]string{"probe", "-timeout=5s"}, os.Args[1:]...)
	args = append(args, "--", filepath.Join(dir, "gosdk"), "-guard=off")
	cmd := exec.Command(filepath.Join(dir, "stdioguard"), args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		return failed.ExitCode(), nil
	}
	return 0, err
}
