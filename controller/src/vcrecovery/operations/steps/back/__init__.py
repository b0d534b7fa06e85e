"""The steps of a failback that a failover has not."""
