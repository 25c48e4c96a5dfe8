//go:build !purego && (386 || amd64 || arm64 || loong64 || ppc64le || riscv64)

package jsonscan

import "unsafe"

// A text is a line, and what follows it in its array up to the slice's capacity.
// It is read without bounds checks: run stays within the line by its sentinel,
// and loads words only where they end within the capacity. The tag purego takes
// the checked text instead, which the tests and fuzz targets run with as well.
type text struct{ p unsafe.Pointer }

func textOf(b []byte) text { return text{unsafe.Pointer(unsafe.SliceData(b))} }

func (t text) at(i int) byte { return *(*byte)(unsafe.Add(t.p, i)) }

// word returns eight bytes, the first of them in the lowest bits: these
// processors are little-endian and load from any address.
func (t text) word(i int) uint64 { return *(*uint64)(unsafe.Add(t.p, i)) }

func (t text) bytes(from, to int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(t.p, from)), to-from)
}
