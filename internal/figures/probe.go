package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/stdioguard/stdioguard/guardtest"
)

// drawProbe draws what stdioguard probe -json prints: each case, bare and guarded.
func drawProbe(data io.Reader) (*picture, error) {
	const (
		columns = 4
		column  = 222
		row     = 17
		top     = 64
	)
	type entry struct {
		Case          string
		Bare, Guarded *guardtest.Result
	}
	var entries []entry
	for dec := json.NewDecoder(data); ; {
		var e entry
		if err := dec.Decode(&e); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		if e.Bare == nil || e.Guarded == nil {
			return nil, errors.New("each case has to be played bare and guarded")
		}
		entries = append(entries, e)
	}
	rows := (len(entries) + columns - 1) / columns
	p := &picture{width: columns*column + 4, height: top + rows*row}
	var passed [2]int
	for i, e := range entries {
		x, y := i/rows*column, top+i%rows*row+2
		p.text(x, y, "", e.Case)
		for k, r := range []*guardtest.Result{e.Bare, e.Guarded} {
			at := x + 176 + 20*k
			switch r.Status {
			case guardtest.Passed:
				passed[k]++
				p.text(at, y, "good", "✓")
			case guardtest.Failed:
				p.text(at, y, "bad b", "✗")
			default:
				p.text(at, y, "dim", "-")
			}
		}
	}
	for x := 0; x < columns; x++ {
		p.text(x*column+184, top-16, "dim e", "bare")
		p.text(x*column+190, top-16, "dim", "guard")
	}
	p.title = fmt.Sprintf("Of %d cases a server on go-sdk passes %d bare, and %d behind the guard.", len(entries), passed[0], passed[1])
	p.text(0, 16, "b", "an MCP server on the official Go SDK")
	p.text(300, 16, "bad b", fmt.Sprintf("bare: %d of %d cases passed", passed[0], len(entries)))
	p.text(560, 16, "good b", fmt.Sprintf("guarded: %d of %d", passed[1], len(entries)))
	p.line(0, 26, p.width, 26)
	return p, nil
}
