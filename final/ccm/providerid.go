package ccm

import (
	"fmt"
	"strconv"
	"strings"
)

const providerIDPrefix = ProviderName + "://"

// providerID names a server in a Node's spec, in the form that the CSI driver
// and the cluster autoscaler use as well.
func providerID(serverID int64) string {
	return providerIDPrefix + strconv.FormatInt(serverID, 10)
}

// parseProviderID returns the ID of the server that a Node's provider ID names.
// It accepts what providerID returns for a positive ID, and nothing else.
func parseProviderID(s string) (int64, error) {
	id, err := strconv.ParseInt(strings.TrimPrefix(s, providerIDPrefix), 10, 64)
	if err != nil || id <= 0 || s != providerID(id) {
		return 0, fmt.Errorf("provider ID %q does not have the form %s<server ID>, with a positive number", s, providerIDPrefix)
	}
	return id, nil
}
