// Command image builds the image of a Go program with ko, and writes it into a
// folder, as an OCI layout.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/ko/pkg/build"
)

func main() {
	base := flag.String("base", "", "`reference` of the base image, in a registry that speaks HTTP")
	dir := flag.String("dir", ".", "`folder` of the program")
	out := flag.String("out", "", "`folder` of the layout")
	flag.Parse()
	if err := run(context.Background(), *base, *dir, *out); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, base, dir, out string) error {
	ref, err := name.ParseReference(base, name.Insecure)
	if err != nil {
		return err
	}
	ko, err := build.NewGo(ctx, dir,
		build.WithBaseImages(func(ctx context.Context, _ string) (name.Reference, build.Result, error) {
			image, err := remote.Image(ref, remote.WithContext(ctx))
			if err != nil {
				return nil, nil, fmt.Errorf("base image: %w", err)
			}
			return ref, image, nil
		}),
		build.WithPlatforms("linux/"+runtime.GOARCH),
		build.WithTrimpath(false), // what else is built here is in the build cache with its paths
		build.WithDefaultLdflags([]string{"-s", "-w"}),
		build.WithDisabledSBOM(),
	)
	if err != nil {
		return err
	}
	program, err := ko.QualifyImport(".")
	if err != nil {
		return err
	}
	result, err := ko.Build(ctx, program)
	if err != nil {
		return fmt.Errorf("build %s: %w", program, err)
	}
	image, ok := result.(v1.Image)
	if !ok {
		return fmt.Errorf("a %T instead of one image", result)
	}
	folder, err := layout.Write(out, empty.Index)
	if err != nil {
		return err
	}
	return folder.AppendImage(image)
}
