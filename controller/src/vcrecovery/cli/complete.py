"""What the tab key offers beside verbs and options: the plan's services, hypervisors, sites, and episodes.

The plan is read as plain YAML, without its schema: that takes a tenth of the time, and a plan with a mistake in it
still completes. Every verb that is completed loads this, so what only an answer needs is loaded for the answer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from vcrecovery.plan import DEFAULT_PATH

#: So many of the newest episodes are offered.
EPISODES = 20
#: What the plan has for the rest of this command line.
_Offer = Callable[[dict[str, Any], click.Context], Iterator[str]]
#: What click wants as `shell_complete` of a parameter.
_Completion = Callable[[click.Context, click.Parameter, str], list[str]]
#: The options that name services by something else.
_INSTEAD = ("vm", "host", "site", "group")


def _completing(offer: _Offer) -> _Completion:
    def found(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        words = dict.fromkeys(_plain_words(offer(_plan(context), context)))
        return [word for word in words if word.startswith(incomplete)]

    return found


def _plan(context: click.Context) -> dict[str, Any]:
    """The plan that this command line means, or nothing."""
    import yaml

    path = context.params.get("plan_path") or os.environ.get("VCRECOVERY_PLAN") or DEFAULT_PATH
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        found = yaml.load(Path(path).read_bytes(), Loader=loader)  # noqa: S506  either is a safe one
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return found if isinstance(found, dict) else {}


def _plain_words(words: Iterator[str]) -> Iterator[str]:
    """A name that the shell would take apart, or run, is not offered."""
    return (word for word in words if word and all(c.isalnum() or c in "-._:" for c in word))


def _keys(*path: str) -> _Offer:
    def found(plan: dict[str, Any], _context: click.Context) -> Iterator[str]:
        here: Any = plan
        for part in path:
            here = here.get(part) if isinstance(here, dict) else None
        yield from (str(key) for key in (here if isinstance(here, dict) else {}))

    return found


def _vms(plan: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The UUID of each service's primary, and the service."""
    services = plan.get("services")
    for name, entry in services.items() if isinstance(services, dict) else ():
        primary = entry.get("primary") if isinstance(entry, dict) else None
        if isinstance(primary, dict) and primary.get("uuid") is not None:
            yield str(primary["uuid"]), str(name)


def _uuids(plan: dict[str, Any], _context: click.Context) -> Iterator[str]:
    return (uuid for uuid, _ in _vms(plan))


def _services(plan: dict[str, Any], context: click.Context) -> Iterator[str]:
    if not any(context.params.get(option) for option in _INSTEAD):
        yield from _keys("services")(plan, context)


def _what_is_meant(plan: dict[str, Any], context: click.Context) -> Iterator[str]:
    """The name that --primary-is-down has to repeat; where none is there yet, all of them."""
    said = context.params
    # While an option still wants its value, click has not looked at what stands by itself.
    for name in (said.get("service"), *context.args[:1], said.get("host"), said.get("site"), said.get("group")):
        if name:
            yield str(name)
            return
    if vm := said.get("vm"):
        yield from (name for uuid, name in _vms(plan) if uuid.lower() == str(vm).strip().lower())
        return
    for offer in (_keys("services"), _keys("hypervisors"), _sites, _keys("groups")):
        yield from offer(plan, context)


def _latest(_plan: dict[str, Any], _context: click.Context) -> Iterator[str]:
    """The names of restore points are LXD's to know, which is not asked at each key."""
    yield "latest"


def _sites(plan: dict[str, Any], _context: click.Context) -> Iterator[str]:
    entries = plan.get("hypervisors")
    for entry in entries.values() if isinstance(entries, dict) else ():
        yield str(entry.get("site", "main")) if isinstance(entry, dict) else "main"


def _episodes(plan: dict[str, Any], context: click.Context) -> Iterator[str]:
    yield "last"
    yield from _keys("services")(plan, context)
    import sqlite3

    journal = Path(str(plan.get("state_dir", "/var/lib/vcrecovery"))) / "journal.db"
    try:
        # Read only: pressing a key must not make a journal.
        database = sqlite3.connect(f"{journal.absolute().as_uri()}?mode=ro", uri=True, timeout=0.2)
        try:
            rows = database.execute("SELECT id FROM episode ORDER BY id DESC LIMIT ?", (EPISODES,)).fetchall()
        finally:
            database.close()
    except (sqlite3.Error, ValueError):
        return
    yield from (str(number) for (number,) in rows)


#: For the `service` of a verb that may be told by its VM, host, site or group instead.
service = _completing(_services)
services = _completing(_keys("services"))
primary_is_down = _completing(_what_is_meant)
vm = _completing(_uuids)
restore_point = _completing(_latest)
hypervisor = _completing(_keys("hypervisors"))
secondary = _completing(_keys("secondaries"))
site = _completing(_sites)
group = _completing(_keys("groups"))
episode = _completing(_episodes)
