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
*nat
-A POSTROUTING -s 10.0.0.0/24 ! -d 10.0.0.0/24 -m comment --comment "generated for LXD network vcrlab-x" -j MASQUERADE
-A POSTROUTING -s 10.0.1.0/24 ! -d 10.0.1.0/24 -m comment --comment "generated for LXD network vcrlab-xy" -j MASQUERADE
COMMIT
"""


def test_only_those_that_lxd_made_for_this_very_bridge() -> None:
    comment = ["-m", "comment", "--comment", "generated for LXD network vcrlab-x", "-j"]
    assert rules_of("vcrlab-x", SAVED) == [
        ("filter", ["FORWARD", "-o", "vcrlab-x", *comment, "ACCEPT"]),
        ("filter", ["FORWARD", "-i", "vcrlab-x", *comment, "ACCEPT"]),
        ("nat", ["POSTROUTING", "-s", "10.0.0.0/24", "!", "-d", "10.0.0.0/24", *comment, "MASQUERADE"]),
    ]
    assert rules_of("vcrlab", SAVED) == []
