//go:build unix

package guardtest

import (
	"os/exec"
	"syscall"
)

// ownGroup has the process start in a group of its own, so that what it starts can be
// killed with it.
func ownGroup(cmd *exec.Cmd) {
	attr := syscall.SysProcAttr{}
	if cmd.SysProcAttr != nil {
		attr = *cmd.SysProcAttr
	}
	if !attr.Setsid { // which makes one too
		attr.Setpgid, attr.Pgid = true, 0
	}
	cmd.SysProcAttr = &attr
}

func killGroup(cmd *exec.Cmd) {
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	cmd.Process.Kill() // which may have left its group
}
