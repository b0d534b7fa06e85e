"""What a container left on its console before it ended, or LXC in its log where it never began."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vcrecovery.drivers.lxd.connection import Connection

#: How much of it is of use to a person: lines, and characters of all of them.
_LINES, _CHARACTERS = 3, 240
#: Colours and the like, which systemd prints even here.
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class LastWords(Connection):
    """The part of a server that keeps them."""

    def last_words(self, instance: str) -> str:
        """One line, of the last few; empty when there are none. Raises ExternalError."""
        log = self._found(lambda api: api.instances[instance].logs["lxc.log"].get())
        if log is not None and (errors := _errors(instance, _lines(log.content))):
            return _said(errors)
        console = self._found(lambda api: api.instances[instance].console.get())
        return "" if console is None else _said(_lines(console.content)[-_LINES:])


def _lines(content: bytes) -> list[str]:
    """As a person reads them."""
    lines = (_ESCAPES.sub("", line) for line in content.decode(errors="replace").splitlines())
    printable = ("".join(c for c in line if c.isprintable()).strip() for line in lines)
    return [line for line in printable if line]


def _errors(instance: str, lines: Sequence[str]) -> list[str]:
    """Of its newest start: name, time, level, and where it was said. Without the name, they are of who asks for it."""
    form = re.compile(rf"^lxc {re.escape(instance)} [\d.]+ ERROR +\S+ - \S+ - (.*)$")
    found = (form.match(line) for line in lines)
    # What follows the first is that something else failed by that.
    return [match[1] for match in found if match is not None][:1]


def _said(lines: Sequence[str]) -> str:
    return " | ".join(lines)[-_CHARACTERS:]
