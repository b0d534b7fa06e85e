"""What no test notices: the code that matters is broken in small ways, one at a time."""
