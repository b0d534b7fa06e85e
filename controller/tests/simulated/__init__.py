"""The shipped program over simulated drivers: one virtual clock, one task at a time, in an order that a seed gives."""
