// Package providerid reads and writes the provider IDs of Nodes.
package providerid

import (
	"fmt"
	"strconv"
	"strings"
)

// Prefix begins the provider IDs of cloud servers, in the form that the CSI
// driver and the cluster autoscaler use as well.
const Prefix = "hcloud://"

// robotPrefixes begin the provider IDs of dedicated servers: that of the official
// CCM, and an older one of Cluster API.
var robotPrefixes = []string{"hrobot://", Prefix + "bm-"}

// Format names a server in a Node's spec.
func Format(serverID int64) string {
	return Prefix + strconv.FormatInt(serverID, 10)
}

// Parse returns the ID of the cloud server that a Node's provider ID names. It
// accepts what Format returns for a positive ID, and nothing else. The error says
// what the provider ID is instead.
func Parse(s string) (int64, error) {
	for _, prefix := range robotPrefixes {
		if strings.HasPrefix(s, prefix) {
			return 0, fmt.Errorf("provider ID %q is that of a dedicated server, and Robot is not supported", s)
		}
	}
	id, err := strconv.ParseInt(strings.TrimPrefix(s, Prefix), 10, 64)
	if err != nil || id <= 0 || s != Format(id) {
		return 0, fmt.Errorf("provider ID %q does not have the form %s<server ID>, with a positive number", s, Prefix)
	}
	return id, nil
}
