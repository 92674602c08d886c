// Package health lets /healthz fail when controllers have been started, and do
// nothing: they wait, silently and for ever, for lists of Nodes and Services that
// they cannot read.
package health

import (
	"context"
	"fmt"
	"net/http"
	"time"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	genericcontrollermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"
	"k8s.io/controller-manager/pkg/healthz"
)

// Name is the name of the health controller, in /healthz?verbose and for --controllers.
const Name = "health-controller"

// patience is how long the first list may take. Once it has been read, what it
// says may be old, but the controllers work with it.
const patience = time.Minute

// Constructor adds the check to the controllers. It runs nothing of its own.
var Constructor = app.ControllerInitFuncConstructor{
	InitContext: app.ControllerInitContext{ClientName: Name},
	Constructor: func(_ app.ControllerInitContext, c *config.CompletedConfig, cloud cloudprovider.Interface) app.InitFunc {
		return func(context.Context, genericcontrollermanager.ControllerContext) (controller.Interface, bool, error) {
			synced := map[string]func() bool{"nodes": c.SharedInformers.Core().V1().Nodes().Informer().HasSynced}
			if _, enabled := cloud.LoadBalancer(); enabled {
				synced["services"] = c.SharedInformers.Core().V1().Services().Informer().HasSynced
			}
			return &check{synced: synced, start: time.Now()}, true, nil
		}
	},
}

// check fails if a list has not been read for too long.
type check struct {
	synced map[string]func() bool
	start  time.Time
}

var _ controller.HealthCheckable = &check{}

// Name implements controller.Interface.
func (c *check) Name() string { return Name }

// HealthChecker is asked for once, by the library.
func (c *check) HealthChecker() healthz.UnnamedHealthChecker { return c }

// Check is called for each request of /healthz.
func (c *check) Check(*http.Request) error {
	for name, synced := range c.synced {
		if !synced() && time.Since(c.start) > patience {
			return fmt.Errorf("the controllers wait for the list of %s since %s: do they have the right to list and watch them?", name, c.start.Format(time.RFC3339))
		}
	}
	return nil
}
