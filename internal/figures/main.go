// Figures draws the README's pictures, as SVG that is readable on a light page and on a
// dark one. From the repository's root:
//
//	go run -C examples ./demo -json | go run ./internal/figures probe > docs/probe.svg
//	go test -run '^$' -bench Read -count 6 . | go run ./internal/figures speed > docs/speed.svg
package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("figures: ")
	draw := map[string]func(io.Reader) (*picture, error){"probe": drawProbe, "speed": drawSpeed}
	if len(os.Args) != 2 || draw[os.Args[1]] == nil {
		log.Fatal("usage: figures probe|speed < data > picture.svg")
	}
	p, err := draw[os.Args[1]](os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	out := bufio.NewWriter(os.Stdout)
	p.writeTo(out)
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
}

// A picture is what is drawn so far, and how large it is, in pixels.
type picture struct {
	title         string // for who cannot see it
	width, height int
	body          strings.Builder
}

// The classes of shapes and texts: see style.
const style = `
  text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #1f2328 }
  .b { font-weight: bold } .e { text-anchor: end }
  .dim { fill: #656d76 } .good { fill: #1a7f37 } .bad { fill: #cf222e }
  .bar0 { fill: #0969da } .bar1 { fill: #8c959f } .bar2 { fill: #afb8c1 } .bar3 { fill: #d0d7de }
  .line { stroke: #d0d7de }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .dim { fill: #8d96a0 } .good { fill: #3fb950 } .bad { fill: #f85149 }
    .bar0 { fill: #4493f8 } .bar1 { fill: #848d97 } .bar2 { fill: #656c76 } .bar3 { fill: #484f58 }
    .line { stroke: #3d444d }
  }
`

func (p *picture) text(x, y int, classes, text string) {
	fmt.Fprintf(&p.body, `<text x="%d" y="%d" class="%s">%s</text>`+"\n", x, y, classes, escape.Replace(text))
}

func (p *picture) bar(x, y, width, height int, class string) {
	fmt.Fprintf(&p.body, `<rect x="%d" y="%d" width="%d" height="%d" rx="1" class="%s"/>`+"\n", x, y, max(width, 1), height, class)
}

func (p *picture) line(x1, y1, x2, y2 int) {
	fmt.Fprintf(&p.body, `<line x1="%d" y1="%d" x2="%d" y2="%d" class="line"/>`+"\n", x1, y1, x2, y2)
}

var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func (p *picture) writeTo(w io.Writer) {
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">`+"\n", p.width, p.height, p.width, p.height)
	fmt.Fprintf(w, "<title>%s</title>\n<style>%s</style>\n%s</svg>\n", escape.Replace(p.title), style, p.body.String())
}
