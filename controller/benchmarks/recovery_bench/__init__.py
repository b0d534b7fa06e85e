"""How long the recovery of four services takes: as containers in one secondary VM, and as VMs that are booted."""
