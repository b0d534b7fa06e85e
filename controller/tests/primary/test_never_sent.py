"""Disks of the machine's own that no standby gets, since they are mounted where nothing is sent."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from disks import command, file_system, unmount
from test_reconcile import Pair

import vcrecovery.primary.reconcile as module
from vcrecovery.excludes.selection import Selection
from vcrecovery.primary import lasting_mounts as lasting
from vcrecovery.primary.mounts import OWN
from vcrecovery.primary.never_sent import never_sent
from vcrecovery.primary.reconcile import ReconcileError
from vcrecovery.primary.settings import Consistency, Hook, Settings
from vcrecovery.transfer.freshness import freshness_of

#: As the list has them, and a path that packages own.
HIDDEN = {b"/mnt", b"/media", b"/proc", b"/boot"}
ROOT = "22 1 254:1 / {source} rw,relatime shared:1 - ext4 /dev/vda1 rw"
DATA = "26 22 254:17 / {tree}/mnt/data rw shared:4 - ext4 /dev/vdb1 rw"


class Machine:
    """With that in its mountinfo and its fstab; the plan leaves out `paths`."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        monkeypatch.setattr(lasting, "MOUNTS", str(folder / "mountinfo"))

    def never_sent(self, mounted: list[str], fstab: list[str], *paths: str) -> list[str]:
        lines = [ROOT.format(source="/"), *(line.format(tree="") for line in mounted)]
        (self._folder / "mountinfo").write_text("\n".join(lines) + "\n", errors="surrogateescape")
        (self._folder / "fstab").write_text("\n".join(fstab) + "\n", errors="surrogateescape")
        settings = Settings(selection=Selection(paths=paths), lists={})
        return never_sent(settings, HIDDEN | {path.encode() for path in paths}, str(self._folder / "fstab"))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


HELD = Consistency("hook", ("/",), Hook("true", "true", 10))
WANTED = "/dev/vdb1 /mnt/data ext4 discard,nofail,defaults 0 0"


@pytest.mark.parametrize(
    ("mounted", "fstab"),
    [
        (DATA, WANTED),
        (DATA.replace("/mnt/data", "/media/disk"), "UUID=1 /media/disk auto"),
        # As Hetzner and DigitalOcean do.
        (
            DATA.replace("/mnt/data", "/mnt/HC_Volume_1"),
            "/dev/disk/by-id/scsi-0HC_Volume_1 /mnt/HC_Volume_1 xfs nofail",
        ),
        (DATA.replace("ext4 /dev/vdb1", "nfs4 nas:/x"), "nas:/x /mnt/data nfs4 _netdev"),
        (DATA.replace("/mnt/data", r"/mnt/my\040data"), r"/dev/vdb1 /mnt/my\040data ext4"),
    ],
)
def test_a_disk_for_each_boot_is_named(machine: Machine, mounted: str, fstab: str) -> None:
    point = mounted.split()[4].replace("{tree}", "").replace(r"\040", " ")
    assert machine.never_sent([mounted], [fstab]) == [point]


@pytest.mark.parametrize(
    ("mounted", "fstab"),
    [
        # It comes and goes, or somebody has mounted it for now.
        ([DATA], WANTED.replace("nofail", "noauto")),
        ([DATA], "# " + WANTED),
        # Nothing is there, or nothing that lasts.
        ([], WANTED),
        ([DATA.replace("ext4", "squashfs")], WANTED),
        ([DATA.replace("ext4", "autofs")], WANTED),
        # It is sent, or left out for what it is.
        ([DATA.replace("/mnt", "/srv")], WANTED.replace("/mnt", "/srv")),
        ([DATA.replace("/mnt/data", "/mnt2")], WANTED.replace("/mnt/data", "/mnt2")),
        ([DATA.replace("/mnt/data", "/boot")], WANTED.replace("/mnt/data", "/boot")),
    ],
)
def test_nothing_else_is(machine: Machine, mounted: list[str], fstab: str) -> None:
    assert machine.never_sent(mounted, [fstab]) == []


@pytest.mark.parametrize("path", ["/mnt/data", "/mnt/data/", "/mnt", "//mnt/data"])
def test_what_the_plan_leaves_out_is_known(machine: Machine, path: str) -> None:
    assert machine.never_sent([DATA], [WANTED], path) == []


@pytest.mark.parametrize("path", ["/mnt/dat", "/mnt/data/cache", "/media"])
def test_what_the_plan_leaves_out_of_it_or_beside_it_is_not_all(machine: Machine, path: str) -> None:
    assert machine.never_sent([DATA], [WANTED], path) == ["/mnt/data"]


def test_a_link_that_the_plan_leaves_out_leads_there(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to("/mnt/data")
    assert machine.never_sent([DATA], [WANTED], str(tmp_path / "data")) == []


BOUND = "27 22 254:17 / {tree}/srv/data rw shared:5 - ext4 /dev/vdb1 rw"


def test_what_is_bound_to_where_it_is_sent_is_sent(machine: Machine) -> None:
    binds = [WANTED, "/mnt/data /srv/data none bind"]
    # Whichever is mounted first.
    assert machine.never_sent([DATA, BOUND], binds) == []
    assert machine.never_sent([BOUND, DATA], binds) == []
    # A part of it is not all of it.
    assert machine.never_sent([DATA, BOUND.replace(" / ", " /www ")], binds) == ["/mnt/data"]
    # Something else lies over it, or the plan leaves that out.
    over = "28 27 254:18 / {tree}/srv rw - ext4 /dev/vdc rw"
    assert machine.never_sent([DATA, BOUND, over.replace("/srv", "/srv/data")], binds) == ["/mnt/data"]
    assert machine.never_sent([DATA, BOUND], binds, "/srv/data") == ["/mnt/data"]
    assert machine.never_sent([DATA, BOUND.replace("/srv", "/media")], binds) == ["/mnt/data"]


def test_a_folder_that_is_sent_and_shown_there_is_sent(machine: Machine) -> None:
    shown = DATA.replace("254:17 /", "254:1 /srv/data").replace("vdb1", "vda1")
    assert machine.never_sent([shown], ["/srv/data /mnt/data none bind"]) == []


def test_a_few_are_named_and_none_at_length(machine: Machine) -> None:
    points = [f"/mnt/{number}{'x' * 240}" for number in range(9)]
    mounted = [DATA.replace("/mnt/data", point).replace("26", f"3{point[5]}") for point in points]
    found = machine.never_sent(mounted, [f"/dev/vdb1 {point} ext4" for point in points])
    assert found == [point[:200] for point in points[:5]]


def test_bytes_that_are_no_text_reach_the_report(machine: Machine) -> None:
    found = machine.never_sent([DATA.replace("data", "d\udcff")], [WANTED.replace("data", "d\udcff")])
    assert json.loads(json.dumps(found)) == ["/mnt/d\udcff"]


# -- the report ------------------------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    pair = Pair(tmp_path)
    mounted = [ROOT.format(source="/"), DATA.format(tree=pair.tree)]
    (tmp_path / "mountinfo").write_text("\n".join(mounted) + "\n")
    (tmp_path / "fstab").write_text(WANTED.replace("/mnt", f"{pair.tree}/mnt") + "\n")
    monkeypatch.setattr(lasting, "MOUNTS", str(tmp_path / "mountinfo"))
    monkeypatch.setattr(module, "never_sent", partial(never_sent, fstab=str(tmp_path / "fstab")))
    return pair


def reported(pair: Pair) -> Any:
    return json.loads((Path(pair.settings.state_dir) / "reconcile.json").read_text())["never_sent"]


def test_the_comparison_reports_it(pair: Pair, tmp_path: Path) -> None:
    # By the list as it is made, whose words are those of the VM.
    assert pair.reconcile()["never_sent"] == ["/mnt/data"]
    assert reported(pair) == ["/mnt/data"]
    (tmp_path / "fstab").write_text("")
    pair.reconcile()
    assert reported(pair) == []


def test_the_controller_reads_it(pair: Pair) -> None:
    pair.reconcile()
    report = (Path(pair.settings.state_dir) / "reconcile.json").read_bytes()
    fresh = freshness_of("web", None, report).reconcile
    assert fresh is not None
    assert fresh.never_sent == ("/mnt/data",)


def test_a_real_disk_is_named_until_it_is_bound_to_where_it_is_sent(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(lasting, "MOUNTS", OWN)
    (pair.tree / "srv/data").mkdir(parents=True)
    (pair.tree / "mnt").mkdir()
    with file_system("ext4", pair.tree / "mnt/data", 8) as disk:
        (disk / "row").write_text("x")
        assert pair.reconcile()["never_sent"] == ["/mnt/data"]
        assert not list(pair.standby.rglob("row"))
        command("mount", "--bind", disk, pair.tree / "srv/data")
        try:
            assert pair.reconcile()["never_sent"] == []
            assert (pair.standby / "srv/data/row").read_text() == "x"
        finally:
            unmount(pair.tree / "srv/data")


def test_a_comparison_that_fails_or_runs_still_knows(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.reconcile()
    (Path(pair.settings.state_dir).parent / "sent-mounts").write_text(f"{pair.tree}/srv/gone\n")
    with pytest.raises(ReconcileError, match="gone is not mounted"):
        pair.reconcile()
    assert reported(pair) == ["/mnt/data"]
    # One that belongs together reports its beginning, before anything is looked at.
    seen: list[Any] = []
    monkeypatch.setattr(module, "_tell", lambda _settings, report: seen.append(report["never_sent"]))
    pair.settings = pair.settings._replace(consistency=HELD, engine="periodic")
    with pytest.raises(ReconcileError):
        pair.reconcile()
    assert seen == [["/mnt/data"]] * 2
