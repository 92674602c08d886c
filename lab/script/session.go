package script

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"example.com/ccm-from-scratch/lab/stack"
)

var errNoCCM = errors.New("no CCM runs: the script has not started one")

// session is what the verbs of one script share.
type session struct {
	stack   *stack.Stack
	binary  string        // the CCM under test
	logPath string        // of the CCM
	workDir func() string // the script's current folder
	printed func() string // what the last command printed
	setenv  func(key, value string)
	within  time.Duration // default of eventually
	narrate io.Writer     // shows verbs and their output as they run; nil for tests

	ccmProcess *stack.CCM
}

func (s *session) startCCM(kubeconfig string, env, flags []string) (err error) {
	if s.ccmProcess != nil {
		if _, exited := s.ccmProcess.Exited(); !exited {
			return errors.New("the CCM runs already: use ccm restart")
		}
	}
	if err := os.Remove(s.logPath); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	s.ccmProcess, err = s.stack.StartCCM(s.binary, s.logPath, kubeconfig, env, flags)
	return err
}

func (s *session) stopCCM() (exitCode int, err error) {
	if s.ccmProcess == nil {
		return 0, errNoCCM
	}
	exitCode, err = s.ccmProcess.Stop()
	s.ccmProcess = nil
	return exitCode, err
}

func (s *session) killCCM() error {
	if s.ccmProcess == nil {
		return errNoCCM
	}
	s.ccmProcess.Kill()
	s.ccmProcess = nil
	return nil
}

// unexpectedExit tells whether a CCM that should run has ended with an error.
func (s *session) unexpectedExit() (exitCode int, exited bool) {
	if s.ccmProcess == nil {
		return 0, false
	}
	return s.ccmProcess.Exited()
}

// ccmLog returns the log since the last start.
func (s *session) ccmLog() (string, error) {
	log, err := os.ReadFile(s.logPath)
	if err != nil {
		return "", errNoCCM
	}
	if code, exited := s.unexpectedExit(); exited {
		log = fmt.Appendf(log, "exit code %d\n", code)
	}
	return string(log), nil
}

// close ends what the script left running.
func (s *session) close() error {
	var err error
	if s.ccmProcess != nil {
		_, err = s.stopCCM()
	}
	return errors.Join(err, s.stack.Stop())
}

// lines and requests of the report that follows a failed script
const reportLines = 40

// report says what the CCM and the cloud did last.
func (s *session) report(w io.Writer) {
	if log, err := s.ccmLog(); err == nil {
		fmt.Fprintf(w, "\nThe last lines of the CCM's log (%s):\n%s", filepath.Base(s.logPath), tail(log))
	}
	var requests strings.Builder
	for _, r := range s.stack.Cloud.Requests(stack.Project) {
		query := ""
		if r.Query != "" {
			query = "?" + r.Query
		}
		fmt.Fprintf(&requests, "%s %s %s%s %d\n", r.Time.Format("15:04:05.000"), r.Method, r.Path, query, r.Status)
	}
	if requests.Len() == 0 {
		requests.WriteString("(none)\n")
	}
	fmt.Fprintf(w, "\nThe last requests to the cloud:\n%s", tail(requests.String()))
}

// tail returns the last lines of a text.
func tail(text string) string {
	lines := strings.SplitAfter(text, "\n")
	if extra := len(lines) - reportLines; extra > 0 {
		lines = append([]string{fmt.Sprintf("(%d lines before)\n", extra)}, lines[extra:]...)
	}
	return strings.Join(lines, "")
}
