"""A standby's life in LXD: its container, its modes, what keeps it, its restore points."""
