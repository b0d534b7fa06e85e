"""The steps of a failover on the real world, for one service. Each looks before it acts, and returns its proof."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from vcrecovery.core.domain import DomainReading
from vcrecovery.core.fence_tries import may_power_off, must_look_again, was_away
from vcrecovery.core.power import OFF, Power
from vcrecovery.core.sentences import listed
from vcrecovery.core.sighting import OffTime, Place, ran_for
from vcrecovery.core.states import Episode, Policy, Step, Symptom
from vcrecovery.drivers.lxd import Instance, TryAgainError
from vcrecovery.drivers.lxd.instances import STOPPED
from vcrecovery.drivers.probe import Result
from vcrecovery.drivers.runtime import ask
from vcrecovery.errors import ExternalError, RefusedError, VCRecoveryError
from vcrecovery.operations import records, virtual_address
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.host_fence import fence_host
from vcrecovery.standby.container import ACTIVE, EPOCH_KEY, READY_KEY, ROLE_KEY, STANDBY, settle
from vcrecovery.standby.promote import promote
from vcrecovery.store.lock import after_acts
from vcrecovery.transfer.freshness import Freshness, from_the_future, read_age
from vcrecovery.transfer.sessions import end_sessions, take_over

if TYPE_CHECKING:
    from concurrent.futures import Future

    from vcrecovery.core.cpu import CpuSample
    from vcrecovery.drivers.libvirt import LibvirtHost

#: Seconds between the two readings that say how much CPU a VM uses now.
USED_OVER = 1.0
#: Seconds for killed processes to be gone.
SESSIONS_END_WITHIN = 10.0
#: Seconds for a restore point that is being made to be finished.
RESTORE_POINT_ENDS_WITHIN = 60.0
#: Seconds for which what was read or seen counts for the next step, so that it is not asked for again.
JUST_NOW = 3.0
#: Seconds by which its primary's ports may have been asked before the confirmation.
ASKED_AHEAD = 1.5


def policy_for(env: Environment, name: str) -> Policy:
    service = env.plan.services[name]
    detection = env.plan.detection
    return Policy(
        max_staleness=service.max_staleness,
        has_dns=bool(service.dns or service.virtual_ip),
        cpu_high=detection.cpu_high,
        cpu_high_for=detection.cpu_high_for,
        cpu_zero_for=detection.cpu_zero_for,
        host_silent_for=detection.host_silent_for,
        cool_down=detection.cool_down,
        stalled_for=detection.stalled_for,
    )


@dataclass(frozen=True)
class Ages:
    """Of a standby's files, and of its newest heartbeat, in seconds; None when not known, which `detail` explains."""

    files: float | None
    heard: float | None
    detail: str = ""


def ages_of(fresh: Freshness, *, began_at: float, noticed_at: float, now: float, off: Sequence[OffTime] = ()) -> Ages:
    """How old the files were when the failure began, and how long before it was noticed a heartbeat was heard.

    While the primary was `off` it wrote nothing: that time does not count. A heartbeat from the future says nothing
    about either: a clock was set, and nobody knows which one is right.
    """
    if why := from_the_future(fresh, now):
        return Ages(None, None, why)
    # What the failure can have cost is counted up to when it began, not up to now.
    files = None if fresh.synced_through is None else ran_for(fresh.synced_through, began_at, off)
    heard = None if fresh.heard_at is None else max(0.0, noticed_at - fresh.heard_at)
    return Ages(files, heard, fresh.detail)


class Outside:
    """Acts for service `name` of the plan."""

    def __init__(self, env: Environment, name: str) -> None:
        self._env = env
        self._name = name
        self._service = env.plan.services[name]
        self._secondary = env.plan.secondaries[self._service.standby.secondary]
        #: Where the primary was found at the newest look.
        self._place: Place | None = None
        self._lxd = env.lxd[self._service.standby.secondary]
        #: By the steady clock: when the container was read, and as what; when it was started.
        self._read: tuple[float, Instance | None] | None = None
        self._started_at: float | None = None
        #: The same for what its primary's ports were asked, ahead of the step.
        self._asked: tuple[float, Future[list[Result]]] | None = None

    @cached_property
    def _names(self) -> list[records.Name]:
        return records.names_of(self._env, self._service)

    def epoch_elsewhere(self) -> int:
        # The confirmation comes next. A dead primary's ports take their whole timeout, and LXD's first answer as long.
        self._asked = (self._env.clock.steady(), self._ask_ports())
        # One that does not answer is reported by the step that needs it.
        found = [0]
        with contextlib.suppress(ExternalError):
            instance = self._read_instance()
            found.append(int(instance.config.get(EPOCH_KEY) or 0) if instance else 0)
        return max(*found, records.newest_epoch(self._names))

    def restore_problem(self, episode: Episode) -> str:
        return self._restore_point(episode)[0]

    def carry_out(self, step: Step, episode: Episode) -> Mapping[str, Any]:
        match step:
            case Step.CONFIRM:
                return self._confirm(episode)
            case Step.FENCE:
                return self._fence(episode)
            case Step.RESTORE:
                with self._container(episode):
                    return self._restore(episode)
            case Step.START:
                with self._container(episode):
                    return self._start(episode)
            case Step.PROBE:
                return self._probe()
            case Step.SWITCH:
                return self._switch(episode)
            case Step.VERIFY:
                return self._verify()

    def _container(self, episode: Episode) -> contextlib.AbstractContextManager[None]:
        """Its keeper is waited for, but not for longer than the fence counts."""
        patience, fence = self._service.timeouts.start, episode.done(Step.FENCE)
        if fence is not None and fence.ended_at is not None:
            age = max(0.0, self._env.clock.now() - fence.ended_at)
            patience = max(0.0, min(patience, policy_for(self._env, self._name).fence_valid_for - age))
        return after_acts(self._env.plan.state_dir, self._name, patience, self._env.clock)

    @property
    def _host(self) -> LibvirtHost:
        """The hypervisor that has the primary, as far as is known."""
        name = self._place.host if self._place is not None else self._env.whereabouts.home(self._name)
        return self._env.hosts[name]

    def _find_primary(self) -> Place:
        self._place = self._env.whereabouts.find(self._name)
        return self._place

    def _read_instance(self) -> Instance | None:
        found = self._lxd.get(self._name)
        self._read = (self._env.clock.steady(), found)
        return found

    def _just_read(self) -> Instance | None:
        """The container, if it was read so short a time ago that it need not be read again."""
        if self._read is None or self._env.clock.steady() - self._read[0] > JUST_NOW:
            return None
        return self._read[1]

    def _ask_ports(self) -> Future[list[Result]]:
        """Whether the primary's ports answer; asked in a thread of its own."""
        primary, timeout = str(self._service.primary.address), self._service.timeouts.confirm
        targets = [(primary, port) for port in self._service.ports]
        return ask(self._env.runtime, lambda: self._env.probes.ask_all(targets, timeout), f"ports of {self._name}")

    def _confirm(self, episode: Episode) -> dict[str, Any]:
        """Signals that do not depend on each other: what libvirt says now, whether the ports answer, and, where the
        CPU made us look, whether it still does what it did.
        """
        primary = str(self._service.primary.address)
        asked, self._asked = self._asked, None
        if asked is not None and self._env.clock.steady() - asked[0] <= ASKED_AHEAD:
            ports = asked[1]
        else:
            ports = self._ask_ports()
        runtime, symptom = self._env.runtime, episode.request.symptom
        standby = ask(runtime, lambda: self._look_at_standby(episode), f"standby of {self._name}")
        asks_cpu = symptom in (Symptom.CPU_ZERO, Symptom.CPU_HIGH)
        used = ask(runtime, self._used_now, f"CPU of {self._name}") if asks_cpu else None
        place = self._find_primary()
        reading = place.reading
        found, (trouble, fresh) = ports.result(), standby.result()
        cpu = used.result() if used is not None else None
        answering = [result.label for result in found if result.ok]
        unwell = [str(result) for result in found if result.reached and not result.ok]
        on_ports = f"{', '.join(answering)} answers" if answering else f"no port of {primary} answers"
        on_ports += "".join(f"; {text}" for text in unwell)
        ages = self._ages(episode, fresh)
        restore_problem, restore_age = self._restore_point(episode)
        fence_command = self._env.plan.hypervisors[self._host.name].fence is not None
        neighbours: tuple[str, ...] = ()
        if fence_command and reading.power is Power.UNREACHABLE:
            neighbours = self._env.neighbours.answering(self._host.name, besides=self._name)
        on_cpu = "" if cpu is None else f"; {cpu:.1f} % CPU"
        return {
            "restore_asked": episode.request.restore_point,
            "restore_problem": restore_problem,
            "restore_age": restore_age,
            "host": place.host,
            "power": reading.power.value,
            "reason": reading.reason,
            "detail": reading.detail,
            "starts_by_itself": reading.starts_by_itself,
            "also_on": list(place.also_on),
            "silent": list(place.silent),
            "vanished": reading.power is Power.ABSENT
            and (episode.cause.startswith("libvirt:") or episode.request.symptom in (Symptom.VM, Symptom.LOST)),
            "cpu": cpu,
            "heard": ages.heard,
            "fence_command": fence_command,
            "neighbours": list(neighbours),
            "open_ports": answering,
            "reached": [result.label for result in found if result.reached],
            "standby_problem": trouble,
            "freshness": ages.files,
            "freshness_detail": ages.detail,
            "summary": f"{place.host}: {reading}; {on_ports}{on_cpu}",
        }

    def _used_now(self) -> float | None:
        """Per cent of the primary's CPUs, over a second; only asked for when the CPU is why we look."""
        from vcrecovery.core.cpu import utilisation

        try:
            before = self._sample()
            self._env.clock.sleep(USED_OVER)
            after = self._sample()
        except ExternalError:
            return None
        return None if before is None or after is None else utilisation(before, after)

    def _sample(self) -> CpuSample | None:
        from vcrecovery.core.cpu import CpuSample

        uuid = str(self._service.primary.uuid)
        usage = self._host.usage([uuid]).get(uuid)
        return None if usage is None else CpuSample(self._env.clock.steady(), usage.cpu_time, usage.vcpus)

    def _look_at_standby(self, episode: Episode) -> tuple[str, Freshness]:
        """What is wrong with it, and how old it is; one after the other, since each connection costs a handshake."""
        problem = self._standby_problem(episode)
        try:
            return problem, read_age(self._lxd, self._name, self._secondary, partial(self._is_enough, episode))
        except ExternalError as error:
            if not problem and self._is_tried_again(episode):
                raise
            return problem, Freshness(None, error.message)

    def _is_tried_again(self, episode: Episode) -> bool:
        """Whether a confirmation that LXD does not answer fails, and is not refused.

        LXD may just be restarted, and nobody would call again: the primary is not touched, the step is tried again.
        One that is refused is given up.
        """
        return episode.request.automatic and not episode.tried(Step.FENCE)

    def _is_enough(self, episode: Episode, fresh: Freshness) -> bool:
        """Whether nothing newer could change the decision. That a guest hangs, a heartbeat of just now refutes."""
        if episode.request.symptom in (Symptom.CPU_ZERO, Symptom.CPU_HIGH):
            return False
        age = self._ages(episode, fresh).files
        return age is not None and age <= policy_for(self._env, self._name).max_staleness

    def _ages(self, episode: Episode, fresh: Freshness) -> Ages:
        began_at, now = episode.request.began_at, self._env.clock.now()
        if began_at is None:
            began_at = episode.opened_at - policy_for(self._env, self._name).noticed_after(episode.request.symptom)
        off = self._env.journal.off_times(self._name)
        return ages_of(fresh, began_at=began_at, noticed_at=episode.opened_at, now=now, off=off)

    def _standby_problem(self, episode: Episode) -> str:
        """Why there is nothing to fail over to; empty when there is. Asked before the primary is touched."""
        try:
            instance = self._just_read() or self._read_instance()
        except ExternalError as error:
            if self._is_tried_again(episode):
                raise
            return str(error)
        if instance is None:
            return f"secondary {self._lxd.name} has no container {self._name}; the role `secondary` makes it"
        if instance.config.get(READY_KEY) != "true":
            return f"the standby of {self._name} was never made ready; run the role `secondary`"
        if int(instance.config.get(EPOCH_KEY) or 0) > episode.epoch:
            return f"container {self._name} belongs to epoch {instance.config[EPOCH_KEY]}; look at its history"
        return ""

    def _fence(self, episode: Episode) -> dict[str, Any]:
        if episode.request.primary_is_down:
            return {"summary": f"on the word of {episode.request.by}", "by": "operator"}
        command = self._env.plan.hypervisors[self._host.name].fence
        asks = command is not None or was_away(episode.done(Step.CONFIRM))
        power = self._find_primary().reading.power if asks else None
        if power is Power.RUNNING and must_look_again(episode):
            raise ExternalError(
                f"hypervisor {self._host.name} answers again, and says that the primary is running",
                "call again: it is re-checked before any action",
            )
        if power is Power.UNREACHABLE:
            # Not always the one that it was on before.
            command = self._env.plan.hypervisors[self._host.name].fence
            if command is not None and self._may_power_off(episode):
                silent = partial(self._must_all_be_silent, episode)
                proof = fence_host(self._env, self._host.name, command, episode.opened_at, silent)
                return {**proof, "summary": "; ".join([proof["summary"], *self._destroy_copies()])}
        return self._destroy()

    def _must_all_be_silent(self, episode: Episode) -> None:
        """Libvirt may have taken its whole time since the ports were asked, and a network comes back piece by piece."""
        confirm = episode.done(Step.CONFIRM)
        if episode.request.force or episode.ever_fenced or confirm is None:
            return
        if 0 <= self._env.clock.now() - confirm.begun_at <= JUST_NOW:
            return
        host = self._host.name
        if answering := self._env.neighbours.answering(host):
            raise ExternalError(
                f"hypervisor {host} does not answer, but powering it off would end what does: {', '.join(answering)}",
                "call again: it is re-checked before any action",
            )

    def _may_power_off(self, episode: Episode) -> bool:
        silent_for, neighbours = self._env.plan.detection.host_silent_for, self._env.neighbours
        asked = partial(neighbours.answering, self._host.name, besides=self._name)
        return may_power_off(episode, self._env.clock.now(), silent_for, asked)

    def _destroy(self) -> dict[str, Any]:
        reading = self._destroy_on(self._host)
        # Only now: nothing that another hypervisor said before proves that it has no copy.
        copies = self._destroy_copies()
        if reading.power is Power.ABSENT or reading.reason == "migrated":
            self._refuse_one_that_went_on()
        summary = "; ".join([f"{self._host.name}: {reading}", *copies])
        return {"summary": summary, "by": "libvirt", "power": reading.power.value}

    def _destroy_copies(self) -> list[str]:
        """A migration that broke half-way may have left it on two hypervisors."""
        hosts, silent = self._env.whereabouts.copies(self._name, self._host.name)
        found = [f"{host}: {self._destroy_on(self._env.hosts[host])}" for host in hosts]
        return [*found, f"{listed(silent)} not asked: no answer"] if silent else found

    def _refuse_one_that_went_on(self) -> None:
        """Its hypervisor has no VM that could be ended: it may have left between the look and the fence."""
        was_on, place = self._host.name, self._find_primary()
        uuid = self._service.primary.uuid
        if place.reading.power in (Power.RUNNING, Power.PAUSED):
            raise ExternalError(f"VM {uuid} is on {place.host} now", "call again: it is fenced there")
        if place.reading.reason == "migrated":
            raise ExternalError(
                f"VM {uuid} was migrated from {was_on}: it may run elsewhere",
                "add the hypervisor that has it to the plan, then call again",
            )

    def _destroy_on(self, host: LibvirtHost) -> DomainReading:
        """Also keeps it from starting with that host."""
        uuid, clock = str(self._service.primary.uuid), self._env.clock
        deadline = clock.steady() + self._service.timeouts.fence
        host.destroy(uuid, self._service.timeouts.fence)
        while (reading := host.read(uuid)).power not in OFF | {Power.ABSENT}:
            if clock.steady() > deadline:
                raise ExternalError(
                    f"VM {uuid} is still {reading} on {host.name} after its destroy",
                    "end it by hand, then call again",
                )
            clock.sleep(0.05)
        return reading

    def _restore_point(self, episode: Episode) -> tuple[str, float | None]:
        """Why the restore point that was asked for cannot be had, and its age."""
        if (asked := episode.request.restore_point) is None:
            return "", None
        if not self._lxd.is_here:
            return f"secondary {self._lxd.name} is another machine: only there can its standbys be put back", None
        from vcrecovery.standby.restore_points import find, restore_points

        try:
            point = find(restore_points(self._lxd, self._name), self._name, asked)
        except VCRecoveryError as error:
            return error.message, None
        return "", self._env.clock.now() - point.taken_at

    def _restore(self, episode: Episode) -> dict[str, Any]:
        """Puts the standby back to its restore point. Done once more when it was cut short."""
        from vcrecovery.standby.restore_points import COPY_TIMEOUT, age_in_words, find, restore_points

        asked = episode.request.restore_point or ""
        point = find(restore_points(self._lxd, self._name), self._name, asked)
        instance = self._startable(episode)
        if instance.status != STOPPED and instance.config.get(ROLE_KEY) == STANDBY:
            # Nobody has used it yet.
            self._lxd.stop(self._name, self._service.timeouts.start)
        # It would not start by itself half-way: boot.autostart comes with the start.
        claim = {ROLE_KEY: ACTIVE, EPOCH_KEY: str(episode.epoch)}
        self._write_claim(episode, claim, self._nothing_to_lose)
        # LXD brings back the configuration of then, in which the standby takes files: none may come until that is over.
        with take_over(self._env.plan.state_dir, self._name, RESTORE_POINT_ENDS_WITHIN) as ended:
            self._lxd.restore(self._name, point.name, COPY_TIMEOUT)
            settle(self._env.plan, self._name, self._lxd, claim)
        age = max(0.0, self._env.clock.now() - point.taken_at)
        return {
            "summary": f"to {point.name}, {age_in_words(age)} old",
            "asked": asked,
            "restore_point": point.name,
            "age": age,
            "sessions_ended": ended,
        }

    def _nothing_to_lose(self, instance: Instance) -> None:
        if instance.status != STOPPED:
            raise ExternalError(
                f"container {self._name} is {instance.status.lower()}: a restore would throw away what it has written",
                f"if you want that: `lxc stop {self._name}`, then call again",
            )

    def _startable(self, episode: Episode, known: Instance | None = None) -> Instance:
        """The standby, if this episode may start it. `known`: as it was read a moment ago."""
        instance = known or self._read_instance()
        if instance is None:
            raise ExternalError(
                f"secondary {self._lxd.name} has no container {self._name}",
                "`vcrecovery standby apply` makes it, but its files must come from a sync",
            )
        if instance.config.get(READY_KEY) != "true":
            raise ExternalError(f"the standby of {self._name} was never made ready", "run the role `secondary`")
        if int(instance.config.get(EPOCH_KEY) or 0) > episode.epoch:
            raise RefusedError(
                f"container {self._name} belongs to epoch {instance.config[EPOCH_KEY]}; "
                f"this controller is at {episode.epoch}",
                "another controller has failed over since: look at its history",
            )
        return instance

    def _claim(self, episode: Episode) -> Instance:
        """Has the standby belong to this episode, if it may; as it was then."""
        claim = {ROLE_KEY: ACTIVE, EPOCH_KEY: str(episode.epoch), "boot.autostart": "true"}
        known = self._just_read()
        if known is not None and known.config.get(ROLE_KEY) == STANDBY:
            # That nothing has changed since is shown by the write, which comes with the ETag of that reading.
            with contextlib.suppress(TryAgainError, RefusedError):
                self._lxd.configure(self._startable(episode, known), claim)
                return known
        return self._write_claim(episode, claim)

    def _write_claim(
        self, episode: Episode, claim: Mapping[str, str], check: Callable[[Instance], None] = lambda _found: None
    ) -> Instance:
        """Sets these keys, if this episode may and `check` raises nothing; the container as it was then."""

        def read() -> Instance:
            instance = self._startable(episode)
            check(instance)
            return instance

        def missing(found: Instance) -> Mapping[str, str]:
            return claim if any(found.config.get(key) != value for key, value in claim.items()) else {}

        return self._lxd.reconfigure(read, missing)

    def _start(self, episode: Episode) -> dict[str, Any]:
        # From here on the receiver refuses files: a primary that comes back must not overwrite live data.
        instance = self._claim(episode)
        # Those that were let in before that would go on writing.
        ended = end_sessions(self._env.plan.state_dir, self._name, SESSIONS_END_WITHIN)
        how = promote(self._lxd, instance, self._service.timeouts.start)
        self._started_at = self._env.clock.steady()
        summary = f"container {self._name} on {self._lxd.name}: {how}"
        if ended:
            summary += f"; {ended} session{'s' if ended > 1 else ''} of its primary ended"
        return {"summary": summary, "was_running": instance.running, "sessions_ended": ended}

    def _probe(self) -> dict[str, Any]:
        started_at, self._started_at = self._started_at, None
        if started_at is None or self._env.clock.steady() - started_at > JUST_NOW:
            # It may have stopped since, or been frozen: such a one's ports go on accepting connections.
            self._lxd.start(self._name, self._service.timeouts.start)
        standby, timeouts = self._service.standby, self._service.timeouts
        addresses = [str(address) for address in (standby.address, standby.address6) if address]
        targets = [(address, port) for address in addresses for port in self._service.ports]
        results = self._env.probes.wait_for_all(targets, timeouts.ports, timeouts.settle)
        if closed := [str(result) for result in results if not result.ok]:
            raise ExternalError(
                f"the standby of {self._name} does not answer after {timeouts.ports:.0f} s: {'; '.join(closed)}; "
                "DNS was not changed",
                f"look inside with `lxc exec {self._name} -- systemctl --failed`, then call again",
            )
        return {"summary": ", ".join(result.label for result in results), "address": addresses[0]}

    def _switch(self, episode: Episode) -> dict[str, Any]:
        # DNS first: it knows whether another controller has a newer epoch. A server that is down holds nothing else up.
        try:
            before = records.switch(self._names, episode.epoch)
        except ExternalError:
            virtual_address.take(self._env, self._service)
            raise
        moved = virtual_address.take(self._env, self._service)
        named = [records.summary(self._names)] if self._names else []
        return {"summary": "; ".join([*named, *moved]), "before": before}

    def _verify(self) -> dict[str, Any]:
        # It may have gone since, with a restart of this machine.
        virtual_address.keep(self._env, self._service)
        servers = records.verify(self._names, self._service.timeouts.dns)
        return {"summary": f"on {', '.join(servers) or 'this machine'}"}
