package main

import (
	"errors"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLogLines(t *testing.T) {
	for _, tt := range []struct {
		name string
		log  func(*slog.Logger)
		want string
	}{
		{"a message", func(l *slog.Logger) { l.Info("done") }, "stdioguard: done\n"},
		{"the guard's own", func(l *slog.Logger) { l.Warn("stdioguard: dropped") }, "stdioguard: dropped\n"},
		{"below the level", func(l *slog.Logger) { l.Debug("done") }, ""},
		{"plain values", func(l *slog.Logger) { l.Info("x", "n", 1, "b", true, "id", "naïve") }, "stdioguard: x n=1 b=true id=naïve\n"},
		{"values with an end of their own", func(l *slog.Logger) { l.Info("x", "a", "b c", "d", "e=f", "g", "", "h", "i\nj") },
			`stdioguard: x a="b c" d="e=f" g="" h="i\nj"` + "\n"},
		{"a value that is quoted", func(l *slog.Logger) { l.Info("x", "text", strconv.Quote(`say "hi"`)) }, `stdioguard: x text="say \"hi\""` + "\n"},
		{"a value in the other quotes", func(l *slog.Logger) { l.Info("x", "text", "`a\nb`") }, "stdioguard: x text=\"`a\\nb`\"\n"},
		{"an error", func(l *slog.Logger) { l.Info("x", "error", errors.New("no luck")) }, `stdioguard: x error="no luck"` + "\n"},
		{"with", func(l *slog.Logger) { l.With("a", 1).WithGroup("g").Info("x", "b", 2) }, "stdioguard: x a=1 b=2\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got strings.Builder
			tt.log(slog.New(&lineHandler{w: &got, level: slog.LevelInfo}))
			assert.Equal(t, tt.want, got.String())
		})
	}
}

func TestStrays(t *testing.T) {
	const more = "stdioguard: the server printed more text that is no message lines="
	long := strings.Repeat("a", maxShown)
	for _, tt := range []struct {
		name   string
		writes string // cut at each |; a ! is a message between them
		limit  int
		want   string
	}{
		{"nothing", "", 2, ""},
		{"a line", "a\n", 2, stray(1, `"a"`)},
		{"lines cut anywhere", "a|b|\n|c\nd|e\n", 2, stray(2, `"ab"`) + stray(1, `"c"`) + more + "1\n"},
		{"no newline at the end", "a\nb", 2, stray(1, `"a"`) + stray(1, `"b"`)},
		{"blank lines", "\n \t\r\n\n", 2, ""},
		{"as long as is shown", long + "\n", 2, stray(maxShown, strconv.Quote(long))},
		{"longer", long + "|" + long + "b\n", 2, stray(2*maxShown+1, strconv.Quote(long))},
		{"messages between", "a\nb\nc\n!d\ne\nf\n", 2,
			stray(1, `"a"`) + stray(1, `"b"`) + more + "1\n" + stray(1, `"d"`) + stray(1, `"e"`) + more + "1\n"},
		{"no limit", "a\nb\nc\n", -1, stray(1, `"a"`) + stray(1, `"b"`) + stray(1, `"c"`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got strings.Builder
			var messages int64
			s := &strays{log: slog.New(&lineHandler{w: &got}), limit: tt.limit, written: func() int64 { return messages }}
			for part := range strings.SplitSeq(tt.writes, "!") {
				for write := range strings.SplitSeq(part, "|") {
					n, err := io.WriteString(s, write)
					assert.NoError(t, err)
					assert.Equal(t, len(write), n)
				}
				messages++
			}
			s.end()
			assert.Equal(t, tt.want, got.String())
		})
	}
}

// A standard error that is not read costs lines, and no time.
func TestPrinterLosesLines(t *testing.T) {
	p := newPrinter()
	for range maxWaiting + 3 {
		io.WriteString(p, "line\n")
	}
	p.flush() // nobody runs yet, so it gives up
	var got strings.Builder
	go p.run(&got)
	p.flush()
	want := "line\nstdioguard: standard error was not read: 3 lines are lost\n" + strings.Repeat("line\n", maxWaiting-1)
	same(t, want, got.String(), "")
}
