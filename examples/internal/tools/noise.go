package tools

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strings"
)

// old is made before main, and so before the guard.
var old = log.New(os.Stdout, "old: ", 0)

var mib = strings.Repeat("0123456789abcde\n", 1<<16)

// noises are what servers do that share standard input and output with the
// protocol.
var noises = map[string]func() error{
	"fmt.Println":              func() error { return printed(fmt.Println("printed")) },
	"fmt.Print":                func() error { return printed(fmt.Print("unended")) },
	"an old logger":            func() error { return old.Output(1, "logged") },
	"println":                  func() error { println("built in"); return nil },
	"1 MiB":                    func() error { return printed(fmt.Print(mib)) },
	"a JSON log":               func() error { return printed(fmt.Println(`{"level":"info","msg":"x"}`)) },
	"a JSON log with a method": func() error { return printed(fmt.Println(`{"msg":"request","method":"GET"}`)) },
	"the beginning of JSON":    func() error { return printed(fmt.Print(`{"a":`)) },
	"null":                     func() error { return printed(fmt.Println("null")) },
	"a child's output":         func() error { return inheriting("sh", "-c", "echo child") },
	"a child's input":          func() error { return inheriting("sh", "-c", "cat") },
	"a child given os.Stdout":  func() error { return given("sh", "-c", "echo given") },
	"a child given os.Stdin":   func() error { return given("sh", "-c", "cat") },
}

func noise(_ context.Context, how string) (string, error) {
	f := noises[how]
	if f == nil {
		return "", fmt.Errorf("no such noise: %q", how)
	}
	if err := f(); err != nil {
		return "", err
	}
	return "made", nil
}

func printed(_ int, err error) error { return err }

// given runs a child that has os.Stdin and os.Stdout, as careless programs do.
func given(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}
