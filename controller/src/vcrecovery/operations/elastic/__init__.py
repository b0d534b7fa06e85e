"""Secondaries that are made when services have nowhere to go, and given back when these can go home."""
