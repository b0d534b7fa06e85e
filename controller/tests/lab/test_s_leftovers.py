"""An LXD of the lab's own leaves nothing behind, whatever state it is in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from vcrecovery_lab.private_lxd import PrivateLxd
from vcrecovery_lab.run import LabError, run

pytestmark = pytest.mark.lab

BRIDGE, GATEWAY = "vcrlab-left", "10.211.26.1/24"


#: A run that makes an LXD with a bridge, and tells its folder and its process.
RUN = """
import sys
from vcrecovery_lab.private_lxd import PrivateLxd

lxd = PrivateLxd(sys.argv[1])
lxd.start()
lxd.server.create_network(sys.argv[1], sys.argv[2])
print(lxd.folder, lxd.pid, flush=True)
sys.stdin.read()
"""


def rules(name: str) -> list[str]:
    saved = run(["iptables-save", "-t", "filter"], timeout=30).stdout
    return [line for line in saved.splitlines() if f" {name} " in line]


def test_nothing_is_left_of_one_that_was_killed() -> None:
    lxd = PrivateLxd(BRIDGE)
    try:
        lxd.start()
        lxd.server.create_network(BRIDGE, GATEWAY)
        assert rules(BRIDGE)
        lxd.kill()
    finally:
        lxd.close()
    assert_nothing_is_left(lxd.folder)


def assert_nothing_is_left(folder: Path) -> None:
    assert rules(BRIDGE) == []
    assert BRIDGE not in run(["ip", "-brief", "link"], timeout=30).stdout
    assert str(folder) not in Path("/proc/mounts").read_text()
    assert not folder.exists()


@pytest.mark.parametrize("with_its_lxd", [True, False], ids=["with its LXD", "alone"])
def test_the_next_run_removes_what_one_left_that_was_killed(with_its_lxd: bool) -> None:
    command = [sys.executable, "-c", RUN, BRIDGE, GATEWAY]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as killed:
        assert killed.stdout is not None
        words = killed.stdout.readline().split()
        if with_its_lxd:
            os.kill(int(words[1]), signal.SIGKILL)
        killed.kill()
    assert rules(BRIDGE)
    with closing(PrivateLxd(BRIDGE)) as lxd:
        lxd.start()
        assert_nothing_is_left(Path(words[0]))
        assert not Path(f"/proc/{words[1]}/exe").exists()
        with (
            closing(PrivateLxd(BRIDGE)) as other,
            pytest.raises(LabError, match=f"another run uses the bridge {BRIDGE}"),
        ):
            other.start()
        lxd.server.create_network(BRIDGE, GATEWAY)
    assert_nothing_is_left(lxd.folder)
