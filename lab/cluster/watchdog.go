package cluster

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

//go:embed watchdog.sh
var watchdogScript []byte

// A watchdog is a small process that outlives this one by a moment: when this
// process ends, even by SIGKILL, the kernel closes the pipe between the two,
// and the watchdog ends the processes on its list and removes the folder.
type watchdog struct {
	dir  string
	cmd  *exec.Cmd
	pipe io.WriteCloser
	end  func() error // lets the watchdog do its work and waits until it is done
}

// newWatchdog starts the watchdog of dir, which from then on belongs to it.
func newWatchdog(dir string) (*watchdog, error) {
	w := &watchdog{dir: dir, cmd: exec.Command(filepath.Join(dir, "watchdog.sh"), "watch")}
	if err := os.Mkdir(filepath.Join(dir, "listed"), 0o700); err != nil {
		return nil, err
	}
	if err := writeProgram(w.cmd.Path, watchdogScript); err != nil {
		return nil, err
	}
	// Neither Ctrl-C nor a hang-up of the terminal reaches another session.
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	w.cmd.Dir = "/"
	var err error
	if w.pipe, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the watchdog: %w", err)
	}
	w.end = sync.OnceValue(func() error {
		w.pipe.Close()
		if err := w.cmd.Wait(); err != nil {
			return fmt.Errorf("watchdog: remove %s: %w", dir, err)
		}
		return nil
	})
	return w, nil
}

// wrap writes a program that becomes binary once it is on the watchdog's list.
func (w *watchdog) wrap(binary string) (path string, err error) {
	path = filepath.Join(w.dir, filepath.Base(binary))
	script := fmt.Sprintf("#!/bin/sh\nexec %s run %s \"$@\"\n", shellQuote(w.cmd.Path), shellQuote(binary))
	return path, writeProgram(path, []byte(script))
}

// writeProgram writes a file that can be run. While it is open for writing no
// other goroutine may fork: the child would have it open as well for a moment,
// and who runs it in that moment is told "text file busy" (golang.org/issue/22315).
func writeProgram(path string, text []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, text, 0o700)
}

func shellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// tell sends the watchdog a line. An error means that it is gone, and then
// there is nothing left that could be guarded.
func (w *watchdog) tell(verb string, p *os.Process) {
	_, _ = fmt.Fprintln(w.pipe, verb, p.Pid)
}
