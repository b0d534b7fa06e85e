"""Carries out what the core decides: journal, act, journal."""
