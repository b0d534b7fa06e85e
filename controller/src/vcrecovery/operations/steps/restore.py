"""Restore: the standby goes back to the restore point that the operator named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vcrecovery.core.episode import Episode
from vcrecovery.core.evidence import Restored
from vcrecovery.drivers.lxd import Instance
from vcrecovery.drivers.lxd.instances import STOPPED
from vcrecovery.errors import ExternalError, VCRecoveryError
from vcrecovery.operations.steps.subject import Subject
from vcrecovery.standby.container import ACTIVE, EPOCH_KEY, ROLE_KEY, STANDBY, set_up_again
from vcrecovery.transfer.sessions import ENDED_BY_THEMSELVES, take_over

if TYPE_CHECKING:
    from vcrecovery.standby.restore_points import RestorePoint

#: Seconds for a restore point that is being made to be finished.
RESTORE_POINT_ENDS_WITHIN = 60.0


def find_restore_point(subject: Subject, episode: Episode) -> tuple[RestorePoint | None, str]:
    """The restore point that was asked for, if any, and why it cannot be had."""
    if (asked := episode.request.restore_point) is None:
        return None, ""
    from vcrecovery.standby.restore_points import find, restore_points

    try:
        points = restore_points(subject.lxd, subject.name)
        if not subject.lxd.is_here and asked not in [point.name for point in points if point.kept]:
            return None, f"secondary {subject.lxd.name} is another machine: only there can its standbys be put back"
        return find(points, subject.name, asked), ""
    except VCRecoveryError as error:
        return None, error.message


def restore(subject: Subject, episode: Episode) -> Restored:
    """Done once more when it was cut short."""
    from vcrecovery.standby.restore_points import COPY_TIMEOUT, age_in_words, find, restore_points

    env, name, lxd, asked = subject.env, subject.name, subject.lxd, episode.request.restore_point or ""
    point = find(restore_points(lxd, name), name, asked)
    instance = subject.startable(episode)
    if instance.status != STOPPED and instance.config.get(ROLE_KEY) == STANDBY:
        # Nobody has used it yet.
        lxd.stop(name, subject.service.timeouts.start)
    # It would not start by itself half-way: boot.autostart comes with the start.
    claim = {ROLE_KEY: ACTIVE, EPOCH_KEY: str(episode.epoch)}
    subject.claim(episode, claim, lambda found: _nothing_to_lose(found, lxd.client))
    # LXD brings back the configuration of then, in which the standby takes files: none may come until that is over.
    with _nobody_writes(subject) as ended:
        lxd.restore(name, point.name, COPY_TIMEOUT)
        set_up_again(env.plan, name, lxd, claim)
    age = max(0.0, env.clock.now() - point.taken_at)
    return Restored(f"to {point.name}, {age_in_words(age)} old", asked, point.name, age, ended)


@contextmanager
def _nobody_writes(subject: Subject) -> Iterator[int]:
    """Yields how many sessions of the primary were ended."""
    env = subject.env
    if subject.lxd.is_here:
        with take_over(env.plan.state_dir, subject.name, RESTORE_POINT_ENDS_WITHIN) as ended:
            yield ended
    else:
        # None comes: of what is put back from elsewhere, the configuration of then says that it is being kept.
        env.clock.sleep(ENDED_BY_THEMSELVES)
        yield 0


def _nothing_to_lose(instance: Instance, client: str) -> None:
    if instance.status != STOPPED:
        raise ExternalError(
            f"container {instance.name} is {instance.status.lower()}: a restore would throw away what it has written",
            f"if you want that: `{client} stop {instance.name}`, then run it again",
        )
