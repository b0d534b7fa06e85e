"""How long a recovery takes, with all that is real in it, and what the controller itself costs."""
