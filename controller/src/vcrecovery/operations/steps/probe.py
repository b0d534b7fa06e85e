"""Probe: every port of the standby answers, for as long as the plan wants."""

from __future__ import annotations

from vcrecovery.core.episode import Episode, Step
from vcrecovery.core.evidence import Answered
from vcrecovery.core.service_state import Side
from vcrecovery.drivers.probe import Result
from vcrecovery.errors import ExternalError, ReachedError
from vcrecovery.keeping import spaced
from vcrecovery.operations.serving import standby_runs, targets
from vcrecovery.operations.steps import moving
from vcrecovery.operations.steps.subject import JUST_NOW, Subject

#: Seconds between two looks whether the container still runs while its ports are waited for.
LOOK_EVERY = 5.0


def probe(subject: Subject, episode: Episode) -> Answered:
    """Once its names lead there, one that has ended is not started any more: its fence may be long ago."""
    env, name, service = subject.env, subject.name, subject.service
    started_at, subject.started_at = subject.started_at, None
    switched = episode.done(Step.SWITCH) is not None
    if switched:
        _refuse_one_that_has_ended(subject, "")
    elif started_at is None or env.clock.steady() - started_at > JUST_NOW:
        # It may have stopped since, or been frozen: such a one's ports go on accepting connections.
        subject.lxd.start(name, service.timeouts.start)
    unchanged = "" if switched else "; DNS was not changed"
    results = _wait(subject, unchanged)
    if closed := [str(result) for result in results if not result.ok]:
        reached = any(result.reached for result in results)
        stays = reached and not switched and episode.request.moves and moving.keeps_address(subject)
        kind = ReachedError if reached else ExternalError
        raise kind(
            f"the standby of {name} does not answer after {service.timeouts.ports:.0f} s: {'; '.join(closed)}"
            f"{'; it stays there, where its clients have reached it' if stays else unchanged}",
            f"look inside with `{subject.lxd.client} exec {name} -- systemctl --failed`, then run it again",
        )
    return Answered(", ".join(result.label for result in results), str(service.standby.address))


def _wait(subject: Subject, unchanged: str) -> list[Result]:
    """For all ports. Raises ExternalError as soon as the container is seen to have ended: then none will open."""
    timeouts = subject.service.timeouts
    look = spaced(lambda: _refuse_one_that_has_ended(subject, unchanged), LOOK_EVERY, subject.env.clock.steady)
    asked = targets(subject.service, Side.STANDBY)
    return subject.env.probes.wait_for_all(asked, timeouts.ports, timeouts.stable_for, look)


def _refuse_one_that_has_ended(subject: Subject, unchanged: str) -> None:
    name = subject.name
    try:
        if standby_runs(subject.env, name):
            return
    except ExternalError:
        return  # that LXD does not answer now says nothing of the ports
    before = " before its ports opened" if unchanged else ""
    raise ExternalError(
        f"container {name} has ended{before}{subject.last_words()}{unchanged}",
        f"look why (`{subject.lxd.client} info --show-log {name}`), then run it again",
    )
