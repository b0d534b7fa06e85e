"""The pass back, with the real rsync on both sides; the receiver's part is its list of words, without its jail."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest
from disks import command, loop_device, mounted

from vcrecovery.excludes.selection import Selection
from vcrecovery.primary import lasting_mounts as lasting
from vcrecovery.primary.fetch import Fetch
from vcrecovery.primary.half_copied import is_marked, mark_path
from vcrecovery.primary.mounts import OWN
from vcrecovery.primary.programs import ProgramError
from vcrecovery.primary.sent_mounts import note_mounts, noted_mounts
from vcrecovery.primary.settings import Consistency, Settings
from vcrecovery.primary.transfer import Transfer

#: What ssh would have the receiver do. rsync hands over: -F, a file, -o, an option, the host, and its command.
SSH = """\
#!{python}
import os, sys
from vcrecovery.transfer.rsync_words import reads, server_arguments
words = server_arguments(" ".join(sys.argv[6:]))
assert reads(words), words
{before}
os.execv("/usr/bin/rsync", [*words[:-1], "{standby}/"])
"""
LIST = b"- /etc/hostname\n- /srv/own\nH /boot/\nH /usr/share/doc/kernel/\n"


class Pair:
    """A VM's tree and its standby's, and the settings between them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.tree, self.standby = folder, folder / "tree", folder / "standby"
        for path in ("tree/var/lib/vcrecovery", "tree/etc/vcrecovery", "standby", "run", "bin"):
            (folder / path).mkdir(parents=True)
        self.list = folder / "list"
        self.list.write_bytes(LIST)
        self.settings = Settings(
            selection=Selection(),
            lists={"rsync-filter": str(self.list)},
            source=str(self.tree),
            ssh_config=str(self.tree / "etc/vcrecovery/ssh_config"),
            run_dir=str(folder / "run"),
            state_dir=str(self.tree / "var/lib/vcrecovery"),
        )
        self.fstab = folder / "fstab"
        self.said: list[str] = []
        monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")
        monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
        self.on_the_way("")

    def on_the_way(self, before: str) -> None:
        """What happens on the secondary before its rsync begins."""
        shell = self.folder / "bin/ssh"
        shell.write_text(SSH.format(python=sys.executable, before=before, standby=self.standby))
        shell.chmod(0o755)

    def both(self, path: str) -> None:
        """A file on either side, with the side's name in it."""
        self.here(path)
        self.there(path)

    def here(self, path: str) -> None:
        self._write(self.tree / path)

    def there(self, path: str) -> None:
        self._write(self.standby / path)

    def _write(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("standby" if self.standby in file.parents else "tree")

    def reads(self, path: str) -> str | None:
        file = self.tree / path
        return file.read_text() if file.exists() else None

    def fetch(self, *, last: bool = False) -> Transfer:
        return Fetch(self.settings, str(self.fstab))(last, self.said.append)


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    return Pair(tmp_path, monkeypatch)


def test_the_tree_becomes_what_the_standby_has(pair: Pair) -> None:
    pair.there("new/a b\\c[d]*\n")
    pair.both("changed")
    pair.here("deleted/deep/file")
    (pair.standby / "sparse").write_bytes(b"")
    os.truncate(pair.standby / "sparse", 50_000_000)
    (pair.standby / "twice").hardlink_to(pair.standby / "changed")
    (pair.standby / "link").symlink_to("/etc")
    os.mkfifo(pair.standby / "fifo")
    (pair.standby / "su").write_text("x")
    (pair.standby / "su").chmod(0o4755)
    done = pair.fetch()
    assert pair.reads("new/a b\\c[d]*\n") == pair.reads("changed") == "standby"
    assert not (pair.tree / "deleted").exists()
    assert (pair.tree / "sparse").stat().st_blocks < 1000
    assert (pair.tree / "twice").samefile(pair.tree / "changed")
    assert (pair.tree / "link").readlink() == Path("/etc")
    assert (pair.tree / "fifo").is_fifo()
    assert stat.S_IMODE((pair.tree / "su").stat().st_mode) == 0o4755
    assert done.files == 4
    assert pair.fetch(last=True)[1:] == (0, 0)


def test_what_the_machine_has_of_its_own_stays(pair: Pair) -> None:
    pair.here("etc/machine-id")
    own = ["etc/hostname", "srv/own/data", "var/lib/vcrecovery/heartbeat", "etc/fstab", "etc/vcrecovery/sync.json"]
    own += ["var/log/journal/tree/system.journal", "etc/systemd/system/vcrecovery-superseded.target"]
    own += ["etc/systemd/system/system-vcrecovery.slice"]
    for path in own:
        pair.both(path)
    hidden = ["boot/vmlinuz", "usr/share/doc/kernel/copyright"]
    for path in hidden:
        pair.here(path)
    pair.there("boot/of-the-standby")
    pair.there("var/lib/vcrecovery/probe")
    pair.fetch()
    assert {path: pair.reads(path) for path in (*own, *hidden)} == dict.fromkeys((*own, *hidden), "tree")
    assert not (pair.tree / "boot/of-the-standby").exists()
    assert not (pair.tree / "var/lib/vcrecovery/probe").exists()


def test_what_a_sync_that_was_cut_off_has_left_in_the_standby_is_not_fetched(pair: Pair) -> None:
    pair.settings = pair.settings._replace(consistency=Consistency("snapshot"))
    pair.there("srv/db/.~tmp~/data")
    pair.there("srv/db/data")
    pair.fetch()
    assert (pair.reads("srv/db/data"), pair.reads("srv/db/.~tmp~/data")) == ("standby", None)


@pytest.mark.parametrize("name", ["system.conf", "security.txt", "trusted.gpg"])
def test_a_file_that_is_called_like_an_attribute_is_a_file(pair: Pair, name: str) -> None:
    """rsync 3.1 tells the other side of a rule for attributes as if it were one for files."""
    pair.both(f"etc/{name}")
    pair.fetch()
    assert pair.reads(f"etc/{name}") == "standby"


@pytest.mark.skipif(os.geteuid() != 0, reason="device nodes and labels take root")
def test_device_nodes_and_labels_of_the_machine_stay(pair: Pair) -> None:
    for top, name in ((pair.tree, b"null"), (pair.tree, b"st*r"), (pair.standby, b"zero")):
        (top / "var/spool/dev").mkdir(parents=True, exist_ok=True)
        os.mknod(os.fsencode(top) + b"/var/spool/dev/" + name, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    # A program in a chroot has made it with `> /dev/null`.
    pair.there("var/spool/dev/null")
    pair.there("var/spool/dev/stray")
    for top in (pair.tree, pair.standby):
        (top / "file").write_text("x")
        os.utime(top / "file", (1, 1))
        os.setxattr(top / "file", "trusted.label", os.fsencode(top.name))
        os.setxattr(top / "file", "user.note", os.fsencode(top.name))
    pair.fetch()
    kept = {path.name for path in (pair.tree / "var/spool/dev").iterdir() if path.is_char_device()}
    assert kept == {"null", "st*r"}
    assert pair.reads("var/spool/dev/stray") == "standby"
    assert os.getxattr(pair.tree / "file", "trusted.label") == b"tree"
    assert os.getxattr(pair.tree / "file", "user.note") == b"standby"


def test_until_the_last_pass_has_ended_well_a_mark_says_that_files_are_of_two_states(pair: Pair) -> None:
    # Which has no such file: were this folder fetched, it would be deleted here.
    (pair.standby / "etc/vcrecovery").mkdir(parents=True)
    pair.both("changed")
    assert not is_marked(pair.settings)
    pair.on_the_way(f"assert os.path.exists({mark_path(pair.settings)!r})")
    pair.fetch()
    assert is_marked(pair.settings)
    assert Path(mark_path(pair.settings)).read_text().startswith("The standby's files are being copied")
    pair.on_the_way("sys.exit('error: the standby is not there')")
    with pytest.raises(ProgramError):
        pair.fetch(last=True)
    assert is_marked(pair.settings)
    pair.on_the_way("")
    pair.fetch(last=True)
    assert not is_marked(pair.settings)


def test_what_cannot_be_marked_is_not_begun(pair: Pair) -> None:
    pair.both("changed")
    Path(mark_path(pair.settings)).mkdir()
    with pytest.raises(IsADirectoryError):
        pair.fetch()
    assert pair.reads("changed") == "tree"


def test_a_configuration_elsewhere_stays_too(pair: Pair) -> None:
    pair.settings = pair.settings._replace(ssh_config=str(pair.tree / "srv/vcr/ssh_config"))
    pair.both("srv/vcr/sync_key")
    pair.fetch()
    assert pair.reads("srv/vcr/sync_key") == "tree"
    assert is_marked(pair.settings)


def test_a_file_that_vanishes_matters_once_the_standby_has_stopped(pair: Pair) -> None:
    rsync = pair.folder / "bin/rsync"
    rsync.write_text("#!/bin/sh\necho 'file has vanished: \"/x\"' >&2\nexit 24\n")
    rsync.chmod(0o755)
    pair.fetch()
    with pytest.raises(ProgramError, match="file has vanished"):
        pair.fetch(last=True)


def test_nothing_is_deleted_when_the_standby_cannot_be_read(pair: Pair) -> None:
    pair.here("kept")
    pair.on_the_way("sys.exit('error: the standby is not there')")
    with pytest.raises(ProgramError, match="the standby is not there"):
        pair.fetch()
    assert pair.reads("kept") == "tree"


def test_a_file_system_that_is_not_mounted_stops_the_pass(pair: Pair) -> None:
    pair.there("srv/data/file")
    pair.fstab.write_text(
        "# <file system> <mount point> <type> <options>\n"
        f"/dev/vda1 / ext4 defaults 0 1\nUUID=1 none swap sw 0 0\n/dev/sr0 {pair.tree}/cdrom iso9660 ro,noauto 0 0\n"
        f"/dev/vdb {pair.tree}/boot/efi vfat umask=0077 0 1\ntmpfs {pair.tree}/srv/own/tmp tmpfs\n"
    )
    pair.fetch()
    (pair.tree / "srv/data/file").unlink()
    with pair.fstab.open("a") as file:
        file.write(f"/dev/vdc {pair.tree}/srv/data\\040two/ ext4 nofail\n")
    with pytest.raises(ProgramError, match=r"/srv/data two is not mounted: `mount /.*/srv/data two`, or, .*/fstab$"):
        pair.fetch()
    assert pair.reads("srv/data/file") is None


def test_a_file_system_that_fstab_does_not_know_stops_the_pass(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """ZFS, a unit of multi-user.target, a disk that a script unlocks: none of it is there in the superseded boot."""
    monkeypatch.setattr(lasting, "MOUNTS", OWN)
    pair.here("etc/vcrecovery/ssh_config")
    tank = pair.tree / "tank"
    with loop_device(8) as device:
        command("mkfs.ext4", "-q", device)
        with mounted(device, tank):
            note_mounts(pair.settings, set())
            pair.both("tank/orders")
        with pytest.raises(
            ProgramError, match=r"tank is not mounted: mount it, or, .* from .*/etc/vcrecovery/sent-mounts$"
        ):
            pair.fetch(last=True)
        assert pair.reads("tank/orders") is None
        assert not is_marked(pair.settings)
        with mounted(device, tank):
            pair.fetch(last=True)
            assert pair.reads("tank/orders") == "standby"
            assert noted_mounts(pair.settings) == {str(tank)}


def test_a_pass_that_touches_nothing_marks_nothing(pair: Pair) -> None:
    pair.fstab.write_text(f"/dev/vdc {pair.tree}/srv/data ext4 nofail\n")
    with pytest.raises(ProgramError, match="not mounted"):
        pair.fetch()
    assert not is_marked(pair.settings)


@pytest.mark.parametrize("content", [None, b""])
def test_without_an_exclude_list_nothing_is_fetched(pair: Pair, content: bytes | None) -> None:
    pair.both("etc/hostname")
    pair.list.unlink()
    if content is not None:
        pair.list.write_bytes(content)
    with pytest.raises(ProgramError, match=r"the exclude list .*: run the role `primary` again"):
        pair.fetch()
    assert pair.reads("etc/hostname") == "tree"
