"""Syncs from snapshots of real logical volumes; the lab runs this in a VM where the machine's kernel cannot."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from disks import command, loop_device, mounted, need_root
from lockstep import ahead, lockstep
from test_reconcile import Pair

from lab.waiting import wait_for
from vcrecovery.primary.reconcile import ReconcileError
from vcrecovery.primary.settings import Consistency, Hook

GROUP, VOLUME = "vcrt-group", "vcrt-volume"
_CONFIG = """
devices {{ use_devicesfile=0 global_filter=["a|^{device}$|", "r|.*|"] }}
activation {{ monitoring=0 udev_sync={udev} udev_rules={udev} }}
backup {{ backup=0 archive=0 }}
"""


class Primary(Pair):
    """A tree with a logical volume at `data`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, engine="periodic")
        self.data = self.tree / "data"
        self.data.mkdir()
        self.take()

    def take(self, after: str | None = None) -> None:
        hook = Hook("true", after, 60) if after else None
        self.settings = self.settings._replace(consistency=Consistency("snapshot", (str(self.data),), hook))

    @property
    def left(self) -> set[str]:
        """What no run may leave."""
        return set(command("lvs", "--noheadings", "-o", "lv_name", GROUP).split()) - {VOLUME, "vcrt-pool"}


@contextmanager
def volume(primary: Primary, kind: str, mebibytes: int, thin: bool, spare: int) -> Iterator[None]:
    """A volume with that file system, mounted, in a group with that much more room."""
    # XFS is never smaller than 300 MiB; the pool has room for what the snapshot keeps.
    pool = mebibytes + 60
    with loop_device((pool if thin else mebibytes) + spare + (20 if thin else 4)) as device:
        here = primary.tree.parent / "lvm"
        here.mkdir()
        (here / "lvm.conf").write_text(_CONFIG.format(device=device, udev=int(Path("/run/udev/control").exists())))
        os.environ["LVM_SYSTEM_DIR"] = str(here)
        try:
            command("vgcreate", "-s", "4m", GROUP, device)
            if thin:
                command("lvcreate", "-y", "-L", f"{pool}m", "--thinpool", "vcrt-pool", GROUP)
                command("lvcreate", "-y", "-V", f"{mebibytes}m", "--thinpool", "vcrt-pool", "-n", VOLUME, GROUP)
            else:
                command("lvcreate", "-y", "-L", f"{mebibytes}m", "-n", VOLUME, GROUP)
            command(f"mkfs.{kind}", "-q", f"/dev/{GROUP}/{VOLUME}")
            with mounted(f"/dev/{GROUP}/{VOLUME}", primary.data):
                yield
        finally:
            command("vgremove", "--force", "--yes", GROUP, check=False)
            del os.environ["LVM_SYSTEM_DIR"]


@pytest.fixture
def primary(tmp_path: Path) -> Primary:
    need_root()
    if "device-mapper" not in Path("/proc/misc").read_text() or not Path("/dev/mapper/control").exists():
        pytest.skip("this kernel has no device mapper; tests/lab/test_h_lvm.py runs this in a VM")
    return Primary(tmp_path)


@pytest.mark.parametrize(("kind", "thin"), [("ext4", False), ("xfs", False), ("xfs", True)])
def test_a_snapshot_is_one_moment(primary: Primary, kind: str, thin: bool) -> None:
    with volume(primary, kind, 320 if kind == "xfs" else 100, thin, 80):
        with lockstep(primary.data, 5_000_000):
            for _ in range(2):
                primary.reconcile()
                assert ahead(primary.standby / "data") == 0
                assert primary.left == set()
        # Nothing is to be replayed that was written before.
        (primary.data / "last").write_text("not flushed by anybody")
        primary.reconcile()
        assert (primary.standby / "data/last").read_text() == "not flushed by anybody"
    assert not primary.marks.any


def test_a_file_that_is_deleted_and_open_does_not_matter(primary: Primary) -> None:
    """Such an inode makes a journal that has to be replayed, or worked off, at the next mount."""
    with volume(primary, "ext4", 100, False, 40), (primary.data / "open").open("w") as file:
        file.write("x" * 100_000)
        file.flush()
        (primary.data / "open").unlink()
        (primary.data / "file").write_text("x")
        primary.reconcile()
        assert set(primary.files(primary.standby)) == {b"data/file"}


@pytest.mark.parametrize(("number", "left"), [(signal.SIGKILL, 1), (signal.SIGTERM, 0)])
def test_what_a_killed_run_leaves_is_removed_by_the_next_one(
    primary: Primary, number: signal.Signals, left: int
) -> None:
    with volume(primary, "ext4", 100, False, 40):
        (primary.data / "big").write_bytes(os.urandom(10_000_000))
        primary.settings = primary.settings._replace(bandwidth=1024)
        with subprocess.Popen(primary.command(), start_new_session=True) as child:
            try:
                wait_for(lambda: any(primary.standby.glob("data/.big.*")), "the transfer")
                os.killpg(child.pid, number)
                assert child.wait(timeout=60) == -number
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
        assert len(primary.left) == left
        assert primary.marks.any
        primary.settings = primary.settings._replace(bandwidth=None)
        primary.reconcile()
        assert primary.left == set()
        assert primary.files(primary.standby) == primary.files(primary.tree)


def test_no_room_for_a_snapshot(primary: Primary) -> None:
    with volume(primary, "ext4", 40, False, 0):
        with pytest.raises(ReconcileError, match=rf"volume group {GROUP} has no free space; give it some \(vgextend"):
            primary.reconcile()
        assert primary.marks.any
        assert primary.left == set()


def test_a_snapshot_that_runs_full(primary: Primary) -> None:
    with volume(primary, "ext4", 100, False, 4):
        primary.take(after=f"dd if=/dev/urandom of={primary.data}/more bs=1M count=10 conv=fsync")
        with pytest.raises(ReconcileError, match=r"the snapshot of .*/data ran full during the sync: leave more"):
            primary.reconcile()
        assert primary.marks.any
        assert primary.left == set()
