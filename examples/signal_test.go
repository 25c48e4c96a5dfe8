//go:build unix

package examples_test

import (
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stdioguard/stdioguard/examples/internal/drive"
	"github.com/stretchr/testify/require"
)

// endOnSignals are the servers that end gracefully on a signal. The client keeps
// its end of their stdin open all the time.
var endOnSignals = []*server{onGoSDK, runGoSDK, runMCPGo, runTRPC}

func TestSIGTERMWaitsForTheCallsInFlight(t *testing.T) {
	eachKind(t, endOnSignals, func(t *testing.T, s *server) {
		c := start(t, s, "", "-takes=1s")
		calls, want := "", []answer(nil)
		for i := range 5 {
			id := strconv.Itoa(100 + i)
			calls += drive.Call(id, "slow") + "\n"
			want = append(want, done(id))
		}
		c.SendString(calls + drive.ListTools("3") + "\n")
		expect(t, s, c, false, tools("3")) // so the calls have been read
		require.NoError(t, c.Signal(syscall.SIGTERM))
		e, err := awaitEnd(c)
		require.NoError(t, err)
		requireEnd(t, s, e, want...)
	})
}

// Whether the end of the input or that of a context is seen first, it is the end
// that was asked for, and no error. So it is tried often.
func TestSIGTERMWithNothingInFlight(t *testing.T) {
	eachKind(t, endOnSignals, func(t *testing.T, s *server) {
		n := 40
		if testing.Short() {
			n = 10
		}
		var all sync.WaitGroup
		atOnce, statuses, errs := make(chan struct{}, 4), make([]int, n), make([]error, n)
		for i := range n {
			c := start(t, s, "")
			c.SendString(drive.ListTools("3") + "\n")
			expect(t, s, c, false, tools("3"))
			all.Go(func() {
				atOnce <- struct{}{}
				defer func() { <-atOnce }()
				if errs[i] = c.Signal(syscall.SIGTERM); errs[i] == nil {
					statuses[i], errs[i] = c.AwaitExit()
				}
			})
		}
		all.Wait()
		for i, err := range errs {
			require.NoError(t, err)
			require.Zero(t, statuses[i], "exit status of run %d", i)
		}
	})
}

func TestSecondSIGTERMEndsItAtOnce(t *testing.T) {
	eachKind(t, []*server{onGoSDK}, func(t *testing.T, s *server) {
		c := start(t, s, "")
		beginDrain(t, s, c, func() { require.NoError(t, c.Signal(syscall.SIGTERM)) })
		require.NoError(t, c.Signal(syscall.SIGTERM))
		requireExit(t, c, time.Now(), -1)
		status := c.State().Sys().(syscall.WaitStatus)
		require.True(t, status.Signaled())
		require.Equal(t, syscall.SIGTERM, status.Signal())
	})
}

// Under Run the input's end does not tell that the program has let go of the signal.
func TestFurtherSIGTERMsEndRunAtOnce(t *testing.T) {
	eachKind(t, []*server{runGoSDK, runMCPGo, runTRPC}, func(t *testing.T, s *server) {
		c := start(t, s, "")
		beginDrain(t, s, c, func() { require.NoError(t, c.Signal(syscall.SIGTERM)) })
		require.Eventually(t, func() bool {
			c.Signal(syscall.SIGTERM) // fails once it has ended
			return !c.Alive()
		}, wait, time.Millisecond)
		requireExit(t, c, time.Now(), -1)
	})
}

// Nobody is there any more to close stdin.
func TestClientThatHangsUpAfterSIGTERM(t *testing.T) {
	eachKind(t, endOnSignals, func(t *testing.T, s *server) {
		c := start(t, s, "")
		beginDrain(t, s, c, func() { require.NoError(t, c.Signal(syscall.SIGTERM)) })
		require.NoError(t, c.HangUp())
		requireExit(t, c, time.Now(), failed)
	})
}
