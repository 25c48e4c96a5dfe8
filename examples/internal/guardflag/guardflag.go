// Package guardflag holds the flags that the example servers share, so that one
// test can run each of them bare, guarded in one way or another, and with other
// options. A server of your own needs none of this: it is guarded in one way and
// passes the options it wants.
package guardflag

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stdioguard/stdioguard"
)

var (
	leave   = flag.Bool("leave", false, "exit at the end of input, whatever still runs; not with -guard=run")
	goodbye = flag.Bool("goodbye", false, "print something after the session")
)

// Parse reads the command line, with the flags that the caller has defined
// beside its own. It returns which of the ways to be guarded was chosen, the first
// unless the command line says otherwise, and the options.
func Parse(ways ...string) (way string, opts []stdioguard.Option) {
	way = ways[0]
	all := strings.Join(ways, "|")
	flag.Func("guard", "how to stand a guard between the streams and the SDK: `"+all+"`; "+way+" is the default", func(s string) error {
		if !slices.Contains(ways, s) {
			return fmt.Errorf("want one of %s", all)
		}
		way = s
		return nil
	})
	recoverIDs := flag.Bool("recover-ids", false, "answer lines that are too long, too deep or not UTF-8 with their own id")
	line := flag.Int("line", 0, "longest line in `bytes`; 0 is the guard's default")
	flag.Func("answers", "what an answer without a known id looks like: `null|omit|none`", func(s string) error {
		a, ok := map[string]stdioguard.Answers{
			"null": stdioguard.AnswerNull,
			"omit": stdioguard.AnswerOmit,
			"none": stdioguard.AnswerNone,
		}[s]
		if !ok {
			return fmt.Errorf("want null, omit or none")
		}
		opts = append(opts, stdioguard.WithAnswers(a))
		return nil
	})
	flag.Func("drain", "how `long` to wait for answers at the end of input; 0s: not at all", func(s string) error {
		d, err := time.ParseDuration(s)
		if err == nil {
			opts = append(opts, stdioguard.WithDrain(d))
		}
		return err
	})
	flag.Parse()
	opts = append(opts, stdioguard.WithLimits(stdioguard.Limits{Line: *line}))
	if *recoverIDs {
		opts = append(opts, stdioguard.WithRecoveredIDs())
	}
	return way, opts
}

// Goodbye is called after the session: it prints, as programs do that are used to
// be run by people.
func Goodbye() {
	if *goodbye {
		fmt.Println("goodbye")
	}
}

// Input is what the SDK reads from: g itself, but with -leave a reader that ends
// the process where g ends. By then every answer that the client waits for has
// been written or given up, so a server may well do that: SDKs wait for all
// their handlers, and one that does not heed its context keeps them for ever.
func Input(g *stdioguard.Guard) io.ReadCloser {
	if *leave {
		return leaver{g}
	}
	return g
}

type leaver struct{ *stdioguard.Guard }

func (l leaver) Read(p []byte) (int, error) {
	n, err := l.Guard.Read(p)
	if err == io.EOF {
		l.Close()
		os.Exit(0)
	}
	return n, err
}
