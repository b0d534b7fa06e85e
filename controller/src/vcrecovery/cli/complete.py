"""What the tab key offers beside verbs and options: the plan's services, hypervisors, sites, and episodes.

The plan is read as plain YAML, without its schema: that takes a tenth of the time, and a plan with a mistake in it
still completes. A parameter is known by its name, so that every verb completes alike.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ZshComplete, add_completion_class

from vcrecovery.plan import DEFAULT_PATH

#: So many of the newest episodes are offered.
EPISODES = 20


def know_the_plan() -> None:
    """From now on, completion in this process offers what the plan has."""
    for shell in (BashComplete, ZshComplete, FishComplete):
        add_completion_class(type(shell.__name__, (_FromThePlan, shell), {}))


class _FromThePlan:
    """Before click's own classes: looks first whether the plan knows what is wanted."""

    cli: click.Command
    ctx_args: Any
    prog_name: str

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        from click.shell_completion import _resolve_context, _resolve_incomplete

        context = _resolve_context(self.cli, self.ctx_args, self.prog_name, args)
        wanted, incomplete = _resolve_incomplete(context, args, incomplete)
        offer = _OFFERS.get(wanted.name or "") if isinstance(wanted, click.Parameter) else None
        if offer is None or not isinstance(wanted, click.Parameter) or not _is_text(wanted):
            return wanted.shell_complete(context, incomplete)
        found = dict.fromkeys(_plain_words(offer(_plan(context))))
        return [CompletionItem(word) for word in found if word.startswith(incomplete)]


def _is_text(parameter: click.Parameter) -> bool:
    return isinstance(parameter.type, click.types.StringParamType) and not getattr(parameter, "is_flag", False)


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


def _keys(*path: str) -> Callable[[dict[str, Any]], Iterator[str]]:
    def found(plan: dict[str, Any]) -> Iterator[str]:
        here: Any = plan
        for part in path:
            here = here.get(part) if isinstance(here, dict) else None
        yield from (str(key) for key in (here if isinstance(here, dict) else {}))

    return found


def _values(section: str, *path: str) -> Callable[[dict[str, Any]], Iterator[str]]:
    """What stands under `path` in each entry of `section`."""

    def found(plan: dict[str, Any]) -> Iterator[str]:
        entries = plan.get(section)
        for entry in entries.values() if isinstance(entries, dict) else ():
            here: Any = entry
            for part in path:
                here = here.get(part) if isinstance(here, dict) else None
            if here is not None:
                yield str(here)

    return found


def _sites(plan: dict[str, Any]) -> Iterator[str]:
    entries = plan.get("hypervisors")
    for entry in entries.values() if isinstance(entries, dict) else ():
        yield str(entry.get("site", "main")) if isinstance(entry, dict) else "main"


def _episodes(plan: dict[str, Any]) -> Iterator[str]:
    yield "last"
    yield from _keys("services")(plan)
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


_OFFERS: dict[str, Callable[[dict[str, Any]], Iterator[str]]] = {
    "service": _keys("services"),
    "services": _keys("services"),
    "primary_is_down": _keys("services"),
    "vm": _values("services", "primary", "uuid"),
    "host": _keys("hypervisors"),
    "hypervisor": _keys("hypervisors"),
    "site": _sites,
    "group": _keys("groups"),
    "secondary": _keys("secondaries"),
    "episode": _episodes,
}
