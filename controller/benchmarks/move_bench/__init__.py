"""How long a standby that serves is down while it moves to another secondary, beside other ways to move it."""
