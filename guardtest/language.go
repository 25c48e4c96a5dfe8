package guardtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A language is the revision of MCP that a server speaks, and how it is spoken.
type language struct {
	revision  string
	handshake bool // a session begins with initialize
}

var (
	withInitialize    = language{"2025-11-25", true}
	withoutInitialize = language{"2026-07-28", false}
)

// findOut asks the server which language it speaks: first with initialize, then, if it
// refuses that with an error, without.
func (b *bench) findOut(ctx context.Context) error {
	refusal, err := b.try(ctx, withInitialize)
	if refusal == "" {
		return err
	}
	again, err := b.try(ctx, withoutInitialize)
	switch {
	case err != nil:
		return fmt.Errorf("%w\nbefore that it refused initialize:\n%s", err, refusal)
	case again != "":
		return fmt.Errorf("guardtest: the server refuses both lifecycles of MCP\n%s\n%s", refusal, again)
	}
	return nil
}

// try begins a session in a language, and keeps to that if the server speaks it. A
// refusal is what failed by an error that the server answered with.
func (b *bench) try(ctx context.Context, lang language) (refusal string, err error) {
	t, err := b.begin(ctx, Case{}, lang)
	if err != nil {
		return "", err
	}
	t.findsOut = true
	if t.open() {
		probe := t.probe()
		t.shown = show(b.probe.request(t.lang, probe.id, ""), width-10)
		if t.expect(probe, b.timeout) && !lang.handshake && probe.answer.code != "" {
			t.refuse(probe)
		}
	}
	t.end()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("guardtest: %w", context.Cause(ctx))
	case t.refused:
		return t.failure.String(), nil
	case t.missing != nil && t.gone:
		return "", fmt.Errorf("guardtest: the server ended before it answered %s\n%s", t.missing.method, t.failure)
	case t.missing != nil:
		return "", fmt.Errorf("guardtest: the server does not answer %s\n%s", t.missing.method, t.failure)
	case t.lang.revision == "":
		return "", errors.New("guardtest: the server answers initialize and names no protocolVersion")
	}
	b.lang, b.noise = t.lang, t.noise
	return "", nil
}

// A probe is a request that a server is known to answer.
type probe struct {
	method string
	meta   string // the members of the params' _meta
	params string // the other members
}

func newProbe(method, params string) (probe, error) {
	p := probe{method: method}
	var err error
	members, err := object(params)
	if err != nil {
		return p, fmt.Errorf("the params: %w", err)
	}
	if meta, ok := members["_meta"]; ok {
		inMeta, err := object(string(meta))
		if err != nil {
			return p, fmt.Errorf("_meta: %w", err)
		}
		p.meta = joined(inMeta)
		delete(members, "_meta")
	}
	p.params = joined(members)
	return p, nil
}

func object(text string) (members map[string]json.RawMessage, err error) {
	var oneLine bytes.Buffer
	if err := json.Compact(&oneLine, []byte(text)); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(oneLine.Bytes(), &members); err != nil {
		return nil, err
	}
	if members == nil {
		return nil, errors.New("null is no object")
	}
	return members, nil
}

// joined returns the members of an object as JSON has them.
func joined(members map[string]json.RawMessage) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		all = append(all, quoted(name)+":"+string(members[name]))
	}
	return strings.Join(all, ",")
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // a string has no error
	return string(b)
}

const clientInfo = `{"name":"guardtest","version":"1"}`

// request returns the probe with an id and, unless it is empty, a JSON value in its
// _meta. Where there is no initialize, each request says who asks and in which revision:
// MCP 2026-07-28, SEP-2575.
func (p *probe) request(lang language, id, value string) string {
	var meta, params []string
	if !lang.handshake {
		meta = append(meta, `"io.modelcontextprotocol/protocolVersion":`+quoted(lang.revision),
			`"io.modelcontextprotocol/clientInfo":`+clientInfo, `"io.modelcontextprotocol/clientCapabilities":{}`)
	}
	if p.meta != "" {
		meta = append(meta, p.meta)
	}
	if value != "" {
		meta = append(meta, `"guardtest/value":`+value)
	}
	if len(meta) > 0 {
		params = append(params, `"_meta":{`+strings.Join(meta, ",")+`}`)
	}
	if p.params != "" {
		params = append(params, p.params)
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":` + quoted(p.method) + `,"params":{` + strings.Join(params, ",") + `}}`
}
