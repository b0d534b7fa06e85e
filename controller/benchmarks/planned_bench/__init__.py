"""What a planned move costs: there and back again, with a client that writes all the time."""
