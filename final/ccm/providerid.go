package ccm

import "example.com/ccm-from-scratch/final/providerid"

func parseProviderID(s string) (int64, error) { return providerid.Parse(s) }
