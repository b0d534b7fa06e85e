"""The lab: the machines, networks and images that the demonstration and the end-to-end tests work on."""
