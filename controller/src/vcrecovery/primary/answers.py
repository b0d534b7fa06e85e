"""What a VM asks over the key of its sync, and what a secondary answers: a word, and some that say how much it counts.

PRIMARY: the standby is here, and waits; STANDBY: it serves. `STANDBY ELSEWHERE`: it was here, and went on to serve
elsewhere; ELSEWHERE alone: to wait. These two count where nobody knows better. Of several that know, the greatest RANK
counts: one that was away does not know what was done meanwhile. HAS_ALL_OF: the secondary from which it was moved here,
with all that was sent there.

In a module of its own: the receiver, which runs at every change of a primary, needs no more of the VM's program.
"""

QUESTION, PRIMARY, STANDBY, ELSEWHERE = "who-serves", "primary", "standby", "elsewhere"
RANK, HAS_ALL_OF = "rank=", "has-all-of="
