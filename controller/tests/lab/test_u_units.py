"""What the units' sandboxes let through, tried with the parts of them that need no systemd."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from vcrecovery.primary.transfer import KEPT
from vcrecovery_lab.pair import process
from vcrecovery_lab.pair.receiver import Receiver
from vcrecovery_lab.run import run

from .confined import as_in, words

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

NAME, FIRST = "web", 1_000_000


def test_libvirt_reaches_another_host_with_the_watchers_capabilities(tmp_path: Path) -> None:
    """libvirt starts the ssh of `qemu+ssh` by itself, and gives up before when it may not take capabilities from it."""
    started = tmp_path / "started"
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\ntouch {started}\nexit 1\n")
    ssh.chmod(0o755)
    kept = words("vcrecovery-watch", "CapabilityBoundingSet")
    assert kept
    bounds = ",".join(["-all", *(f"+{name.lower().removeprefix('cap_')}" for name in kept)])
    call = f"import libvirt; libvirt.openReadOnly('qemu+ssh://nowhere.test/system?command={ssh}&no_tty=1')"
    done = subprocess.run(
        ["setpriv", "--no-new-privs", "--inh-caps=-all", f"--bounding-set={bounds}", sys.executable, "-c", call],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "libvirt.libvirtError" in done.stderr
    assert started.exists(), done.stderr


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where sshd trusts keys, with a file system of its own in it."""
    made = Path(tempfile.mkdtemp(prefix="vcru-", dir="/run"))
    (made / "disk").mkdir()
    run(["mount", "-t", "tmpfs", "-o", "size=64m", "vcru", made / "disk"], timeout=30)
    yield made
    run(["umount", made / "disk"], timeout=30)
    shutil.rmtree(made)


@pytest.mark.parametrize("shifted", [True, False])
def test_the_receiver_writes_a_tree_of_any_owners(folder: Path, shifted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """sshd, PAM and the sessions' jail get through with the unit's capabilities and system calls."""
    tree, source, state = folder / "disk/rootfs", folder / "source", folder / "state"
    for part in (tree, source, state / "standbys", folder / "etc"):
        part.mkdir(parents=True)
    first = FIRST if shifted else 0
    os.chown(tree, first, first)
    mapped = [{"Isuid": True, "Isgid": True, "Hostid": FIRST, "Nsid": 0, "Maprange": 65536}] if shifted else []
    config = {"user.vcrecovery.role": "standby", "user.vcrecovery.ready": "true", **_last_state(mapped)}
    # As of a secondary that is off: its disk is here, and a note of what its LXD says.
    (folder / "note").write_text(json.dumps({"instances": {NAME: {"expanded_config": config}}}))
    (folder / "takes_files").touch()
    places = {name: str(folder / name) for name in ("disk", "note", "takes_files")}
    (state / f"standbys/{NAME}.json").write_text(json.dumps({"container": NAME, "rootfs": str(tree), **places}))

    start = process.start
    monkeypatch.setattr(process, "start", lambda argv, log: start(as_in("vcrecovery-receiver", *map(str, argv)), log))
    receiver = Receiver(folder / "etc", state, folder / "key", NAME)
    receiver.start()
    try:
        (source / "file").write_text("one\n")
        os.chown(source / "file", 33, 1234)
        (source / "file").chmod(0o4751)
        shutil.copy("/bin/true", source / "capable")
        run(["setcap", "cap_net_raw+ep", source / "capable"], timeout=30)
        os.mkfifo(source / "fifo")
        ssh = f"ssh -F none -i {folder}/key -p {receiver.port} -o BatchMode=yes -o StrictHostKeyChecking=no"
        ssh += " -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
        done = run(["rsync", *KEPT, "-e", ssh, f"{source}/", "root@127.0.0.1:/"], timeout=60, check=False)
        log = (folder / "etc/sshd.log").read_text()
        assert done.returncode == 0, (done.stderr, log)
        file = (tree / "file").stat()
        assert (file.st_uid - first, file.st_gid - first, file.st_mode & 0o7777) == (33, 1234, 0o4751)
        assert "cap_net_raw" in run(["getcap", tree / "capable"], timeout=30).stdout
        assert (tree / "fifo").is_fifo()
        asked = run([*ssh.split(), "root@127.0.0.1", "who-serves"], timeout=60, check=False)
        assert asked.stdout == "primary\n", (asked.stderr, log)
    finally:
        receiver.stop()


def _last_state(mapped: Sequence[Mapping[str, object]]) -> dict[str, str]:
    return {"volatile.last_state.idmap": json.dumps(mapped)}


_DISK = """
import sys
from pathlib import Path
from vcrecovery.drivers import loop_disk
from vcrecovery.drivers.clock import SystemClock
disk, place = Path(sys.argv[2]), Path(sys.argv[3])
loop_disk.mount(disk, place) if sys.argv[1] == "mount" else loop_disk.unmount(disk, place, SystemClock())
"""


def test_a_disk_is_mounted_and_unmounted_with_the_rights_of_its_units(tmp_path: Path) -> None:
    """Also out of the mount namespace of somebody who has a copy of the mount."""
    disk, place = tmp_path / "disk.img", tmp_path / "disk"
    with disk.open("wb") as file:
        file.truncate(16 << 20)
    run(["mkfs.ext4", "-q", disk], timeout=60)

    def act(what: str) -> None:
        words = as_in(f"vcrecovery-disk-{what}@", sys.executable, "-c", _DISK, what, str(disk), str(place))
        done = run(words, timeout=60, check=False)
        assert done.returncode == 0, done.stderr

    try:
        act("mount")
        assert place.is_mount()
        with subprocess.Popen(["unshare", "--mount", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdin is not None
            assert other.stdout is not None
            other.stdin.write(b"it is there\n")
            other.stdin.flush()
            assert other.stdout.readline() == b"it is there\n"
            act("unmount")
            other.stdin.close()
        assert not place.is_mount()
    finally:
        run(["umount", place], timeout=30, check=False)
