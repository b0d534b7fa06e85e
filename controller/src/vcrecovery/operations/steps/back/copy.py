"""Copy: the VM fetches what the standby has, pass after pass while that serves, and once more when it has stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from vcrecovery.core.episode import Episode, Step
from vcrecovery.core.evidence import Copied
from vcrecovery.core.failback import is_copied
from vcrecovery.errors import ExternalError
from vcrecovery.operations.steps.back.boot import is_up, standby_is_up
from vcrecovery.operations.steps.subject import Subject
from vcrecovery.operations.vm_orders import Given, Order, Report

LOOK_EVERY = 0.1
LOOK_AT_BOTH_EVERY = 5.0
#: Seconds for the last pass: so many, or so many times as long as the one before.
LAST_WITHIN, LAST_TAKES = 120.0, 5.0
#: Seconds for which LXD may be away meanwhile, as when it is restarted: the VM goes on.
LXD_AWAY_FOR = 20.0


def copy(subject: Subject, episode: Episode, tell: Callable[[str], None]) -> Copied:
    """Raises ExternalError when the VM says that it cannot, or ends. However long it takes: the standby serves."""
    orders = subject.env.vm_orders
    before = _heard(subject)
    counted, took = (before.passes if before is not None and before.epoch == episode.epoch else 0), list[float]()
    files = size = 0
    given = orders.give(subject.name, episode.epoch, Order.COPY)
    try:
        for report in _reports(subject, given, before, None):
            if report.passes < counted:
                # It has booted anew.
                counted = 0
            if report.passes == counted:
                continue
            counted = report.passes
            took.append(report.seconds)
            files, size = files + report.files, size + report.bytes
            tell(f"pass {len(took)}: {_brought(report.files, report.bytes)} in {report.seconds:.1f} s")
            if is_copied(took):
                return Copied(
                    f"{_brought(files, size)} in {len(took)} passes", report.boot, report.seconds, size, files
                )
    finally:
        # Also when whoever has asked for it goes: the standby would be read for ever.
        with suppress(ExternalError):  # what has ended it is told in any case
            orders.give(subject.name, episode.epoch, Order.HOLD)
    raise AssertionError("reports end with an error only")


def last_copy(subject: Subject, episode: Episode) -> Copied:
    """Raises ExternalError when the VM has not everything."""
    copied = episode.done(Step.COPY)
    proof = copied.evidence if copied is not None else None
    before = proof.seconds if isinstance(proof, Copied) else 0.0
    heard = _heard(subject)
    given = subject.env.vm_orders.give(subject.name, episode.epoch, Order.LAST)
    report = next(_reports(subject, given, heard, max(LAST_WITHIN, LAST_TAKES * before)))
    said = f"{_brought(report.files, report.bytes)} in {report.seconds:.1f} s"
    return Copied(said, report.boot, report.seconds, report.bytes, report.files)


def _heard(subject: Subject) -> Report | None:
    """What the VM has said up to now."""
    orders = subject.env.vm_orders
    given = orders.given(subject.name)
    return None if given is None else orders.report(subject.name, given)


def _reports(subject: Subject, given: Given, heard: Report | None, limit: float | None) -> Iterator[Report]:
    """Each good one of a pass that was made for this order, as often as it is looked at; `limit` in seconds.

    `heard`: the newest before that: what failed then says nothing of now.
    """
    clock, begun = subject.env.clock, subject.env.clock.steady()
    look_at = answered_at = begun
    while True:
        report = None
        try:
            report = subject.env.vm_orders.report(subject.name, given)
            answered_at = clock.steady()
        except ExternalError:
            if clock.steady() - answered_at > LXD_AWAY_FOR:
                raise
        if report is not None and (report.epoch, report.order) == (given.epoch, given.order):
            if not report.error:
                yield report
            elif report != heard:
                raise ExternalError(f"the VM of {subject.name} cannot fetch: {report.error}", "fix that in the VM")
        now = clock.steady()
        if now >= look_at:
            look_at = now + LOOK_AT_BOTH_EVERY
            is_up(subject)
            if given.order is Order.COPY:
                standby_is_up(subject, as_far_as_lxd_says=True)
        if limit is not None and now - begun > limit:
            raise ExternalError(f"the VM of {subject.name} has not fetched the rest within {limit:.0f} s")
        clock.sleep(LOOK_EVERY)


def _brought(files: int, size: int) -> str:
    return f"{files} file{'' if files == 1 else 's'}, {size / 1e6:.1f} MB"
