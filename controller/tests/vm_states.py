"""The reference `docs/vm-states.md`, made of the two tables in `core.meaning`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vcrecovery.core.meaning import ENDS, MEANINGS, TELLING, Meaning

PAGE = Path(__file__).parents[2] / "docs/vm-states.md"

_HEAD = """\
# What libvirt says of a VM, and what VCRecovery makes of it

Generated from `controller/src/vcrecovery/core/meaning.py` by `make docs`. Do not edit it.

## Each state

*shutoff* without a reason is what libvirt says of every VM that is off after its host has booted. *absent* and
*unreachable* are not libvirt's words: no VM of that UUID, and no answer.

"""
_ENDS_HEAD = """
## What is seen now, after what was seen last

The rows are what is seen now, the columns what was seen last that said anything for certain ("never": nothing yet). The
journal keeps that, so it survives a reboot of the hypervisor and a restart of the controller.

- **failed**: failed over, once a second signal confirms it. **stalled**: the same after `detection.stalled_for`.
- **silent**: its ports and `detection.host_silent_for` decide.
- **intended**, **paused**: nothing is done. **elsewhere**, **unknown**: nothing is done, and `status` says so.

An *intended* of a VM that is silent or lost becomes *unknown* when it rests on what an earlier controller saw, and no
controller ran for more than three minutes after that: the VM may have been started since.

"""


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]) + "\n"


def page() -> str:
    states = [("state", "reason", "means", "why")]
    states += [
        (str(power), reason or "none, or a new one", str(entry.meaning), entry.why)
        for (power, reason), entry in MEANINGS.items()
    ]
    lasts: list[Meaning | None] = [None, *(meaning for meaning in Meaning if meaning in TELLING)]
    ends = [("now", *(str(last) if last is not None else "never" for last in lasts))]
    ends += [(str(now), *(str(rule.of(last)[0]) for last in lasts)) for now, rule in ENDS.items()]
    reasons = [("now", "last", "comes to", "why")]
    for now, rule in ENDS.items():
        others = [last for last in lasts if last not in rule.after]
        some = ", ".join(str(last) if last is not None else "never" for last in others)
        reasons.append((str(now), some if rule.after else "any", str(rule.end), rule.why))
        for last, (end, why) in rule.after.items():
            reasons.append(("", str(last) if last is not None else "never", str(end), why))
    return _HEAD + _table(states) + _ENDS_HEAD + _table(ends) + "\nWhy:\n\n" + _table(reasons)
