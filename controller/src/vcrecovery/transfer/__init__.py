"""How files reach a standby: the receiver, its sessions, and how fresh what they brought is."""
