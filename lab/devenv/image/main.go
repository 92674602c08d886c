// Command image serves a registry on a free port of the loopback address, with an
// image that has no file, for ko to build on. It prints the address, and ends when
// its standard input does.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(in io.Reader, out io.Writer) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0))), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()

	base, err := baseImage("amd64", "arm64")
	if err != nil {
		return err
	}
	address := listener.Addr().String()
	ref, err := name.ParseReference(address+"/base:latest", name.Insecure)
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(ref, base); err != nil {
		return fmt.Errorf("store the base image: %w", err)
	}
	fmt.Fprintln(out, address)
	_, _ = io.Copy(io.Discard, in)
	return server.Close()
}

// baseImage is like the one that ko takes unless it is told otherwise, without its files.
func baseImage(architectures ...string) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range architectures {
		image, err := mutate.ConfigFile(mutate.MediaType(empty.Image, types.OCIManifestSchema1), &v1.ConfigFile{
			OS: "linux", Architecture: architecture, Config: v1.Config{User: "65532"}, RootFS: v1.RootFS{Type: "layers"},
		})
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        mutate.ConfigMediaType(image, types.OCIConfigJSON),
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
		})
	}
	return index, nil
}
