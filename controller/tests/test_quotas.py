"""A limit of a standby's disk, where its pool keeps no quota."""

from __future__ import annotations

from pathlib import Path

from simulated.observed import Observed
from vcrecovery.operations.preflight import warnings_outside


def test_each_pool_that_keeps_none_is_named(memory_path: Path) -> None:
    """Its spare's, too: that is where it serves when its secondary has failed."""
    site = Observed(memory_path, world={"spare": "sec2"}, plan={"service": {"limits": {"disk": "20GiB"}}})
    found: list[str] = []
    site.do(site._begin("operator", lambda env: found.extend(warnings_outside(env))))
    assert [line for line in found if "limits.disk" in line] == [
        f"services.web.limits.disk: pool default of {name} has driver dir, which keeps no quota: nothing limits it"
        for name in ("sec1", "sec2")
    ]
