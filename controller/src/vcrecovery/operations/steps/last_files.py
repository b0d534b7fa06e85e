"""Last files: the primary is off, and its last heartbeat says that everything it had written was sent before."""

from __future__ import annotations

from vcrecovery.core.episode import Episode, Step
from vcrecovery.core.evidence import Complete
from vcrecovery.core.text import clock_time
from vcrecovery.errors import ExternalError
from vcrecovery.operations.steps.subject import Subject
from vcrecovery.transfer.freshness import Freshness, read_freshness

#: Seconds for what was sent before it was off to be in place.
ARRIVES_WITHIN = 5.0
LOOK_EVERY = 0.2


def last_files(subject: Subject, episode: Episode) -> Complete:
    """Raises ExternalError when the standby may lack something."""
    confirm, clock = episode.done(Step.CONFIRM), subject.env.clock
    boot = confirm.saw.boot if confirm is not None else None
    deadline = clock.steady() + ARRIVES_WITHIN
    while True:
        fresh = read_freshness(subject.lxd, subject.name, subject.secondary)
        if fresh.final and boot is not None and fresh.boot == boot:
            return Complete(f"all that it had written has arrived, at {clock_time(fresh.heard_at or 0.0)}", boot)
        if clock.steady() > deadline:
            raise ExternalError(
                f"the VM is off, and {_what_is_missing(fresh)}",
                "in the VM, `journalctl -b -1 -u vcrecovery-last-files` says why",
            )
        clock.sleep(LOOK_EVERY)


def _what_is_missing(fresh: Freshness) -> str:
    if fresh.final:
        return "it was booted since the switchover began"
    return f"its last files have not arrived{': ' + fresh.detail if fresh.detail else ''}"
