"""How soon a failover begins after a VM's end, by each of the two ways, and what is taken for a failure wrongly."""
