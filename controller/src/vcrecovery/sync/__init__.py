"""How files reach a standby: the standby itself, the receiver, the marker that shows how fresh it is."""
