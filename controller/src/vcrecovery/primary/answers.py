"""What a VM asks over the key of its sync, and what its secondary answers.

In a module of its own: the receiver, which runs at every change of a primary, needs no more of the VM's program.
"""

QUESTION, PRIMARY, STANDBY = "who-serves", "primary", "standby"
