//go:build purego || !(386 || amd64 || arm64 || loong64 || ppc64le || riscv64)

package jsonscan

import "encoding/binary"

// A text is a line, and what follows it in its array up to the slice's capacity.
type text []byte

func textOf(b []byte) text { return b[:cap(b)] }

func (t text) at(i int) byte { return t[i] }

// word returns eight bytes, the first of them in the lowest bits.
func (t text) word(i int) uint64 { return binary.LittleEndian.Uint64(t[i:]) }

func (t text) bytes(from, to int) []byte { return t[from:to] }
