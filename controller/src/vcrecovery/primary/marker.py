"""The name of the file that a VM stamps as its heartbeat.

In a module of its own: the receiver, which runs at every change of a primary, needs no more of the VM's program.
"""

NAME = "heartbeat"
