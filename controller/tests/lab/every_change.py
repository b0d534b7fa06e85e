"""Every single change that a process makes outside itself: the places through which all of them go.

`lxd`: each request that changes something, and its answer: what it began goes on in LXD meanwhile. `libvirt`: each call
that changes a VM. `journal`: each entry. `names`: each DNS update. `files`: each file that is opened for writing, made,
renamed, removed, or given another owner or mode. `commands`: each program that is started, and its end.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import libvirt

from vcrecovery.drivers import process
from vcrecovery.drivers.dns import Zone
from vcrecovery.drivers.lxd.unix_socket import UnixSocketSession
from vcrecovery.store.journal import Journal

KINDS = ("lxd", "libvirt", "journal", "names", "files", "commands")
_VM = ("destroy", "destroyFlags", "suspend", "resume", "setAutostart")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_FILES = {
    f"os.{name}"
    for name in ("rename", "remove", "mkdir", "rmdir", "symlink", "link", "chmod", "chown", "truncate", "utime")
}

Pass = Callable[[str], None]


#: Dozens of them are masked; one is as good as another.
_UNIT = re.compile(r"[\w@.-]+\.(?:service|socket|path|timer|mount|automount)\b")
#: What a command in a container has printed has another name each time.
_OUTPUT = re.compile(r"\bexec_[0-9a-f-]+")
#: What only looks, of the programs that also change something.
_LOOKS = {"show", "-S", "-C", "--dry-run"}


def count_changes(pass_one: Pass, kinds: Sequence[str]) -> None:
    """From now on, `pass_one` is called with a name right before each change of these kinds; `all` has all of them."""
    wanted = set(KINDS if "all" in kinds else kinds)
    if "lxd" in wanted:
        _requests(pass_one)
    if "libvirt" in wanted:
        for name in _VM:
            _before(pass_one, libvirt.virDomain, name)
    if "journal" in wanted:
        _entries(pass_one)
    if "names" in wanted:
        _before(pass_one, Zone, "commit")
    if "commands" in wanted:
        _commands(pass_one)
    # What Python keeps for itself is no change.
    sys.dont_write_bytecode = True
    sys.addaudithook(lambda event, args: _audited(pass_one, wanted, event, args))


def _before(pass_one: Pass, owner: Any, name: str) -> None:
    function = getattr(owner, name)

    def counted(*args: Any, **kwargs: Any) -> Any:
        pass_one(f"{owner.__name__}.{name}")
        return function(*args, **kwargs)

    setattr(owner, name, counted)


def _entries(pass_one: Pass) -> None:
    transaction = Journal.transaction

    def counted(self: Journal) -> Any:
        pass_one(sys._getframe(1).f_code.co_qualname)
        return transaction(self)

    setattr(Journal, "transaction", counted)  # noqa: B010


def _commands(pass_one: Pass) -> None:
    all_of = process._all_of

    def counted(begun: subprocess.Popen[bytes], *args: Any) -> tuple[bytes, bytes]:
        if changes_something(begun.args):
            pass_one(f"the end of {shown(begun.args)}")
        return all_of(begun, *args)

    setattr(process, "_all_of", counted)  # noqa: B010


def changes_something(words: Any) -> bool:
    return not _LOOKS.intersection(words)


def shown(words: Any) -> str:
    return " ".join(str(word) for word in words)


def _requests(pass_one: Pass) -> None:
    request = UnixSocketSession.request

    def counted(self: UnixSocketSession, method: Any, url: Any, **options: Any) -> Any:
        if method.upper() == "GET":
            return request(self, method, url, **options)
        what = f"{method.upper()} {_OUTPUT.sub('exec', str(url).partition('/1.0/')[2])}"
        pass_one(what)
        answer = request(self, method, url, **options)
        pass_one(f"the end of {what}")
        return answer

    setattr(UnixSocketSession, "request", counted)  # noqa: B010


def _audited(pass_one: Pass, wanted: set[str], event: str, args: tuple[Any, ...]) -> None:
    if event in ("subprocess.Popen", "os.exec"):
        if "commands" in wanted and changes_something(args[1]):
            pass_one(shown(args[1]))
        return
    if "files" not in wanted:
        return
    if event == "open":
        path, _, flags = args
        if isinstance(path, int) or not flags & _WRITES:
            return
    elif event in _FILES:
        path = args[event == "os.symlink"]
    else:
        return
    name = os.fsdecode(path) if not isinstance(path, int) else f"file {path}"
    if event == "os.mkdir" and Path(name).is_absolute() and Path(name).is_dir():
        return
    if not name.startswith(("/dev/", "/proc/")):
        pass_one(f"{event} {_UNIT.sub('UNIT', name)}")
