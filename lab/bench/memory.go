package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

const memoryInterval = 250 * time.Millisecond

// watchMemory keeps the most memory that the CCM had until ctx or the CCM ends.
func (r *run) watchMemory(ctx context.Context) {
	tick := time.NewTicker(memoryInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		bytes, err := memory(ctx, r.ccm.PID())
		if err != nil {
			return // the process has ended
		}
		r.memory.Store(max(r.memory.Load(), bytes))
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

var highWaterMark = regexp.MustCompile(`(?m)^VmHWM:\s*(\d+) kB$`)

// memory returns the resident memory of a process in bytes: on Linux the most
// that it ever had (VmHWM, proc_pid_status(5)), elsewhere what it has now.
func memory(ctx context.Context, pid int) (int64, error) {
	var kibibytes string
	if runtime.GOOS == "linux" {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return 0, err
		}
		match := highWaterMark.FindSubmatch(status)
		if match == nil {
			return 0, fmt.Errorf("process %d has no memory any more", pid)
		}
		kibibytes = string(match[1])
	} else {
		out, err := exec.CommandContext(ctx, "ps", "-o", "rss=", "-p", strconv.Itoa(pid)).Output()
		if err != nil {
			return 0, err
		}
		kibibytes = strings.TrimSpace(string(out))
	}
	n, err := strconv.ParseInt(kibibytes, 10, 64)
	return n << 10, err
}
