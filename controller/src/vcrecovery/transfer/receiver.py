"""`vcrecovery receive SERVICE`: the forced command of that service's key on the secondary.

It takes rsync's server mode and nothing else: writing while the primary serves, and reading during a failback. rsync
runs in a jail (see `jail`) with that one standby's tree, and with the container's own ID map where the tree is shifted
on disk. So owners, file capabilities and ACLs come out right, and a symbolic link in the tree leads nowhere else.

Standard library only: this runs at every change on a primary, and must start fast.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import syslog
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from vcrecovery.errors import ExternalError, RefusedError, UsageError
from vcrecovery.primary.answers import ELSEWHERE, HAS_ALL_OF, PRIMARY, RANK, STANDBY
from vcrecovery.transfer import heartbeat_copy as published
from vcrecovery.transfer import idmap, jail, sessions
from vcrecovery.transfer.failback_orders import Given, Order, order_in
from vcrecovery.transfer.hand_on import hand_on
from vcrecovery.transfer.rsync_words import reads, server_arguments

#: How long a session waits for a restore point to be made, kept or restored.
WAIT_SECONDS = 60.0
_STANDBY_SERVES = """
SELECT EXISTS (SELECT 1 FROM service WHERE name = ? AND side = 'standby') OR EXISTS (
    SELECT 1 FROM step JOIN episode ON episode.id = step.episode
    WHERE episode.service = ? AND episode.closed_at IS NULL AND step.step = 'start'
)
"""
#: Seconds between two looks whether it takes files again.
_LOOK = 0.5


class KeepingError(ExternalError):
    """A failback keeps what the standby was: nothing may change in it until that is done."""


class _NotHereError(ExternalError):
    """The disk of a secondary on demand is in its VM. `relay`: how that is reached; None where it is not."""

    relay: Mapping[str, str] | None = None


class Target(NamedTuple):
    """One standby's tree and how its owners are mapped."""

    rootfs: Path
    id_map: Sequence[Mapping[str, Any]]


class Told(NamedTuple):
    """What a VM is told: see `primary.answers`. `given`: the order that is open for it, beside a standby that serves.

    `rootfs`: where its standby's files are; None where they are in the VM of a secondary on demand.
    """

    words: str
    given: Given | None = None
    rootfs: Path | None = None


def find_target(state_dir: Path, service: str) -> Target:
    """Where the files of `service` go, if it may take files now.

    Raises UsageError for an unknown service, ExternalError when LXD does not answer, and RefusedError when the standby
    is not ready or serves: files from an old primary would overwrite live data then. KeepingError: not at this moment.
    """
    config, rootfs = _container_of(state_dir, service)
    if _waits_on(config):
        raise RefusedError(f"refused: the standby of {service} waits on {_waits_on(config)} now", "its VM looks there")
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
    config, rootfs = _container_of(state_dir, service)
    given = order_in(config)
    if given is None or given.order is Order.HOLD:
        raise RefusedError(f"refused: no failback of {service} copies files now", f"vcrecovery failback {service}")
    if config.get("user.vcrecovery.role") != "active":
        raise RefusedError(f"refused: {service} is not served by its standby; its VM has the newer files")
    return Target(rootfs, idmap.of_tree(service, config, rootfs))


def who_serves(state_dir: Path, service: str) -> Told:
    """What a VM asks. Raises UsageError and ExternalError as `find_target` does."""
    try:
        config, rootfs = _container_of(state_dir, service)
    except _NotHereError:
        return Told(STANDBY if _journal_says_standby(state_dir, service) else PRIMARY)
    serves = config.get("user.vcrecovery.role") == "active"
    return Told(_words_of(config, service), order_in(config) if serves else None, rootfs)


def _words_of(config: Mapping[str, str], service: str) -> str:
    # What is a spare here has gone on to serve elsewhere, or to wait.
    answer = {"standby": PRIMARY, "active": STANDBY, "spare": f"{STANDBY} {ELSEWHERE}"}.get(
        config.get("user.vcrecovery.role", "")
    )
    if _waits_on(config):
        return ELSEWHERE
    if answer is None:
        # On a wrong answer the VM would start no service.
        raise ExternalError(f"container {service} is no standby of VCRecovery", "run the role `secondary`")
    return " ".join([answer, *_how_much_it_counts(config)])


def _how_much_it_counts(config: Mapping[str, str]) -> Iterator[str]:
    epoch = int(config.get("user.vcrecovery.epoch") or 0)
    rank = 2 * epoch + (epoch > 0 and config.get("user.vcrecovery.taken-back") == str(epoch))
    if rank:
        yield f"{RANK}{rank}"
    if origin := config.get("user.vcrecovery.has-all-of"):
        yield f"{HAS_ALL_OF}{origin}"


def _waits_on(config: Mapping[str, str]) -> str:
    """Where the standby waits that is a spare here; empty for any other."""
    is_spare = config.get("user.vcrecovery.role") == "spare"
    return config.get("user.vcrecovery.waits-on", "") if is_spare else ""


def _container_of(state_dir: Path, service: str) -> tuple[Mapping[str, str], Path]:
    """Its configuration, and where its files are."""
    file = state_dir / "standbys" / f"{service}.json"
    try:
        entry = json.loads(file.read_text())
    except FileNotFoundError as error:
        raise UsageError(f"no standby of service {service!r} is on this machine", "run the role `secondary`") from error
    if "note" in entry:
        return _noted(entry, service), Path(entry["rootfs"])
    try:
        status, body = _lxd_says(entry["socket"], f"/1.0/instances/{entry['container']}")
        found = json.loads(body)
    except (OSError, ValueError, IndexError) as error:
        raise ExternalError(f"LXD ({entry['socket']}) does not answer: {error}", "start it") from error
    if status != 200:
        raise ExternalError(f"LXD knows no container {entry['container']}", "run the role `secondary`")
    config: Mapping[str, str] = found["metadata"]["expanded_config"]
    return config, Path(entry["rootfs"])


def _lxd_says(path: str, what: str) -> tuple[int, bytes]:
    """HTTP/1.0, of which the end of the connection is the end of the answer: `http.client` takes 10 ms to load."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(10)
        connection.connect(path)
        connection.sendall(f"GET {what} HTTP/1.0\r\n\r\n".encode())
        head, _, body = b"".join(iter(lambda: connection.recv(1 << 16), b"")).partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def _noted(entry: Mapping[str, Any], service: str) -> Mapping[str, str]:
    """Of a secondary that is off most of the time, whose disk is mounted here then."""
    away = _NotHereError(
        f"the secondary of {service} is on, or about to be: its disk is not here", "files are taken once it is off"
    )
    if entry.get("relay") and Path(entry["relay"]["key"]).exists():
        away.relay = entry["relay"]
    # In this order: see `operations.secondary_power`.
    if not Path(entry["takes_files"]).exists() or not os.path.ismount(entry["disk"]):
        raise away
    try:
        found = json.loads(Path(entry["note"]).read_text())["instances"].get(entry["container"])
    except (OSError, ValueError, KeyError) as error:
        raise ExternalError(
            f"{entry['note']} cannot be read: {error}", "power the secondary on and off again"
        ) from error
    if found is None:
        raise ExternalError(f"LXD knows no container {entry['container']}", "run the role `secondary`")
    config: Mapping[str, str] = found["expanded_config"]
    return config


def _journal_says_standby(state_dir: Path, service: str) -> bool:
    """Its controller is on this machine; from when a start was tried, its standby may serve. Raises ExternalError."""
    import sqlite3  # nobody else here needs it

    try:
        with contextlib.closing(sqlite3.connect(f"file:{state_dir}/journal.db?mode=ro", uri=True, timeout=5)) as db:
            return bool(db.execute(_STANDBY_SERVES, (service, service)).fetchone()[0])
    except sqlite3.Error as error:
        raise ExternalError(f"the journal in {state_dir} cannot be read: {error}", "ask again later") from error


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
        try:
            target, session = (find_source(state_dir, service), None) if read_only else _join(state_dir, service)
        except _NotHereError as error:
            if read_only or error.relay is None:
                raise
            sessions.join(state_dir, service, WAIT_SECONDS)
            hand_on(error.relay, command)
    if not read_only:
        (published.withdraw if seeds else published.publish)(target.rootfs)

    def still_takes() -> bool | None:
        return True if read_only else _takes_files(state_dir, service)

    jail.enter(target.rootfs, target.id_map, read_only=read_only, session=session, still=still_takes)
    os.umask(0o022)
    os.execve("/usr/bin/rsync", arguments, {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"})  # noqa: S606


def _takes_files(state_dir: Path, service: str) -> bool | None:
    """Whether what has arrived up to now counts: a standby that has moved on lacks it. None: LXD does not say."""
    try:
        config, _rootfs = _container_of(state_dir, service)
    except (ExternalError, UsageError):
        return None
    return config.get("user.vcrecovery.role") == "standby" and not config.get("user.vcrecovery.keeping")


def _join(state_dir: Path, service: str) -> tuple[Target, int]:
    """The session's lock comes with it. Waits while a failback keeps what the standby was."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        # Before the role is read: see `sessions`.
        session = sessions.join(state_dir, service, WAIT_SECONDS)
        try:
            return find_target(state_dir, service), session
        except KeepingError:
            if time.monotonic() >= deadline:
                raise
        # Whoever sees the lock taken would believe that files arrive.
        os.close(session)
        time.sleep(_LOOK)
