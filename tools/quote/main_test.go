package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"example.com/ccm-from-scratch/tools/internal/treetest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"quote": main})
}

func TestScripts(t *testing.T) { treetest.Run(t, "testdata/script") }
