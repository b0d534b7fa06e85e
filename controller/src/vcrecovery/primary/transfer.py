"""rsync to the standby: one pass over the whole tree, and one over named paths. And one pass back."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from typing import IO, Callable, Iterable, List, NamedTuple, Optional, Sequence

from .connections import OWN_CONNECTION, shared_connection
from .hidden import HIDDEN, hidden_paths, is_hidden
from .programs import ProgramError
from .settings import Settings

#: What every transfer keeps; owners go by number, since names mean other numbers on another machine. Device nodes are
#: left out, with a line that says so: a container's user cannot make them.
#: Times are compared to the nanosecond: a file that changed twice within a second, in the same size, would not be sent.
KEPT = ("-aHAXS", "--no-devices", "--specials", "--numeric-ids", "--modify-window=-1")
_DELETE = ("--delete", "--delete-delay", "--force")
#: Where rsync keeps what has arrived, in each folder, until all is there and it renames everything.
_WAITS_IN = ".~tmp~/"
#: A pass that is cut off before that has replaced and deleted nothing. What it leaves is used by the next one, or
#: deleted: rsync by itself would keep it for ever (R: at risk).
_ALL_AT_THE_END = ("--delay-updates", f"--filter=R {_WAITS_IN}")
#: Seconds without a byte after which rsync gives up.
_SILENCE_SECONDS = 300
_VANISHED = 24
_PROGRESS = re.compile(rb"\s*([\d,]+)\s+(\d+)%\s.*?(?:\(xfr#(\d+), (?:ir|to)-chk=(\d+)/(\d+)\))?\s*\Z")
_CHANGE = re.compile(rb"(?:[<>ch.*][fdLDS][^ ]{9}|\*deleting  ) (.*)\Z", re.S)
_OCTAL = re.compile(rb"\\#([0-7]{3})")


class Progress(NamedTuple):
    """So far: bytes sent, percent of what rsync knows of, files sent, entries left to check and known of."""

    bytes: int
    percent: int
    files: int
    left: int
    known: int


class Transfer(NamedTuple):
    """What one pass did: paths relative to the tree, and bytes of the files sent."""

    paths: List[bytes]
    bytes: int
    files: int


def whole_tree(tree: str, settings: Settings, tell: Callable[[Progress], None]) -> Transfer:
    """Compares everything and sends what differs; raises ProgramError for anything but success or vanished files."""
    at_the_end = _ALL_AT_THE_END if settings.consistency.belongs_together else ()
    command = [
        *_rsync(settings), *_DELETE, *at_the_end, "--8-bit-output", "--out-format=%i %n",
        "--info=progress2", f"--filter=merge {settings.lists['rsync-filter']}", *_ends(tree, settings),
    ]  # fmt: skip
    reader = _Reader(tell)
    _stream(command, None, reader)
    return Transfer(_not_hidden(reader.paths, settings.lists["rsync-filter"]), reader.last.bytes, reader.last.files)


def fetch_tree(
    settings: Settings, filter_file: str, tell: Callable[[Progress], None], last: bool
) -> Transfer:  # fmt: skip
    """Compares everything with the standby, and makes it here what it is there; no paths are in the result.

    Where something cannot be read there, rsync deletes nothing here. Raises ProgramError for anything but success, and
    files that have vanished unless this is the `last` pass: nothing changes there any more.
    """
    settings = settings._replace(bandwidth=None) if last else settings
    # A pass to there was cut off, perhaps.
    left = (f"--filter=- {_WAITS_IN}",) if settings.consistency.belongs_together else ()
    command = [
        *_rsync(settings), *_DELETE, *left, "--info=progress2", f"--filter=merge {filter_file}",
        *_shell(settings, shared_connection(settings)), settings.target, settings.source.rstrip("/") + "/",
    ]  # fmt: skip
    reader = _Reader(tell)
    _stream(command, None, reader, (0,) if last else (0, _VANISHED))
    return Transfer([], reader.last.bytes, reader.last.files)


class _Reader:
    """Understands the lines of a pass: changed paths, and how far it has come."""

    def __init__(self, tell: Callable[[Progress], None]) -> None:
        self._tell = tell
        self.paths: List[bytes] = []
        self.last = Progress(0, 0, 0, 0, 0)

    def __call__(self, line: bytes) -> None:
        change = _CHANGE.match(line)
        if change:
            self.paths.append(_OCTAL.sub(lambda m: bytes([int(m.group(1), 8)]), change.group(1)))
            return
        progress = _PROGRESS.match(line)
        if progress:
            sent, percent, files, left, known = (int((value or b"0").replace(b",", b"")) for value in progress.groups())
            self.last = Progress(sent, percent, max(files, self.last.files), left, known)
            self._tell(self.last)


def named_paths(tree: str, settings: Settings, paths: Iterable[bytes]) -> None:
    """Makes just these paths in the standby what they are in the tree; one that is not there is deleted.

    The caller's lsyncd must not send anything meanwhile: both take the lock.
    """
    command = [
        "flock", os.path.join(settings.run_dir, "rsync.lock"), *_rsync(settings), "--no-r", "--dirs",
        "--delete-missing-args", "--force", "--from0", "--files-from=-", *_ends(tree, settings),
    ]  # fmt: skip
    # Not the top itself: to rsync "/" and "/." mean what lies in it, whether on the list or not.
    named = [path for path in (path.strip(b"/") for path in paths) if path not in (b"", b".")]
    if named:
        _stream(command, b"\0".join(b"/" + path for path in named), lambda line: None)


def _not_hidden(paths: List[bytes], filter_file: str) -> List[bytes]:
    """Without what was deleted because the list hides it; named paths are not held against the filter by rsync.

    A pattern with escapes is not looked at: what it hides would be sent again, and deleted by the next reconcile.
    """
    hidden = hidden_paths(filter_file, (HIDDEN,))
    return [path for path in paths if not is_hidden(b"/" + path.strip(b"/"), hidden)]


def _rsync(settings: Settings) -> List[str]:
    command = ["rsync", *KEPT, f"--timeout={_SILENCE_SECONDS}"]
    if settings.bandwidth:
        command.append(f"--bwlimit={settings.bandwidth}")
    return command


def _ends(tree: str, settings: Settings) -> List[str]:
    return [*_shell(settings), tree.rstrip("/") + "/", settings.target]


def _shell(settings: Settings, control: str = OWN_CONNECTION) -> List[str]:
    return ["-e", f"ssh -F {settings.ssh_config} -o {control}"] if ":" in settings.target else []


def _stream(
    command: Sequence[str], given: Optional[bytes], read: Callable[[bytes], None],
    fine: Sequence[int] = (0, _VANISHED),
) -> None:  # fmt: skip
    """Runs rsync, and hands over each line it prints; no bound but its own on silence: a first sync may take days."""
    try:
        process = subprocess.Popen(
            list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except OSError as error:
        raise ProgramError(f"{command[0]}: {error.strerror}") from None
    complaints: List[bytes] = []
    if process.stdin is None or process.stdout is None or process.stderr is None:  # which Popen with PIPE rules out
        raise ProgramError(f"{command[0]}: no pipes")
    threads = [
        threading.Thread(target=_feed, args=(process.stdin, given or b"")),
        threading.Thread(target=_gather, args=(process.stderr, complaints)),
    ]
    for thread in threads:
        thread.start()
    try:
        for line in _lines(process.stdout):
            read(line)
        status = process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        for thread in threads:
            thread.join()
        process.stdout.close()
    if status not in fine:
        raise ProgramError(_complaint(complaints, status), status)


def _lines(stream: IO[bytes]) -> Iterable[bytes]:
    """Lines, and the states of a progress line, which rsync ends with a carriage return."""
    rest = b""
    while True:
        chunk = os.read(stream.fileno(), 65536)
        if not chunk:
            break
        *whole, rest = re.split(rb"[\r\n]", rest + chunk)
        for line in whole:
            if line:
                yield line
    if rest:
        yield rest


def _feed(stream: IO[bytes], data: bytes) -> None:
    try:
        stream.write(data)
        stream.close()
    except BrokenPipeError:
        pass


def _gather(stream: IO[bytes], lines: List[bytes]) -> None:
    with stream:
        for line in stream:
            if len(lines) < 20:
                lines.append(line.strip())


def _complaint(lines: Sequence[bytes], status: int) -> str:
    """The first line that names a cause; rsync's last one only repeats the status."""
    causes = [line for line in lines if line and not line.startswith((b"rsync error:", b"IO error encountered"))]
    first = (causes or list(lines) or [b""])[0].decode("utf-8", "replace")
    more = f" (and {len(causes) - 1} more)" if len(causes) > 1 else ""
    return f"{first}{more} [rsync: exit status {status}]"
