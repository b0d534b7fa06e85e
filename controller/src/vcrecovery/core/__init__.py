"""Values, rules and decisions. Pure: no clock, no I/O, no threads."""
