//go:build unix

package drive

import (
	"os"
	"syscall"
)

func init() { Kinds = append(Kinds, Kind{"socket pairs", socketPair}) }

func socketPair(bool) (child, parent *os.File, err error) {
	syscall.ForkLock.RLock() // no other child may inherit them
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		syscall.ForkLock.RUnlock()
		return nil, nil, err
	}
	syscall.CloseOnExec(fds[0])
	syscall.CloseOnExec(fds[1])
	syscall.ForkLock.RUnlock()
	// So that the runtime waits for it in poll, and Close ends a Read.
	if err := syscall.SetNonblock(fds[1], true); err != nil {
		syscall.Close(fds[0])
		syscall.Close(fds[1])
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "child's end"), os.NewFile(uintptr(fds[1]), "parent's end"), nil
}
