"""The controller is killed at every change of the verbs that make and fill a standby; the next call goes on."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from vcrecovery.standby.container import READY_KEY, ROLE_KEY, STANDBY
from vcrecovery.transfer.sessions import holders, lock_file, set_aside

from .killable_site import KILLED, MOST, KillableSite
from .small_site import BRIDGE, started
from .waiting import wait_for

pytestmark = pytest.mark.lab

NAME = "a"
#: Each standby has its own.
OWN = ("/etc/machine-id", "/etc/ssh/ssh_host_ed25519_key", "/etc/ssh/ssh_host_ed25519_key.pub")


class EmptySite(KillableSite):
    """Nothing has been made in its LXD but by calls that were killed. `changes`: theirs."""

    changes: list[str]

    def write_plan(self, **services: object) -> None:
        super().write_plan()
        self.data["services"][NAME]["standby"]["host_keys"] = "own"
        self.save_plan()

    def make_standbys(self) -> None:
        self.changes = self.killed_ever_further("standby", "apply")

    def never_two(self) -> None:
        if self.lxd.server.get(NAME) is not None:
            super().never_two()

    @property
    def tree(self) -> Path:
        return self.rootfs(NAME)

    def listing(self) -> dict[str, tuple[object, ...]]:
        """Each entry's kind, mode, owners and what is in it, but for what no two standbys have in common."""
        found: dict[str, tuple[object, ...]] = {}
        for path in sorted(self.tree.rglob("*")):
            inside, entry = f"/{path.relative_to(self.tree)}", path.lstat()
            content = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
            shown = stat.filemode(entry.st_mode), entry.st_uid, entry.st_gid
            found[inside] = (*shown, len(content) if inside in OWN else content)
        return found

    def empty(self) -> None:
        for path in self.tree.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmptySite]:
    folder = tmp_path_factory.mktemp("standby")
    with started(EmptySite(folder, [NAME])) as site:
        yield site


def test_apply(site: EmptySite) -> None:
    kinds = ("POST storage-pools", "POST networks", "POST instances", "PUT instances/a/state", "PATCH instances/a")
    for kind in (*kinds, *(f"the end of {kind}" for kind in kinds), "os.mkdir", "os.chown", "os.rename", "os.symlink"):
        assert any(change.startswith(kind) for change in site.changes), (kind, site.changes)
    after_kills = site.listing()
    assert site.well("standby", "apply") == "a: nothing to do\n"
    assert site.listing() == after_kills
    site.empty()
    site.well("standby", "apply")
    assert after_kills == site.listing()
    found = site.instance(NAME)
    assert (found.status, found.config[ROLE_KEY], found.config[READY_KEY]) == ("Stopped", STANDBY, "true")
    assert site.lxd.lxc("list", "--format", "csv", "--columns", "n").split() == [NAME]
    assert site.lxd.lxc("storage", "list", "--format", "csv").split(",")[0] == BRIDGE
    assert [path.name for path in (site.state / "standbys").iterdir()] == ["a.json"]


def test_seed(site: EmptySite) -> None:
    source = site.folder / "source"
    for inside in ("www", "srv"):
        (source / inside).mkdir(parents=True)
    (source / "www/index.html").write_text("a\n")
    (source / "srv/large").write_bytes(os.urandom(1 << 20))

    def unseeded() -> None:
        for inside in ("www", "srv"):
            shutil.rmtree(site.tree / inside, ignore_errors=True)
        shutil.rmtree(site.state / "seeded", ignore_errors=True)

    def at_work() -> bool:
        return any(str(source) in command or f"{site.state}\0--local" in command for command in commands())

    def seeded() -> None:
        assert (site.tree / "www/index.html").read_text() == "a\n"
        assert (site.tree / "srv/large").read_bytes() == (source / "srv/large").read_bytes()
        assert sorted(path.name for path in site.tree.glob("*/*") if path.name.startswith(".")) == []
        assert (site.state / "seeded" / NAME).exists()
        wait_for(lambda: not at_work(), "the end of all that was killed")

    words = ["standby", "seed", NAME, "--from", str(source)]
    # The program is started, works, has ended; it is noted in a folder.
    assert site.killed_everywhere(lambda: words, unseeded, seeded, "all") >= 4
    # What was begun for a controller that was killed does not go on without it.
    unseeded()
    with set_aside(site.state, NAME, 30):
        # Nothing is received yet.
        assert site.run(*words, before="2@commands").returncode == KILLED
        wait_for(lambda: not any(str(source) in command for command in commands()), "the end of its rsync")
    wait_for(lambda: not at_work(), "the end of its receiver")
    assert not (site.tree / "srv/large").exists()


def commands() -> list[str]:
    """The command lines of all processes."""
    return [_command(process) for process in Path("/proc").glob("[0-9]*")]


def _command(process: Path) -> str:
    try:
        return (process / "cmdline").read_text(errors="replace")
    except OSError:  # it has ended
        return ""


def test_receive(site: EmptySite) -> None:
    server = "rsync --server -vlogDtprre.iLsfxCIvu . /"
    words = ["receive", "--state-dir", str(site.state), "--local", NAME, "standby", *server.split()]
    out, err = site.folder / "out", site.folder / "err"
    for boundary in range(1, MOST):
        # In the end it is rsync, which gets nothing to read.
        status = site.controllers.wait(site.controllers.start(f"{boundary}@all", words, out, err))
        # Its children are killed by the kernel when it ends, and need a moment for that.
        wait_for(lambda: holders(lock_file(site.state, NAME)) == {}, "the end of the session", 30)
        assert "jail" not in Path("/proc/mounts").read_text()
        if status != KILLED:
            break
    assert boundary > 3
    assert "Traceback" not in err.read_text()
    source = site.folder / "received"
    (source / "www").mkdir(parents=True)
    (source / "www/index.html").write_text("received\n")
    site.well("standby", "seed", NAME, "--from", str(source))
    assert (site.tree / "www/index.html").read_text() == "received\n"


def test_whoever_only_looks_changes_nothing(site: EmptySite) -> None:
    (site.tree / "var/lib/vcrecovery").mkdir(parents=True, exist_ok=True)
    site.stamp(NAME)
    site.well("status")
    looks = [
        ["status", "--json"],
        ["history", "--json"],
        ["metrics"],
        ["plan", "check", "--online"],
        ["standby", "modes"],
        ["standby", "snapshots", NAME],
        ["standby", "wait", NAME, "--timeout", "1s"],
    ]
    for words in looks:
        before = json.dumps(site.all_there_is(), sort_keys=True)
        assert "killed before the end" in site.run(*words, before="1@all").stderr, words
        assert json.dumps(site.all_there_is(), sort_keys=True) == before, words
