"""Where the receiver's rsync runs: a process that sees one standby's tree, the system's programs, and nothing else.

It is in new mount, network, process, IPC and UTS namespaces, and in a user namespace with the container's ID map where
the tree is shifted on disk. LXD gives all its containers the same map: without a process namespace of its own, an rsync
that is in an attacker's hands could end the processes of every other container and session.

Only a child can be in a new process namespace. The process that calls `enter` stays outside and waits for it.

Standard library only: the receiver uses it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import signal
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from vcrecovery.errors import ExternalError
from vcrecovery.transfer import sessions
from vcrecovery.transfer.rsync_words import INSIDE

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = (
    0x00020000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000,
)  # fmt: skip
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = (
    1, 2, 4, 8, 32, 4096, 8192, 16384, 1 << 18,
)  # fmt: skip
PR_SET_PDEATHSIG, PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 23, 24, 38
#: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETGID, SETUID, MKNOD, SETFCAP. Never DAC_READ_SEARCH: outside of a user
#: namespace, it opens any file of the tree's file system by its inode (open_by_handle_at).
TO_WRITE = frozenset({0, 1, 3, 4, 6, 7, 27, 31})
#: DAC_OVERRIDE: it reads every file, and the mount is read-only.
TO_READ = frozenset({1})
_CAPABILITIES = range(64)
_PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
_READY = b"."
#: Seconds between two questions whether the child may go on.
ASKED_EVERY = 10.0
#: The exit status of one that did all it was to do, and may not have: rsync at the other end takes the greater one of
#: this and its own, and lsyncd sends again what it ended so.
REFUSED_AFTERWARDS = 12

#: Of this program itself: `find_library` would start ldconfig.
_libc = ctypes.CDLL(None, use_errno=True)


def enter(
    tree: Path,
    id_map: Sequence[Mapping[str, Any]],
    *,
    read_only: bool,
    session: int | None,
    still: Callable[[], bool | None] = lambda: True,
) -> None:
    """Returns in a child that is in the jail. The caller's process waits for it, and ends as it does.

    `session` is the session's lock, if it has one. `still` says outside, now and then and at the end, whether the child
    may go on, None where nobody knows; once it may not, it is ended. One that nobody lets go on at its end has failed.
    Raises ExternalError when this machine has no such jail.
    """
    _check(_libc.unshare(CLONE_NEWPID), "unshare process namespace")
    outside, inside = socket.socketpair()
    # One that comes before somebody can pass it on would end whoever waits, and the session uncleanly with it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    child = os.fork()
    if child:
        inside.close()
        _accompany(child, outside, id_map, before, still)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    outside.close()
    # A signal to its own process group would reach whoever waits outside; the caller's terminal stays outside, too.
    os.setsid()
    # An rsync takes as much memory as its sender wants: where that is short, it is ended, and no standby.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    if session is not None:
        sessions.hold_apart(session)
    _make_jail(tree, read_only=read_only)
    if id_map:
        _enter_user_namespace(inside)
    _give_up_rights(TO_READ if read_only else TO_WRITE)
    # Last: a change of user takes it back.
    _end_with_parent(inside)


def _check(result: int, what: str) -> None:
    if result:
        raise ExternalError(f"{what}: {os.strerror(ctypes.get_errno())}", "the receiver needs root and namespaces")


# -- outside ----------------------------------------------------------------------------------------------------------


def _accompany(
    child: int,
    channel: socket.socket,
    id_map: Sequence[Mapping[str, Any]],
    unblocked: Collection[int],
    still: Callable[[], bool | None],
) -> NoReturn:
    """Writes the child's ID map, since that takes rights outside; passes signals on; ends as the child does.

    `unblocked`: the mask of signals, from when they can be passed on.
    """
    handle = os.pidfd_open(child)

    def pass_on(number: int, _frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has ended
            signal.pidfd_send_signal(handle, number)

    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
    if id_map:
        # The child looks later on whether this end is still open.
        try:
            if channel.recv(1) == _READY:
                _write_id_map(child, id_map)
                channel.sendall(_READY)
        except OSError:
            # The child, which waits for an answer, says what is wrong.
            channel.close()
    # The descriptor can be read once it has ended.
    while not select.select([handle], [], [], ASKED_EVERY)[0]:
        if still() is False:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            break
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    _end_as(REFUSED_AFTERWARDS if code == 0 and not still() else code)


def _write_id_map(pid: int, id_map: Sequence[Mapping[str, Any]]) -> None:
    for which, kind in (("uid_map", "Isuid"), ("gid_map", "Isgid")):
        lines = (f"{e['Nsid']} {e['Hostid']} {e['Maprange']}\n" for e in id_map if e.get(kind))
        # In one piece: the kernel takes a map once.
        Path(f"/proc/{pid}/{which}").write_bytes("".join(lines).encode())


def _end_as(code: int) -> NoReturn:
    """`code`: an exit status, or a signal's negative number."""
    if code < 0:
        with contextlib.suppress(OSError):  # SIGKILL is as it is
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


# -- inside -----------------------------------------------------------------------------------------------------------


def _mount(source: str | Path, target: str | Path, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [os.fsencode(value) if value is not None else None for value in (source, target, kind, data)]
    _check(_libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]), f"mount {target}")


def _make_jail(tree: Path, *, read_only: bool) -> None:
    """A read-only root that holds /usr, and the tree at INSIDE."""
    _check(_libc.unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS), "unshare")
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
            # Without what is mounted below: that would stay writable.
            _mount(source, inside, None, MS_BIND)
            _mount("none", inside, None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV)
    place = base / INSIDE[1:]
    place.mkdir()
    _mount(tree, place, None, MS_BIND)
    # Set-user-ID bits and device nodes can be written all the same; they mean nothing here.
    harmless = MS_NOSUID | MS_NODEV | MS_NOEXEC
    _mount("none", place, None, MS_BIND | MS_REMOUNT | harmless | (MS_RDONLY if read_only else 0))
    _mount("none", base, None, MS_BIND | MS_REMOUNT | MS_RDONLY | harmless)
    os.chdir(base)
    _mount(".", "/", None, MS_MOVE)
    os.chroot(".")
    os.chdir("/")


def _enter_user_namespace(channel: socket.socket) -> None:
    """Makes this process root of a user namespace, whose map the process outside writes."""
    _check(_libc.unshare(CLONE_NEWUSER), "unshare user namespace")
    answer = b""
    with contextlib.suppress(OSError):
        channel.sendall(_READY)
        answer = channel.recv(1)
    if answer != _READY:
        raise ExternalError("the container's ID map could not be set", "the receiver needs CAP_SETUID")
    os.setgid(0)
    os.setuid(0)
    os.setgroups([])


def _give_up_rights(kept: frozenset[int]) -> None:
    for capability in _CAPABILITIES:
        held = _libc.prctl(PR_CAPBSET_READ, capability, 0, 0, 0)
        if held < 0 and ctypes.get_errno() == errno.EINVAL:
            break  # the kernel knows no more
        _check(held < 0, f"looking for capability {capability}")
        if held and capability not in kept:
            _check(_libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0), f"giving up capability {capability}")
    _check(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "giving up new privileges")


def _end_with_parent(channel: socket.socket) -> None:
    """No session outlives its connection: whoever kills the process outside ends this one as well."""
    _check(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "asking to end with the parent")
    # It may have ended before; it would not answer, nor would getppid() tell: that is 0 in any case.
    channel.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        channel.recv(1)
        os._exit(1)
