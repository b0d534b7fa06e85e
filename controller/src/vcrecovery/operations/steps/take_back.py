"""Take back: the switchover has failed before its standby has started, and the primary serves again."""

from __future__ import annotations

from vcrecovery.core.episode import Episode, Step, StepRecord
from vcrecovery.core.evidence import ShutDown, TakenBack
from vcrecovery.core.fencing import operators_word
from vcrecovery.core.power import OFF, Power
from vcrecovery.drivers.lxd.instances import STOPPED
from vcrecovery.errors import ExternalError, RefusedError
from vcrecovery.operations.steps.confirm import ask_ports
from vcrecovery.operations.steps.subject import Subject
from vcrecovery.standby.container import ACTIVE, EPOCH_KEY, ROLE_KEY, epoch_of, stand_by_again

#: Seconds for which a VM that was asked to shut down, and has not, is watched: it may be late. One that answers for so
#: long serves.
STEADY_FOR = 60.0
LOOK_EVERY = 2.0


def take_back(subject: Subject, episode: Episode) -> TakenBack:
    """Raises ExternalError while that cannot be done, or nobody knows whether the primary still shuts down."""
    try:
        if episode.tried(Step.START):
            _stand_by(subject, episode)
        return _serve_again(subject, episode.done(Step.SHUTDOWN))
    except ExternalError as error:
        if _answers(subject):
            said = f"{subject.name} still answers, and nobody knows whether its VM goes on: {error.message}"
            raise ExternalError(said, "fix that, then run it again") from error
        said = f"{subject.name} is served by nobody, and cannot go back to its VM yet: {error.message}"
        raise ExternalError(said, error.hint) from error


def _serve_again(subject: Subject, shut: StepRecord | None) -> TakenBack:
    proof = shut.evidence if shut is not None else None
    with_host = isinstance(proof, ShutDown) and proof.starts_with_host
    name, clock, uuid = subject.name, subject.env.clock, subject.uuid
    deadline = clock.steady() + STEADY_FOR
    while True:
        reading = subject.find_one_to_start().reading
        host = subject.host
        if reading.power in OFF:
            host.start(uuid, with_host=with_host)
            return TakenBack(f"{host.name}: VM started again")
        if reading.power is Power.PAUSED:
            raise ExternalError(f"VM {uuid} is paused on {host.name}", f"`virsh resume {uuid}`, then run it again")
        if reading.power is not Power.RUNNING:
            said = reading.detail or f"VM {uuid} is {reading} on {host.name}"
            raise ExternalError(said, f"fix that, or, {operators_word(name)}")
        if shut is not None:
            # It was off: somebody has started it.
            host.start(uuid, with_host=with_host)
            return TakenBack(f"{host.name}: {reading}")
        if not _answers(subject):
            raise ExternalError(
                f"VM {uuid} runs, and no port of it answers",
                "see its console; once it is off, the next call starts it; "
                f"`vcrecovery failover {name} --force` destroys it and starts the standby as it is",
            )
        if clock.steady() >= deadline:
            return TakenBack(f"{host.name}: {reading}, and it answers")
        clock.sleep(LOOK_EVERY)


def _answers(subject: Subject) -> bool:
    return any(result.reached for result in ask_ports(subject)())


def _stand_by(subject: Subject, episode: Episode) -> None:
    """Its start has failed: whatever runs of it ends before the primary runs again."""
    name, lxd = subject.name, subject.lxd
    instance = subject.read_standby()
    if instance is None or instance.config.get(ROLE_KEY) != ACTIVE:
        return
    if epoch_of(instance) != episode.epoch:
        raise RefusedError(
            f"container {name} belongs to epoch {instance.config.get(EPOCH_KEY)}; this is {episode.epoch}",
            "another controller has failed over since: see its `vcrecovery history`",
        )
    if instance.status != STOPPED:
        lxd.stop(name, subject.service.timeouts.start)
    stand_by_again(lxd, name)
