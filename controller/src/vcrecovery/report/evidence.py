"""What a step has proved, as lines for a person. Pure.

What has words here is said in them; the rest, such as what another version left, under its own name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from vcrecovery.core.evidence import HookRun
from vcrecovery.core.hooks import said
from vcrecovery.core.text import span

#: These are parts of other lines, or were said before.
_ELSEWHERE = frozenset({"summary", "error", "reason", "freshness_detail", "restore_age", "detail", "boot", "hooks"})


def _age(value: Any) -> str:
    return span(float(value)) + " old"


def _seconds(value: Any) -> str:
    return f"{span(float(value))} before"


#: key -> (what it is called, how its value is said; None: as any other)
_WORDS: Mapping[str, tuple[str, Callable[[Any], str] | None]] = {
    "host": ("hypervisor", None),
    "power": ("hypervisor says", None),
    "starts_by_itself": ("started by its hypervisor", None),
    "also_on": ("also on", None),
    "silent": ("do not answer", None),
    "open_ports": ("ports that answer", None),
    "reached": ("accept a connection", None),
    "vanished": ("gone with its end", None),
    "standby_problem": ("standby", None),
    "freshness": ("standby's files", _age),
    "restore_asked": ("restore point asked for", None),
    "restore_problem": ("restore point", None),
    "restore_point": ("restore point", None),
    "asked": ("asked for", None),
    "age": ("its age", span),
    "by": ("by", None),
    "was_running": ("was running before", None),
    "sessions_ended": ("sessions ended", None),
    "before": ("pointed before at", None),
    "cpu": ("CPU used", lambda value: f"{float(value):.1f} %"),
    "heard": ("last heartbeat", _seconds),
    "fence_command": ("has a fence command", None),
    "neighbours": ("still answer there", None),
}
#: Said even when they are empty: that nothing answers is the proof.
_ALWAYS = frozenset({"open_ports"})


def lines(evidence: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(what, how it is) for everything that the step left, apart from its summary."""
    found = []
    known = [key for key in _WORDS if key in evidence]
    for key in [*known, *(key for key in evidence if key not in _WORDS)]:
        value = evidence[key]
        if key in _ELSEWHERE or (_empty(value) and key not in _ALWAYS):
            continue
        name, say = _WORDS.get(key, (key.replace("_", " "), None))
        try:
            text = say(value) if say is not None else _text(value)
        except (TypeError, ValueError):
            text = _text(value)
        if key == "power":
            text += f" ({evidence['reason']})" if evidence.get("reason") else ""
            text += f": {evidence['detail']}" if evidence.get("detail") else ""
        found.append((name, text))
    if evidence.get("freshness") is None and evidence.get("freshness_detail"):
        found.append(("standby's files", f"age not known: {evidence['freshness_detail']}"))
    if not _empty(evidence.get("restore_age")):
        found.append(("its age", span(evidence["restore_age"])))
    return found + [("hook", said(run).removeprefix("hook ")) for run in hooks_of(evidence)]


def hooks_of(evidence: Mapping[str, Any]) -> list[HookRun]:
    """The operator's commands that ran beside the step, as far as they can be read."""
    with suppress(TypeError, ValueError):
        return [HookRun(**{**run, "command": tuple(run["command"])}) for run in evidence.get("hooks") or ()]
    return []


def _empty(value: Any) -> bool:
    return value is None or value is False or value in ("", 0, [], {}, ())


def _text(value: Any) -> str:
    if value is True:
        return "yes"
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_text(inner)}" for key, inner in value.items()) or "nothing"
    if isinstance(value, list | tuple):
        return ", ".join(_text(inner) for inner in value) or "none"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    return str(value)
