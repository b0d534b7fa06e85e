"""Owners, capabilities, ACLs and links arrive as they were, as seen in the container, however owners are mapped."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from vcrecovery.transfer import idmap
from vcrecovery_lab.run import run

from .mapped_site import KINDS, PRIVILEGED, assert_mapped, create_privileged
from .own_standby import Ground, OwnStandby, own_standby, pool

pytestmark = pytest.mark.lab


def fill(tree: Path) -> None:
    """What a system has that depends on owners."""
    (tree / "usr/bin").mkdir(parents=True)
    for name in ("su", "ping"):
        (tree / "usr/bin" / name).write_bytes(b"\x7fELF")
    (tree / "usr/bin/su").chmod(0o4755)
    (tree / "usr/bin/ping").chmod(0o755)
    run(["setcap", "cap_net_raw+ep", str(tree / "usr/bin/ping")], timeout=10)
    (tree / "srv/data").mkdir(parents=True)
    file = tree / "srv/data/file"
    file.write_text("x")
    os.chown(file, 33, 44)
    run(["setfacl", "-m", "u:1234:r,g:99:rw", str(file)], timeout=10)
    run(["setfacl", "-d", "-m", "u:77:rwx", str(tree / "srv/data")], timeout=10)
    os.setxattr(file, "user.note", b"hello")
    (tree / "srv/data/again").hardlink_to(file)
    (tree / "srv/data/link").symlink_to("file")
    os.chown(tree / "srv/data/link", 65534, 65533, follow_symlinks=False)
    os.mkfifo(tree / "srv/data/fifo")
    (tree / "srv/group").mkdir()
    os.chown(tree / "srv/group", 1000, 50)
    (tree / "srv/group").chmod(0o2775)
    # What only a kernel sets; it has no meaning in the standby.
    os.setxattr(tree / "srv/data", "trusted.overlay.opaque", b"y")


@pytest.fixture(scope="module", params=KINDS)
def standby(
    ground: Ground, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[OwnStandby]:
    folder = tmp_path_factory.mktemp("owners")
    with pool(ground, "vcrt-dir", "dir") as name, own_standby(ground, "vcrt-a", name, folder) as made:
        made.make_source()
        fill(made.source)
        if request.param == PRIVILEGED:
            create_privileged(made.lxd, made.name, name)
        made.apply()
        assert_mapped(made.instance, request.param)
        yield made


def as_seen(tree: Path) -> dict[str, tuple[int, int, str, int]]:
    """Owner, group, mode and links of each path of the source."""
    found = {}
    for path in tree.rglob("*"):
        entry = path.lstat()
        mode = f"{stat.S_IMODE(entry.st_mode):o}"
        found[f"/{path.relative_to(tree)}"] = (entry.st_uid, entry.st_gid, mode, entry.st_nlink)
    return found


def on_disk(tree: Path) -> dict[str, tuple[int, int, int]]:
    entries = {str(path): path.lstat() for path in tree.rglob("*")}
    return {
        name: (entry.st_uid, entry.st_gid, entry.st_ctime_ns)
        for name, entry in entries.items()
        if not stat.S_ISDIR(entry.st_mode)
    }


def acl(path: Path, *options: str) -> list[str]:
    return run(["getfacl", "-n", "-c", "-p", *options, str(path)], timeout=10).stdout.split()


def test_a_tree_that_contradicts_lxd_takes_nothing(standby: OwnStandby) -> None:
    owner = standby.rootfs.lstat().st_uid
    os.chown(standby.rootfs, 0 if owner else 100000, -1)
    try:
        done = standby.sync()
        refused = standby.vcrecovery("standby", "apply")
    finally:
        os.chown(standby.rootfs, owner, -1)
    assert done.returncode != 0
    assert "is not clear" in done.stderr
    assert not (standby.rootfs / "srv").exists()
    assert refused.returncode == 3
    assert "is not clear" in refused.stderr


def test_device_nodes_are_left_out_and_not_an_error_each_time(standby: OwnStandby) -> None:
    chroot = standby.source / "var/spool/postfix/dev"
    chroot.mkdir(parents=True)
    os.mknod(chroot / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    done = standby.sync("--no-devices", "--specials")
    assert done.returncode == 0, done.stderr
    assert "skipping non-regular file" in done.stdout
    assert not (standby.rootfs / "var/spool/postfix/dev/null").exists()
    assert (standby.rootfs / "srv/data/fifo").is_fifo()
    (chroot / "null").unlink()


def test_every_file_is_the_same_inside(standby: OwnStandby) -> None:
    assert standby.sync().returncode == 0
    again = standby.sync("--itemize-changes")
    assert (again.returncode, again.stdout) == (0, "")
    before = on_disk(standby.rootfs)
    assert standby.fail_over().returncode == 0
    # LXD has not walked over the tree to change owners: that would be part of the recovery time.
    after = on_disk(standby.rootfs)
    assert {name: after[name] for name in before} == before

    inside = {}
    own = ("/proc", "/sys", "/dev", "/run", "/tmp", "/etc")  # noqa: S108
    prune = " -o ".join(f"-path {path}" for path in own)
    script = rf"/bin/busybox find / \( {prune} \) -prune -o -exec /bin/busybox stat -c '%n %u %g %a %h' {{}} \;"
    for line in standby.inside("/bin/sh", "-c", script).splitlines():
        name, user, group, mode, links = line.split()
        inside[name] = (int(user), int(group), mode, int(links))
    wanted = {name: seen for name, seen in as_seen(standby.source).items() if not name.startswith(own)}
    directories = {name for name in wanted if (standby.source / name[1:]).is_dir()}
    assert len(wanted) > 15
    for name, seen in wanted.items():
        count = 3 if name in directories else 4  # how many links a folder has depends on the file system
        assert inside[name][:count] == seen[:count], name

    shift = 100000 if json.loads(standby.instance.config[idmap.LAST_STATE]) else 0
    file = standby.rootfs / "srv/data/file"
    assert {f"user:{1234 + shift}:r--", f"group:{99 + shift}:rw-"} <= set(acl(file))
    assert f"default:user:{77 + shift}:rwx" in acl(standby.rootfs / "srv/data")
    assert os.getxattr(file, "user.note") == b"hello"
    assert file.samefile(standby.rootfs / "srv/data/again")
    capability = os.getxattr(standby.rootfs / "usr/bin/ping", "security.capability")
    # Revision 3 ends with the user that is root inside; revision 2 holds for the machine's root.
    assert int.from_bytes(capability[20:24], "little") == shift
