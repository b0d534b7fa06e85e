"""How times, durations and strings of others come onto a terminal."""

from __future__ import annotations

import textwrap
import unicodedata
from datetime import datetime


def plain(text: object) -> str:
    r"""One line without control characters: a reason may come from anywhere, and is shown on a terminal.

    What does not print (line ends, escapes, marks that turn the direction of writing) stands there as `\x1b`.
    """
    return "".join(c if c.isprintable() else _escaped(c) for c in str(text))


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def cells(text: str) -> int:
    """How many columns of a terminal `text` takes."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in ("W", "F") else 1 for c in text
    )


def cut(text: str, width: int) -> str:
    """`text`, if it fits into `width` columns, else its beginning and `...`."""
    if cells(text) <= width:
        return text
    kept, taken = [], 0
    for character in text:
        taken += cells(character)
        if taken > max(0, width - 3):
            break
        kept.append(character)
    return "".join(kept) + "..."[: max(0, width)]


def wrapped(first: str, text: str, width: int | None) -> list[str]:
    """`text` behind `first`; on a terminal of `width` columns, its further lines stand under its beginning."""
    line = (first + plain(text)).rstrip()
    if width is None or cells(line) <= width:
        return [line]
    indent = len(first) if len(first) <= width // 2 else 4
    return textwrap.wrap(line, max(width, indent + 12), subsequent_indent=" " * indent, break_on_hyphens=False)


def clock_time(at: float) -> str:
    """Local time of day, with milliseconds."""
    return _local(at, "%H:%M:%S.%f")[:-3]


def day_and_time(at: float) -> str:
    return _local(at, "%Y-%m-%d %H:%M:%S")


def clock_or_day(at: float, now: float) -> str:
    """Local time of day, with the day where that is another one."""
    return _local(at, "%H:%M") if _local(at, "%F") == _local(now, "%F") else _local(at, "%Y-%m-%d %H:%M")


def _local(at: float, form: str) -> str:
    """A time may be anybody's word, also one that no calendar has: that is shown as the nearest that it has."""
    earliest, latest = datetime(1970, 1, 2), datetime(9999, 12, 30)  # noqa: DTZ001  in any zone
    try:
        return datetime.fromtimestamp(at).astimezone().strftime(form)
    except (ValueError, OverflowError, OSError):
        return (latest if at > 0 else earliest).strftime(form)


def span(seconds: float) -> str:
    """`5 s`, `3 min 12 s`, `2 h 5 min`, `3 d 4 h`."""
    whole = max(0, round(seconds))
    for size, unit, below, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def size_of(count: int) -> str:
    """`512 MiB`, `1.5 GiB`, `40 GiB`."""
    for size, unit in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB")):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} bytes"


def took(begun_at: float, ended_at: float) -> str:
    """How long something went on, by the machine's clock."""
    seconds = ended_at - begun_at
    return f"{seconds:.1f} s" if seconds >= 0 else "an unknown time (the clock was set back)"
