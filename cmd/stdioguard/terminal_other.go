//go:build !unix && !windows

package main

import "os"

// terminalWidth is for Unix and Windows. Elsewhere no file is taken for a terminal.
func terminalWidth(*os.File) (columns int, ok bool) { return 0, false }
