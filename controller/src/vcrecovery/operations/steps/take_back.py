"""Take back: the switchover has failed before its standby has started, and the primary serves again."""

from __future__ import annotations

from vcrecovery.core.episode import Episode, Step
from vcrecovery.core.evidence import ShutDown, TakenBack
from vcrecovery.core.fencing import operators_word
from vcrecovery.core.power import OFF, Power
from vcrecovery.drivers.lxd.instances import STOPPED
from vcrecovery.errors import ExternalError, RefusedError
from vcrecovery.operations.steps.confirm import ask_ports
from vcrecovery.operations.steps.subject import Subject
from vcrecovery.standby.container import ACTIVE, EPOCH_KEY, ROLE_KEY, stand_by_again


def take_back(subject: Subject, episode: Episode) -> TakenBack:
    """Raises ExternalError while that cannot be done, or nobody knows whether the primary still shuts down."""
    try:
        return _take_back(subject, episode)
    except ExternalError as error:
        said = f"{subject.name} is served by nobody, and cannot go back to its VM yet: {error.message}"
        raise ExternalError(said, error.hint) from error


def _take_back(subject: Subject, episode: Episode) -> TakenBack:
    if episode.tried(Step.START):
        _stand_by(subject, episode)
    shut = episode.done(Step.SHUTDOWN)
    proof = shut.evidence if shut is not None else None
    with_host = isinstance(proof, ShutDown) and proof.starts_with_host
    reading = subject.find_primary().reading
    host, uuid = subject.host, subject.uuid
    if reading.power in OFF:
        host.start(uuid, with_host=with_host)
        return TakenBack(f"{host.name}: VM started again")
    if reading.power is Power.RUNNING:
        if shut is None and not any(result.reached for result in ask_ports(subject)()):
            raise ExternalError(
                f"VM {uuid} runs, and no port of it answers",
                "see its console; once it is off, the next call starts it; "
                f"`vcrecovery failover {subject.name} --force` destroys it and starts the standby as it is",
            )
        # Somebody has started it, or it does not heed its power button.
        host.start(uuid, with_host=with_host)
        return TakenBack(f"{host.name}: {reading}")
    if reading.power is Power.PAUSED:
        return TakenBack(f"{host.name}: {reading}")
    said = reading.detail or f"VM {uuid} is {reading} on {host.name}"
    raise ExternalError(said, f"fix that, or, {operators_word(subject.name)}")


def _stand_by(subject: Subject, episode: Episode) -> None:
    """Its start has failed: whatever runs of it ends before the primary runs again."""
    name, lxd = subject.name, subject.lxd
    instance = subject.read_standby()
    if instance is None or instance.config.get(ROLE_KEY) != ACTIVE:
        return
    if int(instance.config.get(EPOCH_KEY) or 0) != episode.epoch:
        raise RefusedError(
            f"container {name} belongs to epoch {instance.config.get(EPOCH_KEY)}; this is {episode.epoch}",
            "another controller has failed over since: see its `vcrecovery history`",
        )
    if instance.status != STOPPED:
        lxd.stop(name, subject.service.timeouts.start)
    stand_by_again(lxd, name)
