package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// terminalWidth returns the columns of a console that takes escapes for colours, and
// false for any other file.
func terminalWidth(f *os.File) (columns int, ok bool) {
	console := windows.Handle(f.Fd())
	var mode uint32
	var info windows.ConsoleScreenBufferInfo
	if windows.GetConsoleMode(console, &mode) != nil ||
		windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) != nil ||
		windows.GetConsoleScreenBufferInfo(console, &info) != nil {
		return 0, false
	}
	return int(info.Window.Right-info.Window.Left) + 1, true
}
