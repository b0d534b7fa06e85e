"""How long it takes to choose what leaves overloaded secondaries."""
