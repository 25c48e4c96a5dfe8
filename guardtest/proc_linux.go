package guardtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const tellsMemory = true

// peakMemory returns the most memory that a process and those below it have held so
// far, in bytes, each at its own time.
func peakMemory(pid int) int64 {
	parents := make(map[int]int)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended meanwhile
		}
		var pid, parent int
		var state string
		fmt.Sscanf(string(stat), "%d", &pid)
		fields := stat[bytes.LastIndexByte(stat, ')')+1:] // the name before may hold anything
		fmt.Sscanf(string(fields), "%s %d", &state, &parent)
		parents[pid] = parent
	}
	total := ownPeak(pid)
	for p := range parents {
		for above := parents[p]; above > 0; above = parents[above] {
			if above == pid {
				total += ownPeak(p)
				break
			}
		}
	}
	return total
}

// ownPeak is 0 for a process that has ended.
func ownPeak(pid int) int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		var kib int64
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	return 0
}
