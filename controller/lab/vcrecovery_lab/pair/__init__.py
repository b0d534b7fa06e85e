"""A primary and its standby without a VM: the primary's own programs run on this machine, on a folder as its tree.

What they send goes through an sshd on loopback, with a key that is confined as the role `primary` confines it, into a
real LXD container that the product makes. What systemd does in the VM is done by `primary`, with plain processes.
"""
