"""What the benchmark of an installation reads out of a run of ansible-playbook."""

from __future__ import annotations

import pytest

from install_bench.plays import read
from vcrecovery_lab.run import LabError

PRINTED = """
PLAY RECAP *********************************************************************
hv1                        : ok=12   changed=2    unreachable=0    failed=0    skipped=4    rescued=0    ignored=0
sec1                       : ok=60   changed=40   unreachable=0    failed=0    skipped=9    rescued=0    ignored=0

===============================================================================
vcrecovery.standby.secondary ------------------------------------------- 20.51s
dns --------------------------------------------------------------------- 3.04s
gather_facts ------------------------------------------------------------ 1.00s
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
total ------------------------------------------------------------------ 24.55s
"""


def test_the_roles_and_what_they_changed() -> None:
    played = read(PRINTED, 30.0)
    assert (played.seconds, played.changed) == (30.0, 42)
    assert played.roles == {"secondary": 20.51, "dns": 3.04}


@pytest.mark.parametrize(
    "wrong",
    [
        PRINTED.replace("changed=2    unreachable=0", "changed=2    unreachable=1"),
        PRINTED.replace("changed=40   unreachable=0    failed=0", "changed=40   unreachable=0    failed=1"),
        PRINTED.replace("standby.secondary ", "other.secondary ").replace("\ndns ", "\nlineinfile "),
        "ERROR! the playbook could not be found\n",
    ],
)
def test_what_was_not_played_whole_is_no_figure(wrong: str) -> None:
    with pytest.raises(LabError, match="no host, or no role"):
        read(wrong, 30.0)
