// Package guardflag holds the flags that the example servers share, so that one
// test can run each of them bare, guarded, and guarded with other options. A
// server of your own needs none of this: it passes stdioguard.New the options it
// wants.
package guardflag

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/stdioguard/stdioguard"
)

var leave = flag.Bool("leave", false, "exit at the end of input, whatever still runs")

// Parse reads the command line, with the flags that the caller has defined
// beside its own. It reports whether to guard, and with which options.
func Parse() (guarded bool, opts []stdioguard.Option) {
	flag.BoolVar(&guarded, "guard", true, "stand a guard between the streams and the SDK")
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
	return guarded, opts
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
