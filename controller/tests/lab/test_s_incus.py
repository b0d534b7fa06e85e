"""Incus in the place of LXD, on both secondaries: from the first sync over a failover and a move to the return."""

from __future__ import annotations

from pathlib import Path

import pytest

from vcrecovery.errors import ExitCode
from vcrecovery_lab.run import run

from .flavours import INCUS, programs_of
from .small_site import BRIDGE
from .synced_site import NAME, SyncedSite, synced_site
from .two_secondaries import SPARE_BRIDGE

pytestmark = [pytest.mark.lab, pytest.mark.reaches_out]


def test_a_standby_serves_moves_and_goes_home(tmp_path: Path) -> None:
    with synced_site(tmp_path, programs_of(INCUS)) as site:
        assert site.differences_on("sec1") == []
        site.write("www/index.html", "written later\n")
        site.arrives("www/index.html", "sec1")
        refused = site.vcrecovery("move", NAME, "--to", "sec2")
        assert refused.returncode == ExitCode.REFUSED
        assert "secondary sec1 has Incus, which starts no container that it is copying" in refused.stderr
        drained = site.vcrecovery("drain", "sec1")
        assert drained.returncode == ExitCode.REFUSED
        assert "which starts no container that it is copying" in drained.stdout
        assert site.vcrecovery("undrain", "sec1").returncode == 0
        assert site.take_files() == ["sec1"]
        site.primary_side.kill()
        for words, secondary in ((("failover", NAME), "sec1"), (("move", NAME, "--to", "sec2"), "sec2")):
            done = site.vcrecovery(*words)
            assert done.returncode == 0, (done.stdout, done.stderr)
            assert site.page(NAME) == "written later"
            assert site.status_of(NAME)["secondary"] == secondary
        shown = site.status_of(NAME)
        assert (shown["serves"], shown["standby"]["state"]) == ("standby", "running")
        go_home(site)
        assert site.take_files() == ["sec1"]
        folders = [site.lxd.folder, site.spare_lxd.folder]
    assert not any(folder.exists() for folder in folders)
    left = run(["ip", "-o", "link"], timeout=30).stdout + run(["iptables-save"], timeout=30).stdout
    assert not any(bridge in left for bridge in (BRIDGE, SPARE_BRIDGE))


def go_home(site: SyncedSite) -> None:
    """The VM has been repaired."""
    done = site.vcrecovery("move", NAME, "--to", "sec1")
    assert done.returncode == 0, (done.stdout, done.stderr)
    site.returned_by_hand("sec1")
    assert site.address_in_dns(NAME) == [site.primary(NAME)]
