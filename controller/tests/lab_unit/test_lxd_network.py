"""Which firewall rules go with a bridge that LXD has removed."""

from vcrecovery_lab.lxd_network import rules_of

SAVED = """\
*filter
:FORWARD ACCEPT [0:0]
-A FORWARD -o vcrlab-x -m comment --comment "generated for LXD network vcrlab-x" -j ACCEPT
-A FORWARD -i vcrlab-x -m comment --comment "generated for LXD network vcrlab-x" -j ACCEPT
-A FORWARD -i vcrlab-xy -m comment --comment "generated for LXD network vcrlab-xy" -j ACCEPT
-A FORWARD -i vcrlab-x -m comment --comment "the operator's own" -j DROP
-A FORWARD -i eth0 -m comment --comment "generated for LXD network vcrlab-x" -j ACCEPT
COMMIT
"""


def test_only_those_that_lxd_made_for_this_very_bridge() -> None:
    comment = ["-m", "comment", "--comment", "generated for LXD network vcrlab-x", "-j", "ACCEPT"]
    assert rules_of("vcrlab-x", SAVED) == [
        ["FORWARD", "-o", "vcrlab-x", *comment],
        ["FORWARD", "-i", "vcrlab-x", *comment],
    ]
    assert rules_of("vcrlab", SAVED) == []
