"""What must be atomic or outlive a controller: journal, events, quarantined primaries, locks."""
