package cluster

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// TestWriteProgram writes and runs programs in several goroutines at once: a
// fork of one must not keep the file of another open.
func TestWriteProgram(t *testing.T) {
	dir := t.TempDir()
	var writers sync.WaitGroup
	for writer := range 4 {
		writers.Go(func() {
			for n := range 50 {
				path := filepath.Join(dir, fmt.Sprint(writer, "-", n))
				if err := writeProgram(path, []byte("#!/bin/sh\n")); err != nil {
					t.Error(err)
				} else if err := exec.Command(path).Run(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
}
