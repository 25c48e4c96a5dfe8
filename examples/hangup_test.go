package examples_test

import (
	"testing"
	"time"

	"github.com/stdioguard/stdioguard/examples/internal/drive"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// failed is the status that the examples exit with when their Run, or what it is
// called, returns an error. A signal would be -1.
const failed = 1

// requireExit waits for the end that an event brings about.
func requireExit(t *testing.T, c *drive.Child, event time.Time, status int) {
	t.Helper()
	got, err := c.AwaitExit()
	took := time.Since(event)
	require.NoError(t, err)
	state := c.State()
	t.Logf("exit after %v, %v of processor time", took.Round(time.Millisecond), state.UserTime()+state.SystemTime())
	require.Equal(t, status, got, "exit status: %v", state)
}

// typescript-sdk#1564: the client closes its end of stdout, and nothing else. SDKs wait
// for their handlers then, and must not be kept busy meanwhile.
func TestClientThatHangsUp(t *testing.T) {
	for _, r := range []struct {
		name, calls string
		want        []answer
	}{
		{name: "with nothing in flight"},
		{name: "on a handler", calls: drive.Call("2", "deaf") + "\n" + drive.ListTools("3") + "\n", want: []answer{tools("3")}},
	} {
		t.Run(r.name, func(t *testing.T) {
			// None is started while a client hangs up: it would inherit the end.
			var all []*server
			var children []*drive.Child
			for _, kind := range drive.Kinds {
				for _, s := range ownsStreams {
					s := s.on(kind)
					c := start(t, s, "", "-takes=2s")
					c.SendString(r.calls)
					expect(t, s, c, false, r.want...)
					all, children = append(all, s), append(children, c)
				}
			}
			for i, c := range children {
				require.NoError(t, c.HangUp())
				c.SendString(ping2 + "\n")
				event := time.Now()
				t.Run(all[i].kind.Name+"/"+all[i].String(), func(t *testing.T) {
					requireExit(t, c, event, failed)
					assert.Less(t, c.State().UserTime()+c.State().SystemTime(), time.Second, "of processor time")
				})
			}
		})
	}
}

// beginDrain makes two calls, and has the input end with the one that needs the
// client for it. Once that is answered, the guard waits for the other.
func beginDrain(t *testing.T, s *server, c *drive.Child, end func()) {
	t.Helper()
	c.SendString(drive.Call("2", "hang") + "\n" + drive.Call("4", "ask") + "\n")
	expect(t, s, c, false, question)
	end()
	expect(t, s, c, false, unheard("4"))
}

func TestClientThatHangsUpDuringTheDrain(t *testing.T) {
	eachKind(t, ownsStreams, func(t *testing.T, s *server) {
		c := start(t, s, "")
		beginDrain(t, s, c, c.CloseStdin)
		require.NoError(t, c.HangUp())
		requireExit(t, c, time.Now(), failed)
	})
}
