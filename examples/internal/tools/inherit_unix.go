//go:build unix

package tools

import (
	"os"
	"os/exec"
	"syscall"
)

// inheriting runs a child that has this process's descriptors 0, 1 and 2, as C's
// system does.
func inheriting(args ...string) error {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	pid, err := syscall.ForkExec(path, args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		return err
	}
	for {
		if _, err = syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
			return err
		}
	}
}
