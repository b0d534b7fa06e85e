"""How a standby's owners are mapped, read from what LXD has recorded and checked against the tree itself.

LXD's last state of the map says what is on disk: `[]` when the kernel maps at the mount (or the container is
privileged), else the map by which the tree is shifted. Files written with the wrong one would get wrong owners, and LXD
would change every file's owner at the start, in the middle of a recovery. So what is unclear is refused.

Standard library only: the receiver uses it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vcrecovery.errors import RefusedError

IdMap = list[dict[str, Any]]
LAST_STATE = "volatile.last_state.idmap"
PRIVILEGED = "security.privileged"
#: Systems have their own users below this; what is shifted is above.
_FIRST_SHIFTED = 65536


def of_tree(name: str, config: Mapping[str, str], rootfs: Path) -> IdMap:
    """The map by which the files in `rootfs` are shifted on disk; empty when they are not.

    `config` is the container's, with its profiles'. Raises RefusedError when that is not clear.
    """
    entries = recorded(name, config)
    try:
        owner = rootfs.lstat()
    except OSError as error:
        raise _unclear(name, f"{rootfs} cannot be read: {error.strerror}") from error
    for kind, which, found in (("Isuid", "user", owner.st_uid), ("Isgid", "group", owner.st_gid)):
        if not entries and found >= _FIRST_SHIFTED:
            raise _unclear(name, f"LXD says that nothing is shifted on disk, but {rootfs} belongs to {which} {found}")
        if entries and not _maps_to(entries, kind, found):
            raise _unclear(name, f"LXD says that its owners are shifted, but {rootfs} belongs to {which} {found}")
    return entries


def recorded(name: str, config: Mapping[str, str]) -> IdMap:
    """What LXD says. Raises RefusedError when it says nothing, or no map that can be used."""
    text = config.get(LAST_STATE)
    if text is None:
        raise _unclear(name, f"LXD has not chosen yet how ({LAST_STATE} is not set)")
    try:
        entries = json.loads(text)
    except ValueError:
        raise _unclear(name, f"{LAST_STATE} is no JSON") from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) and _usable(entry) for entry in entries):
        raise _unclear(name, f"{LAST_STATE} has an entry that is no range of IDs")
    if entries and _is_true(config.get(PRIVILEGED)):
        raise _unclear(name, "the container is privileged by now, but its tree is still shifted")
    if entries and not all(_has_root(entries, kind) for kind in ("Isuid", "Isgid")):
        raise _unclear(name, f"{LAST_STATE} has no place for root")
    return entries


def _unclear(name: str, why: str) -> RefusedError:
    return RefusedError(
        f"refused: how the owners of {name} are mapped is not clear: {why}",
        "delete that container, then run the role `secondary` again",
    )


def _is_true(value: str | None) -> bool:
    return (value or "").lower() in ("true", "1", "yes", "on")


def _usable(entry: Mapping[str, Any]) -> bool:
    numbers = [entry.get(key) for key in ("Hostid", "Nsid", "Maprange")]
    if not all(isinstance(number, int) and not isinstance(number, bool) and number >= 0 for number in numbers):
        return False
    return bool(entry["Maprange"]) and (entry.get("Isuid") is True or entry.get("Isgid") is True)


def _has_root(entries: Sequence[Mapping[str, Any]], kind: str) -> bool:
    return any(entry.get(kind) and entry["Nsid"] == 0 for entry in entries)


def _maps_to(entries: Sequence[Mapping[str, Any]], kind: str, owner: int) -> bool:
    return any(entry.get(kind) and 0 <= owner - entry["Hostid"] < entry["Maprange"] for entry in entries)
