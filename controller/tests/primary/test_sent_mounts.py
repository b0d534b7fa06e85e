"""A file system that is not mounted: which ones matter, and what is not sent without them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from disks import command, file_system, loop_device, mounted, need_root, unmount
from test_reconcile import Pair

import vcrecovery.primary.reconcile as module
from vcrecovery.primary import lasting_mounts as lasting
from vcrecovery.primary.lasting_mounts import lasting_mounts, occupied
from vcrecovery.primary.mounts import OWN, read_mounts
from vcrecovery.primary.programs import ProgramError
from vcrecovery.primary.reconcile import ReconcileError
from vcrecovery.primary.sent_mounts import check_mounts, note_mounts, note_path, noted_mounts
from vcrecovery.primary.settings import Consistency, Hook

MOUNTINFO = r"""
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
23 22 0:21 / /proc rw shared:2 - proc proc rw
24 22 0:22 / /run rw shared:3 - tmpfs tmpfs rw
26 22 254:17 / /srv/my\040data rw shared:4 - ext4 /dev/vdb1 rw
27 22 254:18 / /runway rw - xfs /dev/vdc rw
28 22 0:24 / /var/lib/vcrecovery rw - tmpfs tmpfs rw
29 22 7:1 / /snap/core/1 ro - squashfs /dev/loop1 ro
30 22 0:25 / /var/lib/docker/overlay2/x/merged rw - overlay overlay rw
31 22 0:26 / /var/cache/quick rw - tmpfs tmpfs rw
32 22 254:1 /srv/www /var/www rw - ext4 /dev/vda1 rw
33 22 254:17 / /srv/again rw - ext4 /dev/vdb1 rw
34 22 254:17 /part /var/lib/kubelet/pods/x/volume rw - ext4 /dev/vdb1 rw
35 22 0:27 / /net rw - autofs auto rw,fd=7,timeout=300,indirect
36 35 0:28 / /net/server rw - nfs4 server:/export rw
37 22 0:29 / /srv/later rw - autofs systemd-1 rw,fd=8,direct
38 22 0:30 / /srv/network rw - nfs4 server:/srv rw
39 22 0:31 /@home /home rw - btrfs /dev/vdd rw
40 22 254:19 / /mnt/disk rw - ext4 /dev/vde rw
41 22 254:19 /shown /srv/shown rw - ext4 /dev/vde rw
42 22 254:20 / /srv/over rw - ext4 /dev/vdf rw
43 22 254:1 /srv/over /srv/below rw - ext4 /dev/vda1 rw
44 22 0:32 / /tank rw - zfs tank rw
"""


def test_what_counts_is_what_the_standby_would_miss(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTINFO)
    mounts = read_mounts(str(tmp_path / "mountinfo")).values()
    found = {mount.point for mount in lasting_mounts("/", {b"/mnt", b"/tank"}, mounts)}
    # A bind mount counts where what it shows is sent from nowhere else: here it is below /mnt, or below another mount.
    assert found == {"/srv/my data", "/runway", "/srv/network", "/home", "/srv/shown", "/srv/over", "/srv/below"}
    assert "/srv/later" in occupied(mounts)
    assert not {"/snap/core/1", "/var/cache/quick"} & set(occupied(mounts))
    below = {mount.point for mount in lasting_mounts("/srv", set(), mounts)}
    assert below >= {"/srv/my data", "/srv/network"}
    assert "/runway" not in below


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    return made(tmp_path, monkeypatch)


def made(folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Pair:
    # The test may have a mount namespace of its own.
    monkeypatch.setattr(lasting, "MOUNTS", OWN)
    return Pair(folder, **changes)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    need_root()
    with loop_device(8) as device:
        command("mkfs.ext4", "-q", device)
        yield device


def sent_with(pair: Pair, disk: str, folder: str, name: str) -> Path:
    """Where it was mounted, with one file on it, while the tree was compared."""
    place = pair.tree / folder
    place.mkdir(parents=True)
    with mounted(disk, place):
        (place / name).write_text("the only good copy is in the standby")
        pair.reconcile()
    return place


def test_the_copy_of_a_disk_that_is_gone_stays(pair: Pair, disk: str) -> None:
    data = sent_with(pair, disk, "srv/data", "customers")
    (pair.tree / "else").write_text("x")
    (Path(pair.settings.run_dir) / "due").touch()
    for _ in range(2):
        with pytest.raises(
            ReconcileError, match=rf"{data} is not mounted: mount it, or, if it is gone for good, remove"
        ):
            pair.reconcile()
    assert (pair.standby / "srv/data/customers").exists()
    # The age grows, and the status says why.
    assert pair.marks.any
    report = json.loads((Path(pair.settings.state_dir) / "reconcile.json").read_text())
    assert str(note_path(pair.settings)) in report["error"]
    assert len(report["error"]) < 300
    with mounted(disk, data):
        pair.reconcile()
    assert (pair.standby / "srv/data/customers").exists()
    assert (pair.standby / "else").exists()
    assert not pair.marks.any


def test_a_line_that_is_removed_says_that_it_is_gone_for_good(pair: Pair, disk: str) -> None:
    data = sent_with(pair, disk, "srv/da ta\\", "old")
    note = Path(note_path(pair.settings))
    assert noted_mounts(pair.settings) == {str(data)}
    with pytest.raises(ReconcileError):
        pair.reconcile()
    note.write_text("".join(line for line in note.read_text().splitlines(keepends=True) if not line.startswith("/")))
    pair.reconcile()
    assert not (pair.standby / "srv/da ta\\/old").exists()
    assert noted_mounts(pair.settings) == set()


def test_what_nothing_is_sent_of_may_go(pair: Pair, disk: str) -> None:
    own = pair.tree / "srv/own/disk"
    own.mkdir(parents=True)
    with mounted(disk, own):
        pair.reconcile()
    pair.reconcile()
    Path(note_path(pair.settings)).write_text(f"{own}\n")
    pair.reconcile()


def test_what_is_in_memory_or_shown_twice_may_go(pair: Pair) -> None:
    need_root()
    for name in ("memory", "www", "shown"):
        (pair.tree / name).mkdir()
    (pair.tree / "www/page").write_text("x")
    command("mount", "-t", "tmpfs", "tmpfs", pair.tree / "memory")
    command("mount", "--bind", pair.tree / "www", pair.tree / "shown")
    try:
        pair.reconcile()
        assert (pair.standby / "shown/page").exists()
        assert noted_mounts(pair.settings) == set()
    finally:
        unmount(pair.tree / "memory")
        unmount(pair.tree / "shown")
    pair.reconcile()


def test_what_is_unmounted_during_a_pass_leaves_a_mark(
    pair: Pair, disk: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    data = pair.tree / "data"
    with mounted(disk, data):
        send = module._send

        def interrupted(*arguments: Any) -> None:
            send(*arguments)
            unmount(data)

        monkeypatch.setattr(module, "_send", interrupted)
        with pytest.raises(ReconcileError, match="data is not mounted"):
            pair.reconcile()
        assert pair.marks.any
        assert noted_mounts(pair.settings) == {str(data)}
        command("mount", disk, data)


def test_periodic_neither_holds_the_service_nor_vouches(
    tmp_path: Path, disk: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    log = tmp_path / "log"
    hook = Consistency("hook", ("/",), Hook(f"echo held >> {log}", "true", 10))
    state = tmp_path / "tree/var/lib/vcrecovery"
    pair = made(tmp_path, monkeypatch, engine="periodic", consistency=hook, state_dir=str(state))
    data = pair.tree / "data"
    with mounted(disk, data):
        (data / "row").write_text("x")
        pair.reconcile()
    before = (state / "heartbeat").read_text()
    with pytest.raises(ReconcileError, match="data is not mounted"):
        pair.reconcile()
    assert (pair.standby / "data/row").exists()
    assert log.read_text() == "held\n"
    assert (state / "heartbeat").read_text() == before
    assert (
        "data is not mounted" in json.loads((pair.standby / "var/lib/vcrecovery/reconcile.json").read_text())["error"]
    )


def test_what_fstab_wants_is_missed_before_anything_was_noted(pair: Pair, tmp_path: Path) -> None:
    fstab = tmp_path / "fstab"
    fstab.write_text(
        f"tmpfs {pair.tree}/memory tmpfs\n/dev/vdz {pair.tree}/rarely ext4 noauto\n/dev/vdy {pair.tree}/own ext4\n"
    )
    check_mounts(pair.settings, {b"/own"}, str(fstab))
    with pytest.raises(ProgramError, match=rf"own is not mounted: `mount {pair.tree}/own`, .* from {fstab}$"):
        check_mounts(pair.settings, set(), str(fstab))
    Path(note_path(pair.settings)).write_text(f"{pair.tree}/own\n")
    with pytest.raises(ProgramError, match=f" from {note_path(pair.settings)} and {fstab}$"):
        check_mounts(pair.settings, set(), str(fstab))


def test_what_a_boot_may_leave_out_is_missed_once_it_was_there(pair: Pair, tmp_path: Path) -> None:
    """A backup disk that is not plugged in stops no sync; a copy back would land below it."""
    fstab = tmp_path / "fstab"
    fstab.write_text(f"/dev/vdy {pair.tree}/own ext4 defaults,nofail\n")
    check_mounts(pair.settings, set(), str(fstab))
    with pytest.raises(ProgramError, match="own is not mounted"):
        check_mounts(pair.settings, set(), str(fstab), nofail=True)
    Path(note_path(pair.settings)).write_text(f"{pair.tree}/own\n")
    with pytest.raises(ProgramError, match="own is not mounted"):
        check_mounts(pair.settings, set(), str(fstab))


def test_a_note_that_cannot_be_written_stops_no_sync(pair: Pair) -> None:
    said: list[str] = []
    pair.settings = pair.settings._replace(ssh_config=str(pair.tree / "none/ssh_config"))
    module.reconcile(pair.settings, module_run, lambda: None, said.append)
    assert said
    assert all(line.startswith(f"warning: {pair.tree}/none/sent-mounts: No such file") for line in said)


def module_run(_words: object, _timeout: float) -> str:
    return ""


def test_a_note_is_written_once(pair: Pair, tmp_path: Path) -> None:
    note_mounts(pair.settings, set())
    before = Path(note_path(pair.settings)).stat().st_ino
    note_mounts(pair.settings, set())
    assert Path(note_path(pair.settings)).stat().st_ino == before
    with file_system("ext4", pair.tree / "data", 8):
        note_mounts(pair.settings, set())
        assert noted_mounts(pair.settings) == {str(pair.tree / "data")}
