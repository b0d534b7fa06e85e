"""Which calls of rsync a VM's key is good for, word by word.

Standard library only: the receiver uses it.
"""

from __future__ import annotations

import re
import shlex

from vcrecovery.errors import RefusedError

#: Where the standby's tree is for an rsync that the receiver becomes.
INSIDE = "/standby"
#: An rsync that writes.
_LONG_OPTIONS = frozenset(
    {
        "-@-1",  # --modify-window=-1
        "--acls",
        "--delay-updates",
        "--delete",
        "--delete-after",
        "--delete-before",
        "--delete-delay",
        "--delete-during",
        "--delete-missing-args",
        "--force",
        "--ignore-errors",
        "--log-format=%i",
        "--log-format=X",
        "--new-compress",
        "--no-implied-dirs",
        "--no-relative",
        "--no-r",
        "--numeric-ids",
        "--old-compress",
        "--sparse",
        "--specials",
        "--stats",
        "--xattrs",
        "--whole-file",
        "--no-whole-file",
    }
)
_VALUED_OPTION = re.compile(
    r"--(bwlimit|timeout|contimeout|max-delete|modify-window|block-size|compress-level|compress-choice"
    r"|checksum-choice|checksum-seed|out-format)=[A-Za-z0-9.,%-]*"
)
#: Options of one letter that stay inside the tree. Not among them: s (arguments over the connection), L and k (follow
#: links), K (treat a link as a folder), b (backups), P (keeps half a file in the place of a whole older one).
_SHORT_OPTIONS = re.compile(r"-[vlogDtprRcndxHAXSzWuOJiqImhyEUN@]*(e[0-9.]*[A-Za-z]*)?")
#: One that reads: what rsync 3.1.3 to 3.5 say there for the VM's one command (see `primary.transfer`), and no more.
_READING_OPTIONS = frozenset({"-@-1", "--modify-window=-1", "--numeric-ids", "--specials"})
_READING_VALUED_OPTION = re.compile(r"--(bwlimit|timeout)=[0-9]{1,9}")
_READING_SHORT_OPTIONS = re.compile(r"-[lHogtpAXrS]+(e[0-9.]*[A-Za-z]*)?")
_SENDER = "--sender"
_PROGRAMS = ("rsync", "/usr/bin/rsync")
#: Of the attributes that only a kernel gives (labels of SELinux and IMA, marks of overlayfs) just file capabilities can
#: be set from here, and mean something there. Each other one would make rsync end with status 23.
_ATTRIBUTES = (
    "--filter=+x security.capability",
    "--filter=-x security.*",
    "--filter=-x trusted.*",
    "--filter=-x system.*",
)


def server_arguments(command: str) -> list[str]:
    """rsync's own arguments in `command`, with the tree in place of its path.

    Raises RefusedError for anything but an rsync server that writes into the tree's top, or reads from there.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise RefusedError("refused: the command cannot be read") from error
    if len(words) < 4 or words[0] not in _PROGRAMS or words[1] != "--server":
        raise RefusedError(f"refused: only rsync may write here, not {command[:80]!r}")
    *options, dot, path = words[2:]
    if dot != "." or path != "/":
        raise RefusedError(f"refused: the only place to write to is /, not {path[:80]!r}")
    mode = options[:1] if options[:1] == [_SENDER] else []
    for option in options[len(mode) :]:
        if not (_may_read_with(option) if mode else _may_write_with(option)):
            raise RefusedError(f"refused: rsync's option {option[:80]!r}")
    return ["rsync", "--server", *mode, *_ATTRIBUTES, *options[len(mode) :], ".", f"{INSIDE}/"]


def reads(arguments: list[str]) -> bool:
    """Whether that rsync sends the tree's files, and writes nothing."""
    return _SENDER in arguments


def _may_write_with(option: str) -> bool:
    known = option in _LONG_OPTIONS or _VALUED_OPTION.fullmatch(option) or _SHORT_OPTIONS.fullmatch(option)
    return bool(known)


def _may_read_with(option: str) -> bool:
    known = option in _READING_OPTIONS or _READING_VALUED_OPTION.fullmatch(option)
    return bool(known or _READING_SHORT_OPTIONS.fullmatch(option))
