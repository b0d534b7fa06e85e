"""Measures what it costs to ask whoever serves all the time, and how soon an outage is noticed."""
