package examples_test

import (
	"bufio"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stdioguard/stdioguard/examples/internal/drive"
	"github.com/stretchr/testify/require"
)

// BenchmarkPing is a ping of a server on go-sdk through real pipes, bare and guarded:
//
//	go test -C examples -run '^$' -bench Ping -benchtime 20000x -count 6 .
func BenchmarkPing(b *testing.B) {
	const ping = `{"jsonrpc":"2.0","id":2,"method":"ping"}` + "\n"
	for _, guard := range []string{"off", "new", "stdio", "run"} {
		b.Run("guard="+guard, func(b *testing.B) {
			c, err := drive.Start(wait, programs, "gosdk", "-guard="+guard)
			require.NoError(b, err)
			defer c.Stop()
			require.NoError(b, c.Handshake(""))
			require.NoError(b, c.AwaitSent())
			out := bufio.NewReader(c.Stdout())
			took := make([]time.Duration, 0, b.N)
			for b.Loop() {
				begin := time.Now()
				if _, err := io.WriteString(c.Stdin(), ping); err != nil {
					b.Fatal(err)
				}
				if _, err := out.ReadSlice('\n'); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(begin))
			}
			slices.Sort(took)
			for _, p := range []struct {
				name string
				part float64
			}{{"ns/p10", .10}, {"ns/median", .50}, {"ns/p99", .99}} {
				b.ReportMetric(float64(took[int(p.part*float64(len(took)-1))]), p.name)
			}
		})
	}
}
