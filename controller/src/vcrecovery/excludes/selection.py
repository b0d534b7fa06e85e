"""What one service's list is made from, as the plan says it and as it lies on the primary."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Tuple

from .errors import ExcludeError


class Selection(NamedTuple):
    """The choices of a plan's `sync` section that decide what stays out.

    `packages`, `keep` and `profile` as `exclude_list` takes them; `paths` are further absolute paths;
    `host_keys` is whose SSH host keys the standby shows, `own` or `copied`.
    """

    packages: Tuple[str, ...] = ()
    keep: Tuple[str, ...] = ()
    profile: Optional[str] = None
    paths: Tuple[str, ...] = ()
    host_keys: str = "copied"


def selection_from(values: Dict[str, Any], source: str) -> Selection:
    """The selection in a dictionary of JSON or of a module's arguments; ExcludeError names what is wrong in it."""
    unknown = sorted(set(values) - set(Selection._fields))
    if unknown:
        raise ExcludeError(f"{source}: there is no setting {unknown[0]!r}: choose from {', '.join(Selection._fields)}")
    lists = {}
    for name in ("packages", "keep", "paths"):
        value = values.get(name) or []
        if not isinstance(value, (list, tuple)) or not all(isinstance(entry, str) for entry in value):
            raise ExcludeError(f"{source}: {name} has to be a list of strings, not {value!r}")
        lists[name] = tuple(value)
    for path in lists["paths"]:
        if not path.startswith("/"):
            raise ExcludeError(f"{source}: path {path!r} is not absolute: start it with a slash")
    profile, host_keys = values.get("profile"), values.get("host_keys", "copied")
    if profile is not None and not isinstance(profile, str):
        raise ExcludeError(f"{source}: profile has to be a name, not {profile!r}")
    if host_keys not in ("own", "copied"):
        raise ExcludeError(f"{source}: host_keys is own or copied, not {host_keys!r}")
    return Selection(profile=profile, host_keys=host_keys, **lists)
