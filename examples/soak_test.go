package examples_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stdioguard/stdioguard/examples/internal/drive"
	"github.com/stretchr/testify/require"
)

// How long the soak takes. Longer, from the repository's root:
//
//	go test -C examples -run TestSoak -timeout 0 -v . -soak 10m
var soakTime = flag.Duration("soak", 5*time.Second, "how long TestSoak plays")

// TestSoak plays valid and hostile traffic at eight servers side by side. Each request
// is answered, and answered once; at the end as many goroutines run as at the start,
// and the memory is what it was after a while.
func TestSoak(t *testing.T) {
	for i := range 8 {
		s := []*server{onGoSDK, onMCPGo}[i%2]
		t.Run(fmt.Sprintf("session %d on %s", i+1, s.program), func(t *testing.T) {
			t.Parallel()
			c := start(t, s, "", "-line=1048576", "-takes=5ms")
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			(&soak{T: t, c: c, r: rand.New(rand.NewPCG(seed, 0)), waiting: make(map[string]bool)}).play()
		})
	}
}

// A soak is one session.
type soak struct {
	*testing.T
	c       *drive.Child
	r       *rand.Rand
	asked   int             // requests so far
	waiting map[string]bool // those without an answer
	hostile []string
	lines   int
}

func (s *soak) play() {
	for _, row := range rows() {
		if row.args == nil && !row.takesNext && !row.anyOrder && len(row.line) < 64<<10 {
			s.hostile = append(s.hostile, row.line)
		}
	}
	s.round() // so that whatever starts once has started
	goroutines := s.goroutines()
	var early, late memory
	for begin := time.Now(); time.Since(begin) < *soakTime; {
		s.round()
		switch done := time.Since(begin).Seconds() / soakTime.Seconds(); {
		case done > 0.1 && done < 0.4:
			early.look(s)
		case done > 0.7:
			late.look(s)
		}
	}
	// SDKs start some at need and keep them; one left for each line would be hundreds.
	require.InDelta(s, goroutines, s.goroutines(), 4, "goroutines")
	s.Logf("%d lines, %d requests; memory %d KiB, at the end %d KiB", s.lines, s.asked, early.median()>>10, late.median()>>10)
	if runtime.GOOS == "linux" && *soakTime >= time.Minute { // before that a Go program has not settled
		require.LessOrEqual(s, late.median(), early.median()*11/10, "memory, in bytes")
	}
	s.c.CloseStdin()
	rest, err := s.c.Rest()
	require.NoError(s, err)
	require.Empty(s, rest)
	status, err := s.c.AwaitExit()
	require.NoError(s, err)
	require.Zero(s, status)
}

// round sends some lines of every kind, and reads until each request is answered.
func (s *soak) round() {
	var out strings.Builder
	for range 1 + s.r.IntN(40) {
		out.WriteString(s.line())
		out.WriteByte('\n')
		s.lines++
	}
	s.c.SendString(out.String())
	s.await()
}

func (s *soak) await() {
	for len(s.waiting) > 0 {
		line, err := s.c.Next()
		require.NoError(s, err, "%d requests wait", len(s.waiting))
		s.take(line)
	}
}

// take takes a line of the server's. An answer to one of the hostile lines has no id of
// ours.
func (s *soak) take(line string) {
	var m struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
	}
	require.NoError(s, json.Unmarshal([]byte(line), &m), "%.200q", line)
	require.Equal(s, "2.0", m.Version, "%.200q", line)
	if id := string(m.ID); strings.HasPrefix(id, `"soak`) {
		require.True(s, s.waiting[id], "not asked, or answered twice: %.200q", line)
		delete(s.waiting, id)
	}
}

func (s *soak) line() string {
	switch s.r.IntN(20) {
	case 0:
		return strings.Repeat("x", s.r.IntN(2<<20)) // as likely as not over the limit
	case 1:
		noise := make([]byte, s.r.IntN(300))
		for i := range noise {
			noise[i] = byte(s.r.Uint32())
		}
		return strings.ReplaceAll(string(noise), "\n", "")
	case 2:
		return strings.Repeat("{\n", s.r.IntN(400)) // a storm
	case 3:
		return drive.Cancel(`"soak 0"`)
	case 4:
		return drive.Call(s.id(), "slow")
	case 5:
		return bom + drive.CallText(s.id(), "echo", strings.Repeat("text\u00e9\n", s.r.IntN(50_000)))
	case 6, 7, 8:
		return drive.ListTools(s.id())
	case 9, 10, 11:
		return drive.CallText(s.id(), "echo", strconv.Itoa(s.asked)) + " \t\r"
	}
	return s.hostile[s.r.IntN(len(s.hostile))]
}

func (s *soak) id() string {
	s.asked++
	id := fmt.Sprintf(`"soak %d"`, s.asked)
	s.waiting[id] = true
	return id
}

// goroutines asks how many there are, until they are as few as they have been: those of
// calls that are answered may still be ending.
func (s *soak) goroutines() int {
	few, again := 1<<30, 0
	for deadline := time.Now().Add(wait); again < 20 && time.Now().Before(deadline); again++ {
		id := s.id()
		s.c.SendString(drive.Call(id, "goroutines") + "\n")
		lines, err := s.c.AwaitResult(id)
		require.NoError(s, err)
		for _, line := range lines {
			s.take(line)
		}
		_, after, ok := strings.Cut(lines[len(lines)-1], `"text":"`)
		require.True(s, ok, lines[len(lines)-1])
		text, _, _ := strings.Cut(after, `"`)
		n, err := strconv.Atoi(text)
		require.NoError(s, err)
		if n < few {
			few, again = n, 0
		}
	}
	return few
}

// A memory is what a process was seen to hold.
type memory []int64

func (m *memory) look(s *soak) {
	if runtime.GOOS != "linux" {
		return
	}
	n, err := s.c.Memory()
	require.NoError(s, err)
	*m = append(*m, n)
}

func (m memory) median() int64 {
	if len(m) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(m))
	return sorted[len(sorted)/2]
}
