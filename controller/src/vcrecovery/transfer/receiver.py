"""`vcrecovery receive SERVICE`: the forced command of that service's key on the secondary.

It takes rsync's server mode and nothing else: writing while the primary serves, and reading during a failback. rsync
runs in a mount namespace that holds the system's programs, read-only, and that one standby's tree, without a network,
and in a user namespace with the container's own ID map where the tree is shifted on disk. So owners, file capabilities
and ACLs come out right, and a symbolic link in the tree leads nowhere else.

Standard library only: this runs at every change on a primary, and must start fast.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import http.client
import json
import os
import socket
import syslog
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from vcrecovery.errors import ExternalError, RefusedError, UsageError
from vcrecovery.primary.answers import PRIMARY, STANDBY
from vcrecovery.transfer import heartbeat_copy as published
from vcrecovery.transfer import idmap, sessions
from vcrecovery.transfer.failback_orders import Order, read_order
from vcrecovery.transfer.rsync_words import INSIDE, reads, server_arguments

#: How long a session waits for a restore point to be made, kept or restored.
WAIT_SECONDS = 60.0
#: Seconds between two looks whether it takes files again.
_LOOK = 0.5
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = (
    1, 2, 4, 8, 32, 4096, 8192, 16384, 1 << 18,
)  # fmt: skip
PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 23, 24, 38
#: CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID, SETGID, SETUID, MKNOD, SETFCAP
_TO_WRITE = frozenset({0, 1, 2, 3, 4, 6, 7, 27, 31})
#: DAC_READ_SEARCH
_TO_READ = frozenset({2})
#: Numbers that a kernel does not know are passed over.
_CAPABILITIES = range(64)


class KeepingError(ExternalError):
    """A failback keeps what the standby was: nothing may change in it until that is done."""


@dataclass(frozen=True)
class Target:
    """One standby's tree and how its owners are mapped."""

    rootfs: Path
    id_map: Sequence[Mapping[str, Any]]


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("lxd", timeout=10)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def find_target(state_dir: Path, service: str) -> Target:
    """Where the files of `service` go, if it may take files now.

    Raises UsageError for an unknown service, ExternalError when LXD does not answer, and RefusedError when the standby
    is not ready or serves: files from an old primary would overwrite live data then. KeepingError: not at this moment.
    """
    config, rootfs = _container_of(state_dir, service)
    if config.get("user.vcrecovery.role") != "standby":
        raise RefusedError(f"refused: {service} is served by its standby; its files are live")
    if config.get("user.vcrecovery.ready") != "true":
        raise RefusedError(f"refused: the standby of {service} is not ready", "run the role `secondary` again")
    if config.get("user.vcrecovery.keeping"):
        raise KeepingError(f"a failback of {service} keeps what its standby was", "try again later")
    return Target(rootfs, idmap.of_tree(service, config, rootfs))


def find_source(state_dir: Path, service: str) -> Target:
    """Where the files of `service` come from, if its VM may read them now.

    Raises UsageError and ExternalError as `find_target` does, and RefusedError unless a failback copies from a standby
    that serves.
    """
    # First: whoever ends a failback gives the role back, then withdraws the order.
    given = read_order(state_dir, service)
    if given is None or given.order is Order.HOLD:
        raise RefusedError(f"refused: no failback of {service} copies files now", f"vcrecovery failback {service}")
    config, rootfs = _container_of(state_dir, service)
    if config.get("user.vcrecovery.role") != "active":
        raise RefusedError(f"refused: {service} is not served by its standby; its VM has the newer files")
    return Target(rootfs, idmap.of_tree(service, config, rootfs))


def who_serves(state_dir: Path, service: str) -> str:
    """What a VM asks at its boot: `primary` or `standby`. Raises UsageError and ExternalError as `find_target` does."""
    config, _rootfs = _container_of(state_dir, service)
    answer = {"standby": PRIMARY, "active": STANDBY}.get(config.get("user.vcrecovery.role", ""))
    if answer is None:
        # On a wrong answer the VM would start no service.
        raise ExternalError(f"container {service} is no standby of VCRecovery", "run the role `secondary`")
    return answer


def _container_of(state_dir: Path, service: str) -> tuple[Mapping[str, str], Path]:
    """Its configuration, and where its files are."""
    file = state_dir / "standbys" / f"{service}.json"
    try:
        entry = json.loads(file.read_text())
    except FileNotFoundError as error:
        raise UsageError(f"no standby of service {service!r} is on this machine", "run the role `secondary`") from error
    connection = _UnixConnection(entry["socket"])
    try:
        connection.request("GET", f"/1.0/instances/{entry['container']}")
        answer = connection.getresponse()
        body = json.loads(answer.read())
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise ExternalError(f"LXD ({entry['socket']}) does not answer: {error}", "start it") from error
    finally:
        connection.close()
    if answer.status != 200:
        raise ExternalError(f"LXD knows no container {entry['container']}", "run the role `secondary`")
    config: Mapping[str, str] = body["metadata"]["expanded_config"]
    return config, Path(entry["rootfs"])


@contextmanager
def refusals_noted(service: str, command: str) -> Iterator[None]:
    """Refusals go to the secondary's log, too."""
    try:
        yield
    except RefusedError as error:
        syslog.openlog("vcrecovery", syslog.LOG_PID, syslog.LOG_AUTH)
        syslog.syslog(syslog.LOG_WARNING, f"receive {service}: {error}: {command[:200]!r}")
        raise


def receive(state_dir: Path, service: str, command: str, *, seeds: bool) -> NoReturn:
    """Becomes the rsync server for one session; `seeds` when its files do not come from the primary.

    Raises as the functions above do.
    """
    with refusals_noted(service, command):
        arguments = server_arguments(command)
        read_only = reads(arguments)
        target = find_source(state_dir, service) if read_only else _join(state_dir, service)
    if not read_only:
        (published.withdraw if seeds else published.publish)(target.rootfs)
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    _enter_jail(target.rootfs, read_only=read_only)
    if target.id_map:
        _enter_user_namespace(target.id_map, proc)
    _give_up_rights(_TO_READ if read_only else _TO_WRITE)
    os.umask(0o022)
    os.execve("/usr/bin/rsync", arguments, {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"})  # noqa: S606


def _join(state_dir: Path, service: str) -> Target:
    """Waits while a failback keeps what the standby was."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        # Before the role is read: see `sessions`.
        session = sessions.join(state_dir, service, WAIT_SECONDS)
        try:
            return find_target(state_dir, service)
        except KeepingError:
            if time.monotonic() >= deadline:
                raise
        # Whoever sees the lock taken would believe that files arrive.
        os.close(session)
        time.sleep(_LOOK)


_libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)


def _check(result: int, what: str) -> None:
    if result:
        raise ExternalError(f"{what}: {os.strerror(ctypes.get_errno())}", "the receiver needs root and namespaces")


def _mount(source: str | Path, target: str | Path, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [os.fsencode(value) if value is not None else None for value in (source, target, kind, data)]
    _check(_libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]), f"mount {target}")


def _give_up_rights(kept: frozenset[int]) -> None:
    for capability in _CAPABILITIES:
        if capability not in kept and _libc.prctl(PR_CAPBSET_READ, capability, 0, 0, 0) == 1:
            _check(_libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0), f"giving up capability {capability}")
    _check(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "giving up new privileges")


def _enter_jail(rootfs: Path, *, read_only: bool) -> None:
    """A root that holds /usr, read-only, and the tree at INSIDE."""
    _check(_libc.unshare(CLONE_NEWNS | CLONE_NEWNET), "unshare")
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    base = Path("/run/vcrecovery/jail")
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    _mount("tmpfs", base, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755")
    for source in (Path("/usr"), Path("/bin"), Path("/lib"), Path("/lib64"), Path("/sbin")):
        inside = base / source.name
        if source.is_symlink():
            inside.symlink_to(source.readlink())
        elif source.is_dir():
            inside.mkdir()
            _mount(source, inside, None, MS_BIND | MS_REC)
            _mount("none", inside, None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV)
    tree = base / INSIDE[1:]
    tree.mkdir()
    _mount(rootfs, tree, None, MS_BIND)
    # Set-user-ID bits and device nodes can be written all the same; they mean nothing here.
    harmless = MS_NOSUID | MS_NODEV | MS_NOEXEC
    _mount("none", tree, None, MS_BIND | MS_REMOUNT | harmless | (MS_RDONLY if read_only else 0))
    os.chdir(base)
    _mount(".", "/", None, MS_MOVE)
    os.chroot(".")
    os.chdir("/")


def _enter_user_namespace(id_map: Sequence[Mapping[str, Any]], proc: int) -> None:
    """Makes this process root of a user namespace with the container's map.

    A child that stays outside writes the maps, since that takes capabilities in the outer namespace. `proc` is the
    open /proc, which the jail does not have.
    """
    lines = {
        which: "".join(f"{e['Nsid']} {e['Hostid']} {e['Maprange']}\n" for e in id_map if e.get(kind))
        for which, kind in (("uid_map", "Isuid"), ("gid_map", "Isgid"))
    }
    inside_ready, tell_child = os.pipe()
    child_done, tell_parent = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            # With our own end open, we would wait for ever for a parent that has ended, and hold its session's lock.
            os.close(tell_child)
            if not os.read(inside_ready, 1):
                return
            for which, text in lines.items():
                file = os.open(f"{parent}/{which}", os.O_WRONLY, dir_fd=proc)
                os.write(file, text.encode())
            os.write(tell_parent, b".")
            status = 0
        finally:
            os._exit(status)
    _check(_libc.unshare(CLONE_NEWUSER), "unshare user namespace")
    os.write(tell_child, b".")
    os.close(tell_parent)
    written = os.read(child_done, 1)
    os.waitpid(child, 0)
    if written != b".":
        raise ExternalError("the container's ID map could not be set", "the receiver needs CAP_SETUID")
    os.setgid(0)
    os.setuid(0)
    os.setgroups([])
