"""Boot: the VM runs, starts none of its services, and asks for its orders."""

from __future__ import annotations

import platform

from vcrecovery.core.episode import Episode
from vcrecovery.core.evidence import Booted
from vcrecovery.core.power import OFF, Power
from vcrecovery.errors import ExternalError, RefusedError
from vcrecovery.operations.serving import standby_runs
from vcrecovery.operations.steps.confirm import ask_ports
from vcrecovery.operations.steps.shut_down import shut_down
from vcrecovery.operations.steps.subject import Subject
from vcrecovery.operations.vm_orders import Given, Order, Report
from vcrecovery.primary.system_name import system_of
from vcrecovery.store.quarantines import QuarantineBook, quarantine_lock
from vcrecovery.transfer.standby_files import reader

#: Seconds for a VM to boot and to ask.
WITHIN = 600.0
#: One whose ports answer for so long, and that does not ask, serves.
SERVES_AFTER = 30.0
LOOK_EVERY = 0.5
LOOK_AT_THE_PORTS_EVERY = 5.0
#: The secondary holds an answer back for 20 s at most; seconds.
ASKS_WITHIN = 30.0
_AT_MOST = 8192


def boot(subject: Subject, episode: Episode) -> Booted:
    """Raises ExternalError when the VM does not ask, or serves: then it is ended. RefusedError for another system."""
    orders, name = subject.env.vm_orders, subject.name
    given = orders.given(name)
    report = orders.report(name, given) if given is not None and given.epoch == episode.epoch else None
    runs = subject.find_primary().reading.power is Power.RUNNING
    # In the middle of a pass it says nothing.
    if not (runs and given and report and (given.order is not Order.HOLD or _is_fresh(subject, report))):
        given = orders.begin(name, episode.epoch)
        if runs and episode.request.rebuilt:
            shut_down(subject)
        _have_it_run(subject)
        report = _wait(subject, given)
    _refuse_another_system(subject, report)
    return Booted(f"{subject.host.name}: VM is up, and starts no service ({report.system})", report.boot, report.system)


def is_up(subject: Subject) -> None:
    """Raises ExternalError when the VM does not run any more."""
    reading = subject.find_primary().reading
    if reading.power is not Power.RUNNING:
        raise ExternalError(f"VM {subject.uuid} is {reading} on {subject.host.name}", "see its console")


def standby_is_up(subject: Subject, *, as_far_as_lxd_says: bool = False) -> None:
    """Raises ExternalError when it has ended: nobody brings it up while we wait for the VM.

    `as_far_as_lxd_says`: an LXD that does not answer is no such end.
    """
    try:
        if standby_runs(subject.env, subject.name):
            return
    except ExternalError:
        if as_far_as_lxd_says:
            return
        raise
    raise ExternalError(
        f"the standby of {subject.name}, which serves, has ended",
        f"a running `vcrecovery watch` brings it up, or `vcrecovery failover {subject.name}`; then run it again",
    )


def _is_fresh(subject: Subject, report: Report) -> bool:
    """By two clocks, where its secondary is another machine: one that is wrongly none is only asked for again."""
    return 0 <= subject.env.clock.now() - report.at <= ASKS_WITHIN


def _have_it_run(subject: Subject) -> None:
    uuid, env, name = subject.uuid, subject.env, subject.name
    power, host = subject.find_one_to_start().reading.power, subject.host
    if power is Power.PAUSED:
        # What it did before it was paused, nobody knows: its services may run.
        host.destroy(uuid, subject.service.timeouts.fence)
    if power in OFF or power is Power.PAUSED:
        # One whose memory was saved would not ask who serves: its services would go on beside the standby.
        host.start(uuid, with_host=False, anew=True)
    elif power is not Power.RUNNING:
        raise ExternalError(f"VM {uuid} is {power} on {host.name}", "see its console, then run it again")
    book = QuarantineBook(env.journal)
    with quarantine_lock(env.plan.state_dir, name, clock=env.clock):
        for quarantine in book.all_open(name):
            book.release(quarantine.id, env.clock.now(), "it goes back to its VM, which was booted anew")


def _wait(subject: Subject, given: Given) -> Report:
    clock, orders = subject.env.clock, subject.env.vm_orders
    begun, answered_since = clock.steady(), None
    look_at = begun
    while True:
        if (report := orders.report(subject.name, given)) is not None:
            return report
        now = clock.steady()
        if now >= look_at:
            look_at = now + LOOK_AT_THE_PORTS_EVERY
            is_up(subject)
            standby_is_up(subject)
            serves = all(result.ok for result in ask_ports(subject)())
            answered_since = (now if answered_since is None else answered_since) if serves else None
            if answered_since is not None and now - answered_since >= SERVES_AFTER:
                _end_one_that_serves(subject)
        if now - begun > WITHIN:
            raise ExternalError(
                f"VM {subject.uuid} runs, and has not asked for {WITHIN:.0f} s who serves",
                f"see its console, and run the role `primary`; `--into {subject.uuid}` boots it anew",
            )
        clock.sleep(LOOK_EVERY)


def _end_one_that_serves(subject: Subject) -> None:
    subject.host.destroy(subject.uuid, subject.service.timeouts.fence)
    raise ExternalError(
        f"the VM of {subject.name} serves beside its standby: it was destroyed, its standby serves on",
        "it does not ask at its boot who serves: disable its services, run the role `primary`, then run it again",
    )


def _refuse_another_system(subject: Subject, report: Report) -> None:
    lxd = subject.lxd
    read = reader(lxd, subject.name, subject.secondary, _AT_MOST)
    found = read("/usr/lib/os-release") or read("/etc/os-release")
    if found is None or not report.system:
        return
    machine = platform.machine() if lxd.is_here else lxd.kernel().architecture
    standby = system_of(found.decode("utf-8", "replace"), machine)
    if standby != report.system:
        raise RefusedError(
            f"the VM of {subject.name} runs {report.system}, its standby {standby}: nothing was copied",
            "install the standby's distribution in the VM, or fail back by hand",
        )
