"""The steps of a failover, a file each. Each looks before it acts, and returns what it saw or proved."""
