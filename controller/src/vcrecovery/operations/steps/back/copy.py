"""Copy: the VM fetches what the standby has, pass after pass while that serves, and once more when it has stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from vcrecovery.core.episode import Episode, Step
from vcrecovery.core.evidence import Copied
from vcrecovery.core.failback import is_copied
from vcrecovery.errors import ExternalError
from vcrecovery.operations.steps.back.boot import is_up, standby_is_up
from vcrecovery.operations.steps.subject import Subject
from vcrecovery.operations.vm_orders import Order, Report

LOOK_EVERY = 0.1
LOOK_AT_BOTH_EVERY = 5.0
#: Seconds for the last pass: so many, or so many times as long as the one before.
LAST_WITHIN, LAST_TAKES = 120.0, 5.0


def copy(subject: Subject, episode: Episode, tell: Callable[[str], None]) -> Copied:
    """Raises ExternalError when the VM says that it cannot, or ends. However long it takes: the standby serves."""
    orders = subject.env.vm_orders
    before = orders.report(subject.name)
    counted, took = (before.passes if before is not None and before.epoch == episode.epoch else 0), list[float]()
    files = size = 0
    orders.give(subject.name, episode.epoch, Order.COPY)
    try:
        for report in _reports(subject, episode, Order.COPY, None):
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
        orders.give(subject.name, episode.epoch, Order.HOLD)
    raise AssertionError("reports end with an error only")


def last_copy(subject: Subject, episode: Episode) -> Copied:
    """Raises ExternalError when the VM has not everything."""
    copied = episode.done(Step.COPY)
    proof = copied.evidence if copied is not None else None
    before = proof.seconds if isinstance(proof, Copied) else 0.0
    subject.env.vm_orders.give(subject.name, episode.epoch, Order.LAST)
    report = next(_reports(subject, episode, Order.LAST, max(LAST_WITHIN, LAST_TAKES * before)))
    said = f"{_brought(report.files, report.bytes)} in {report.seconds:.1f} s"
    return Copied(said, report.boot, report.seconds, report.bytes, report.files)


def _reports(subject: Subject, episode: Episode, order: Order, limit: float | None) -> Iterator[Report]:
    """Each good one of a pass that was made for `order`, as often as it is looked at; `limit` in seconds."""
    clock, begun, since = subject.env.clock, subject.env.clock.steady(), subject.env.clock.now()
    look_at = begun
    while True:
        report = subject.env.vm_orders.report(subject.name)
        if report is not None and report.epoch == episode.epoch and report.order == order.value:
            if not report.error:
                yield report
            elif report.at >= since:
                raise ExternalError(f"the VM of {subject.name} cannot fetch: {report.error}", "fix that in the VM")
        now = clock.steady()
        if now >= look_at:
            look_at = now + LOOK_AT_BOTH_EVERY
            is_up(subject)
            if order is Order.COPY:
                standby_is_up(subject)
        if limit is not None and now - begun > limit:
            raise ExternalError(f"the VM of {subject.name} has not fetched the rest within {limit:.0f} s")
        clock.sleep(LOOK_EVERY)


def _brought(files: int, size: int) -> str:
    return f"{files} file{'' if files == 1 else 's'}, {size / 1e6:.1f} MB"
