package ccm

import (
	"context"
	"fmt"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/hetznercloud/hcloud-go/v2/hcloud/metadata"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"
)

// metadataTimeout is plenty for a service on the same host, and short for those
// who are not on such a host.
const metadataTimeout = 2 * time.Second

// checkAttached returns an error if this process runs on a cloud server that is
// no member of the network: its Nodes would have the wrong addresses, and no pod
// would reach another. Only the metadata service of a cloud server can know.
func checkAttached(ctx context.Context, network *hcloud.Network, options ...metadata.ClientOption) error {
	client := metadata.NewClient(append(options, metadata.WithTimeout(metadataTimeout))...)
	answer, err := client.PrivateNetworksWithContext(ctx)
	var members []struct {
		NetworkID int64 `json:"network_id"`
	}
	if err == nil {
		err = yaml.Unmarshal([]byte(answer), &members)
	}
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Not on a cloud server: nobody can say whether it is in the network", "network", network.ID)
		return nil
	}
	for _, member := range members {
		if member.NetworkID == network.ID {
			return nil
		}
	}
	return fmt.Errorf("this server is not attached to network %q (%d): attach it, or set HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK=true", network.Name, network.ID)
}
