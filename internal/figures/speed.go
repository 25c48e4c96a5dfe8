package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// peers are those that are drawn, in this order, and base is what they are compared with.
var peers = []struct{ peer, label string }{
	{"guard", "stdioguard"},
	{"scanner+goccy.Valid", "bufio.Scanner + goccy Valid"},
	{"scanner+json.Valid", "bufio.Scanner + json.Valid"},
}

const base = "json.Decoder"

// drawSpeed draws what BenchmarkRead prints: how many times as fast as a json.Decoder
// each peer reads each corpus, by the medians.
func drawSpeed(data io.Reader) (*picture, error) {
	corpora, speeds, err := readSpeeds(data)
	if err != nil {
		return nil, err
	}
	const (
		left, full = 84, 640
		bar, group = 13, 3*13 + 14
		top        = 74
	)
	most := 0.0
	for _, c := range corpora {
		for _, p := range peers {
			most = max(most, speeds[c][p.peer]/speeds[c][base])
		}
	}
	p := &picture{width: left + full + 90, height: top + len(corpora)*group, title: "How fast lines are read, against json.Decoder."}
	p.text(0, 16, "b", "reading and judging lines: times the speed of json.Decoder")
	for i, peer := range peers {
		p.bar(24+230*i, 32, 12, 12, fmt.Sprintf("bar%d", i))
		p.text(42+230*i, 42, "", peer.label)
	}
	p.line(left, top-14, left, p.height-8)
	for i, c := range corpora {
		y := top + i*group
		p.text(left-8, y+bar+10, "e", c)
		for k, peer := range peers {
			times := speeds[c][peer.peer] / speeds[c][base]
			width := int(times / most * full)
			p.bar(left+1, y+k*bar, width, bar-2, fmt.Sprintf("bar%d", k))
			p.text(left+8+width, y+k*bar+10, "", strconv.FormatFloat(times, 'f', 1, 64))
		}
	}
	return p, nil
}

// readSpeeds returns the median MB/s by corpus and peer, and the corpora in order.
func readSpeeds(data io.Reader) (corpora []string, speeds map[string]map[string]float64, err error) {
	all := make(map[string]map[string][]float64)
	in := bufio.NewScanner(data)
	for in.Scan() {
		fields := strings.Fields(in.Text())
		unit := slices.Index(fields, "MB/s")
		if unit < 1 || !strings.HasPrefix(fields[0], "BenchmarkRead/") {
			continue
		}
		corpus, peer, ok := strings.Cut(strings.TrimPrefix(fields[0], "BenchmarkRead/corpus="), "/peer=")
		speed, err := strconv.ParseFloat(fields[unit-1], 64)
		if !ok || err != nil {
			return nil, nil, fmt.Errorf("cannot read %q", in.Text())
		}
		if i := strings.LastIndexByte(peer, '-'); i > 0 && strings.Trim(peer[i+1:], "0123456789") == "" {
			peer = peer[:i] // the rest is the number of processors
		}
		if all[corpus] == nil {
			all[corpus] = make(map[string][]float64)
			corpora = append(corpora, corpus)
		}
		all[corpus][peer] = append(all[corpus][peer], speed)
	}
	speeds = make(map[string]map[string]float64)
	for corpus, byPeer := range all {
		speeds[corpus] = make(map[string]float64)
		for peer, each := range byPeer {
			slices.Sort(each)
			speeds[corpus][peer] = (each[(len(each)-1)/2] + each[len(each)/2]) / 2
		}
		if speeds[corpus][base] == 0 {
			err = cmp.Or(err, errors.New("no "+base+" for "+corpus))
		}
	}
	if len(corpora) == 0 {
		err = cmp.Or(err, errors.New("no BenchmarkRead in the input"))
	}
	return corpora, speeds, cmp.Or(err, in.Err())
}
