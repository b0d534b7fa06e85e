"""Stop, hand over, and serve: the standby ends, and the VM is told that it serves."""

from __future__ import annotations

from vcrecovery.core.episode import Episode, Outcome, Step
from vcrecovery.core.evidence import Answered, Fenced, HandedOver, ShutDown, Stopped
from vcrecovery.core.power import OFF
from vcrecovery.core.service_state import Side
from vcrecovery.drivers.lxd import Instance
from vcrecovery.drivers.lxd.instances import STOPPED
from vcrecovery.errors import ExternalError, RefusedError
from vcrecovery.keeping import spaced
from vcrecovery.operations import virtual_address
from vcrecovery.operations.serving import targets
from vcrecovery.operations.steps.back.boot import is_up
from vcrecovery.operations.steps.subject import Subject
from vcrecovery.standby.container import EPOCH_KEY, KEEPING_KEY, ROLE_KEY, STANDBY, STAYS_OFF, epoch_of
from vcrecovery.transfer.failback_orders import ORDER_KEY

#: Seconds for the VM's services to start, at least.
PORTS_WITHIN = 300.0
LOOK_EVERY = 5.0


def stop(subject: Subject, episode: Episode) -> Stopped:
    """In the order that its system gives. It does not start with its machine any more."""
    name, lxd, limit = subject.name, subject.lxd, subject.service.timeouts.shutdown
    found = subject.claim(episode, {EPOCH_KEY: str(episode.epoch), **STAYS_OFF})
    if found.status != STOPPED:
        lxd.shut_down(name, limit)
    ended = subject.read_standby()
    if ended is None or ended.status != STOPPED:
        raise ExternalError(f"container {name} has not stopped within {limit:.0f} s", "see what runs in it")
    return Stopped(f"container {name} on {lxd.name}", ended.started_at)


def has_run_since_its_stop(found: Instance, episode: Episode) -> bool:
    """Also where nobody can say: it may have written."""
    stopped = episode.done(Step.STOP)
    proof = stopped.evidence if stopped is not None else None
    return not isinstance(proof, Stopped) or found.started_at != proof.started_at


def hand_over(subject: Subject, episode: Episode) -> HandedOver:
    """From here on the VM serves.

    Raises RefusedError when it cannot, and nothing was done; ExternalError when nobody knows.
    """
    try:
        is_up(subject)
    except ExternalError as error:
        # An earlier try may have told it that it serves, and not have heard so: from there the only way is forward.
        if _standby(subject, episode).config.get(ROLE_KEY) != STANDBY:
            raise RefusedError(error.message, error.hint) from error

    def read() -> Instance:
        found = _standby(subject, episode)
        if found.config.get(ROLE_KEY) == STANDBY:
            return found
        if epoch_of(found) != episode.epoch or found.status != STOPPED:
            raise RefusedError(f"container {found.name} was started or claimed after its stop: it may have written")
        if has_run_since_its_stop(found, episode):
            raise RefusedError(f"container {found.name} has run after its stop: the VM may lack what it has written")
        return found

    if subject.service.virtual_ip is not None:
        # First what would refuse it: a standby that serves again is to have its address still.
        read()
        virtual_address.give_up(subject.env, subject.service)
    subject.lxd.reconfigure(
        read,
        # The VM's files would change what the next step but few keeps. From the same moment it is told that it serves.
        lambda found: (
            {}
            if found.config.get(ROLE_KEY) == STANDBY
            else {ROLE_KEY: STANDBY, KEEPING_KEY: "true", ORDER_KEY: "", **STAYS_OFF}
        ),
    )
    return HandedOver(f"container {subject.name} stands by")


def _standby(subject: Subject, episode: Episode) -> Instance:
    try:
        return subject.startable(episode)
    except ExternalError as error:
        # The VM has everything, and nobody can tell it so.
        lost = subject.lxd.name
        raise ExternalError(
            error.message,
            f"fix that, then run it again; once {lost} is off for certain: `systemctl default` in the VM, point DNS "
            f"back, `vcrecovery standby reset {subject.name} --secondary-is-down {lost}`",
        ) from error


def probe_vm(subject: Subject, episode: Episode) -> Answered:
    """Every port of the VM answers, for as long as the plan wants. Not started any more once its names lead there."""
    service, name = subject.service, subject.name
    switched = episode.done(Step.SWITCH) is not None
    place = subject.find_primary() if switched else subject.find_one_to_start()
    if not switched:
        subject.host.start(subject.uuid, with_host=_started_with_its_host(subject))
    elif place.reading.power in OFF:
        raise ExternalError(f"VM {subject.uuid} is {place.reading} on {place.host}", f"`vcrecovery failover {name}`")
    look = spaced((lambda: None) if switched else lambda: is_up(subject), LOOK_EVERY, subject.env.clock.steady)
    limit = max(service.timeouts.ports, PORTS_WITHIN)
    results = subject.env.probes.wait_for_all(targets(service, Side.PRIMARY), limit, service.timeouts.stable_for, look)
    if closed := [str(result) for result in results if not result.ok]:
        unchanged = "" if switched else "; DNS was not changed"
        raise ExternalError(
            f"the VM of {name} does not answer after {limit:.0f} s: {'; '.join(closed)}{unchanged}",
            f"fix that in the VM, then run it again; `vcrecovery failover {name} --force` has its standby serve",
        )
    return Answered(", ".join(result.label for result in results), str(service.primary.address))


def _started_with_its_host(subject: Subject) -> bool:
    """Before it was fenced or quarantined, or shut down for its switchover."""
    if subject.env.journal.started_with_its_host(subject.name):
        return True
    for episode in subject.env.journal.history(subject.name):
        if episode.request.back and episode.outcome is Outcome.DONE:
            # What was said before that has been seen to.
            break
        for record in episode.steps:
            if isinstance(record.evidence, Fenced | ShutDown) and record.evidence.starts_with_host:
                return True
    return False
