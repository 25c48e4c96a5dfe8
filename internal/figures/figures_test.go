package main

import (
	"bytes"
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	probed = `{"case":"bom","source":"s","bare":{"status":"failed"},"guarded":{"status":"passed"}}
{"case":"a<b","source":"s","bare":{"status":"skipped"},"guarded":{"status":"passed"}}
`
	measured = `goos: linux
BenchmarkRead/corpus=small/peer=guard-2 1 9 ns/op 300 MB/s
BenchmarkRead/corpus=small/peer=guard-2 1 9 ns/op 500 MB/s 0 B/op
BenchmarkRead/corpus=small/peer=guard-2 1 9 ns/op 900 MB/s
BenchmarkRead/corpus=small/peer=guard-writeto 1 9 ns/op 7 MB/s
BenchmarkRead/corpus=small/peer=json.Decoder-2 1 9 ns/op 50 MB/s
BenchmarkRead/corpus=small/peer=scanner+goccy.Valid-2 1 9 ns/op 100 MB/s
BenchmarkRead/corpus=small/peer=scanner+json.Valid 1 9 ns/op 25 MB/s
BenchmarkWrite/size=1 1 9 ns/op 1 MB/s
`
)

func TestPicturesSayWhatTheDataDo(t *testing.T) {
	for _, tt := range []struct {
		name string
		draw func(io.Reader) (*picture, error)
		data string
		want []string // texts, in order
	}{
		{"probe", drawProbe, probed, []string{
			"Of 2 cases a server on go-sdk passes 0 bare, and 2 behind the guard.",
			"bom", "✗", "✓", "a<b", "-", "✓",
			"bare", "guard", "bare", "guard", "bare", "guard", "bare", "guard",
			"an MCP server on the official Go SDK", "bare: 0 of 2 cases passed", "guarded: 2 of 2",
		}},
		{"speed", drawSpeed, measured, []string{
			"How fast lines are read, against json.Decoder.",
			"reading and judging lines: times the speed of json.Decoder",
			"stdioguard", "bufio.Scanner + goccy Valid", "bufio.Scanner + json.Valid",
			"small", "10.0", "2.0", "0.5",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := tt.draw(strings.NewReader(tt.data))
			require.NoError(t, err)
			var out bytes.Buffer
			p.writeTo(&out)
			assert.Equal(t, tt.want, texts(t, &out))
		})
	}
}

// texts returns what a picture says, if it is well-formed.
func texts(t *testing.T, svg io.Reader) (all []string) {
	t.Helper()
	inStyle := false
	for dec := xml.NewDecoder(svg); ; {
		token, err := dec.Token()
		if err == io.EOF {
			return all
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			inStyle = token.Name.Local == "style"
		case xml.CharData:
			if text := strings.TrimSpace(string(token)); text != "" && !inStyle {
				all = append(all, text)
			}
		}
	}
}

func TestDataThatCannotBeDrawn(t *testing.T) {
	for _, tt := range []struct {
		name string
		draw func(io.Reader) (*picture, error)
		data string
		want string
	}{
		{"a probe of the bare server alone", drawProbe, `{"case":"bom","bare":{"status":"failed"}}`, "each case has to be played bare and guarded"},
		{"no benchmark", drawSpeed, "ok\n", "no BenchmarkRead in the input"},
		{"no base", drawSpeed, "BenchmarkRead/corpus=small/peer=guard-2 1 9 ns/op 300 MB/s\n", "no json.Decoder for small"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.draw(strings.NewReader(tt.data))
			require.EqualError(t, err, tt.want)
		})
	}
}
