"""Looks at services: the journal, their hypervisors, secondaries and DNS servers, all at once and within a time."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from vcrecovery.core.domain import DomainReading
from vcrecovery.core.drill import NO_DRILLS
from vcrecovery.core.failback import kept_by, kept_until
from vcrecovery.core.health import Answers, Course, Health, Outage, after
from vcrecovery.core.meaning import Meaning
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import ServiceState, Side
from vcrecovery.core.sighting import Place, ran_for
from vcrecovery.core.standby_end import StandbyEnd
from vcrecovery.core.verdict import Circumstances, Verdict, judge, with_health
from vcrecovery.detect.primaries import UNWATCHED_AFTER
from vcrecovery.errors import ExternalError
from vcrecovery.operations import virtual_address
from vcrecovery.operations.environment import Environment, place_of_disk
from vcrecovery.operations.records import Name, names_of
from vcrecovery.operations.serving import targets
from vcrecovery.plan.model import Spare
from vcrecovery.plan.on_demand import is_on_demand
from vcrecovery.plan.records import VirtualAddress
from vcrecovery.report.query_pool import Pending, QueryPool
from vcrecovery.report.view import (
    OFF_ON_DEMAND,
    KeptView,
    NameView,
    PlanView,
    PoolView,
    ServerView,
    ServiceView,
    SpareView,
    StandbyView,
)
from vcrecovery.standby.container import ACTIVE, ROLE_KEY, epoch_of, has_gone_back
from vcrecovery.standby.copies import copied, is_whole
from vcrecovery.standby.modes import ChosenModes, refreshed
from vcrecovery.store.drills import DrillBook
from vcrecovery.store.lock import Holder
from vcrecovery.store.outages import OutageBook
from vcrecovery.store.quarantines import QuarantineBook
from vcrecovery.store.standby_ends import StandbyEnds
from vcrecovery.store.zone_book import NOT_TRIED, Tried, ZoneBook
from vcrecovery.transfer.freshness import from_the_future, read_freshness_quietly

if TYPE_CHECKING:
    from vcrecovery.drivers.dns import Server

#: Seconds for everything that is asked.
WITHIN = 5.0
#: Seconds for a probe of the side that serves, whatever the plan gives it: some of WITHIN is left to say so.
PROBE_WITHIN = 3.0
#: So many services' ports, times the QueryPool's threads for each lane, are asked at the same time.
PORT_LANES = 48
T = TypeVar("T")


class _Patience:
    """How long the answers may still take, all together."""

    def __init__(self, within: float, steady: Callable[[], float]) -> None:
        self._within, self._steady = within, steady
        self._until = steady() + within

    def wait(self, question: Pending[T], who: str) -> T:
        try:
            return question.answer(self._until - self._steady())
        except ExternalError as error:
            if question.ended:
                raise
            raise ExternalError(f"{who} did not answer within {self._within:g} s") from error


def look(
    env: Environment,
    names: Sequence[str],
    asker: QueryPool,
    within: float = WITHIN,
    *,
    courses: Mapping[str, Course] | None = None,
) -> list[ServiceView]:
    """What is known of these services. Whatever does not answer within so many seconds is said not to.

    `courses`: whether each of them answers, if somebody asks all the time; else they are asked now. Raises
    ExternalError when the journal cannot be used.
    """
    patience = _Patience(within, env.clock.steady)
    env.place_standbys()
    outages = OutageBook(env.journal).going_on()
    known = {} if courses is None else dict(courses)
    ends, drills = StandbyEnds(env.journal).all(), DrillBook(env.journal).all()
    tried = ZoneBook(env.plan.state_dir).read(env.clock.now())
    questions = [
        _Questions(env, name, asker, outages.get(name), known.get(name), ends.get(name), tried) for name in names
    ]
    views = [question.answered(patience) for question in questions]
    return [replace(view, drills=drills.get(view.name, NO_DRILLS)) for view in views]


class _Questions:
    """What is asked for one service."""

    def __init__(
        self,
        env: Environment,
        name: str,
        asker: QueryPool,
        outage: Outage | None,
        course: Course | None,
        end: StandbyEnd | None,
        tried: Mapping[str, Tried],
    ) -> None:
        self._env, self._name = env, name
        self._outage, self._course, self._end = outage, course, end
        self._state = env.journal.state(name)
        service = env.plan.services[name]
        host, secondary = env.whereabouts.home(name), service.standby.secondary
        self._host, self._secondary = host, secondary
        self._off = env.journal.off_times(name)
        self._power = asker.ask(("hypervisor", host), name, self._read_power)
        self._standby = asker.ask(("secondary", secondary), name, self._read_standby)
        spare = service.standby.spare if self._state.side is Side.STANDBY else None
        self._spare = (
            asker.ask(
                ("secondary", spare.secondary), ("spare", name), partial(_read_spare, env, name, spare, self._state)
            )
            if spare is not None
            else None
        )
        # One question for all that lie in it.
        pool = env.plan.secondaries[secondary].storage_pool
        self._pool = asker.ask(("secondary", secondary), ("pool", pool), partial(_read_pool, env, secondary, pool))
        self._tried = tried
        # A lane for each server: one that hangs delays nobody who asks the others.
        self._names = {
            name: {
                server: asker.ask(("zone", name.zone.name, server), name.text, partial(_values, name, server))
                for server in name.zone.servers
            }
            for name in names_of(env, service, self._state.side)
        }
        serves_at_one = self._state.side is Side.STANDBY and service.virtual_ip is not None
        ask_here = partial(virtual_address.is_here, env, service)
        self._address = asker.ask(("addresses",), name, ask_here) if serves_at_one else None
        lane = ("ports", zlib.crc32(name.encode()) % PORT_LANES)
        self._ports = asker.ask(lane, name, self._read_ports) if course is None else None

    def _read_power(self) -> Place:
        return self._env.whereabouts.find(self._name)

    def _read_standby(self) -> StandbyView:
        lxd, name = self._env.lxd[self._secondary], self._name
        instance = lxd.get(name)
        if instance is None:
            return StandbyView("missing", f"secondary {lxd.name} has no container {name}")
        fresh = read_freshness_quietly(lxd, name, self._env.plan.secondaries[self._secondary])
        now = self._env.clock.now()
        ahead = from_the_future(fresh, now)
        age = None if ahead or fresh.synced_through is None else ran_for(fresh.synced_through, now, self._off)
        since = refreshed(instance)
        return StandbyView(
            OFF_ON_DEMAND if self._is_off_on_demand else instance.status.lower(),
            ahead or fresh.detail,
            age,
            fresh,
            instance.started_at,
            None if since is None else since.since,
            self._read_kept(),
            client=lxd.client,
            serves_at=epoch_of(instance) if instance.config.get(ROLE_KEY) == ACTIVE else None,
            has_gone_back=has_gone_back(instance, self._state.epoch),
        )

    @property
    def _is_off_on_demand(self) -> bool:
        env, name = self._env, self._secondary
        return is_on_demand(env.plan.secondaries[name]) and env.is_mounted(place_of_disk(env.plan, name).disk)

    def _read_kept(self) -> KeptView | None:
        """By its newest failback; LXD is asked only where the journal knows of one that has kept something."""
        for failback in self._env.journal.failbacks(self._name, 1):
            kept, until = kept_by(failback), kept_until(failback)
            if kept is None or until is None:
                continue
            if kept.restore_point in self._env.lxd[self._secondary].snapshots(self._name):
                return KeptView(kept.restore_point, until)
        return None

    def _read_ports(self) -> Answers:
        clock, service = self._env.clock, self._env.plan.services[self._name]
        at, begun = clock.now(), clock.steady()
        found = self._env.probes.ask_patiently(targets(service, self._state.side), PROBE_WITHIN)
        return Answers(at, clock.steady() - begun, {result.label: result.reason for result in found})

    def answered(self, patience: _Patience) -> ServiceView:
        env, name = self._env, self._name
        try:
            place = patience.wait(self._power, f"hypervisor {self._host}")
        except ExternalError as error:
            place = Place(self._host, DomainReading(Power.UNREACHABLE, detail=error.message))
        reading = place.reading
        try:
            standby = patience.wait(self._standby, env.lxd[self._secondary].called)
        except ExternalError as error:
            standby = StandbyView("unreachable", error.message, hint=error.hint)
        with contextlib.suppress(ExternalError):
            # Last of all: what is not known of the pool is no reason to show less of the standby.
            standby = replace(standby, pool=patience.wait(self._pool, env.lxd[self._secondary].called))
        names = tuple(self._name_view(name, patience) for name in self._names)
        course, ports = self._health(patience)
        # A failover may have gone on meanwhile: what the journal says now is what holds.
        state, now = env.journal.state(name), env.clock.now()
        return ServiceView(
            name=name,
            at=now,
            plan=_of_plan(env, name, place.host),
            state=state,
            reading=reading,
            verdict=with_health(_verdict(env, state, place, now), state, course),
            standby=standby,
            names=names,
            has_address=self._has_address(patience),
            last=state.open_episode or next(iter(env.journal.history(name, 1)), None),
            done=env.journal.newest_done(name),
            holder=holder(env.plan.state_dir, name),
            course=course,
            ports=ports,
            quarantine=QuarantineBook(env.journal).open(name),
            end=self._end if self._end is not None and self._end.epoch == state.epoch else None,
            spare=self._spare_view(patience),
            no_place=(misplaced.message, misplaced.hint) if (misplaced := env.misplaced.get(name)) is not None else (),
        )

    def _has_address(self, patience: _Patience) -> bool | None:
        """None also where this user, or this machine, cannot tell."""
        if self._address is None:
            return None
        try:
            return patience.wait(self._address, "netfilter")
        except ExternalError:
            return None

    def _spare_view(self, patience: _Patience) -> SpareView | None:
        spare = self._env.plan.services[self._name].standby.spare
        if self._spare is None or spare is None:
            return None
        try:
            return patience.wait(self._spare, self._env.lxd[spare.secondary].called)
        except ExternalError as error:
            return SpareView(spare.secondary, "unreachable", spare.every, detail=error.message)

    def _health(self, patience: _Patience) -> tuple[Course, dict[str, str] | None]:
        """Whether it answers, and what each of its ports said where they were asked now."""
        if self._ports is None:
            return self._course or Course(), None
        try:
            said = patience.wait(self._ports, "its ports")
        except ExternalError:
            return Course(), None
        silent = {label: reason for label, reason in said.silent.items() if reason}
        answers = replace(said, silent=silent)
        if silent:
            since = self._outage.began_at if self._outage is not None else None
            return Course(Health.DOWN, since, answers.why), dict(said.silent)
        return after(Course(), answers, self._env.plan.detection.slow_after), dict(said.silent)

    def _name_view(self, name: Name, patience: _Patience) -> NameView:
        first, *others = self._names[name].items()
        wanted = tuple(sorted(change.wanted for change in name.changes))
        found, detail = _waited(patience, first[1], "its DNS server")
        views = [ServerView(str(server), *_waited(patience, asked, f"DNS server {server}")) for server, asked in others]
        tried = self._tried.get(name.text, NOT_TRIED)
        return NameView(name.text, found, wanted, detail, tuple(views), tried)


def _read_spare(env: Environment, name: str, spare: Spare, state: ServiceState) -> SpareView:
    lxd = env.lxd[spare.secondary]
    found = lxd.get(name)
    if found is None:
        return SpareView(spare.secondary, "missing", spare.every)
    last = copied(found)
    at = last.at if last is not None and last.epoch == state.epoch else None
    why = ""
    if at is None:
        from vcrecovery.standby.restore_points import gone_with_a_copy  # nearly all have a copy

        why = gone_with_a_copy(lxd, name)
    return SpareView(spare.secondary, found.status.lower(), spare.every, at, is_whole(found), why, lxd.client)


def _read_pool(env: Environment, secondary: str, pool: str) -> PoolView:
    return PoolView(pool, *env.lxd[secondary].pool_space(pool))


def _waited(patience: _Patience, question: Pending[tuple[str, ...]], who: str) -> tuple[tuple[str, ...] | None, str]:
    """What a name server has said, or None and why it has not."""
    try:
        return patience.wait(question, who), ""
    except ExternalError as error:
        return None, error.message


def _values(name: Name, server: Server) -> tuple[str, ...]:
    """What the server says of the name, for the types that follow the service."""
    reading = name.zone.read_unmarked(server, name.text, name.kinds)
    return (f"{reading.alias} (an alias)",) if reading.alias else tuple(reading.all_values)


def _verdict(env: Environment, state: ServiceState, place: Place, now: float) -> Verdict:
    reading, detection = place.reading, env.plan.detection
    stalled = now - state.seen.since if state.seen is not None and state.seen.meaning is Meaning.STALLED else 0.0
    also = Circumstances(
        stalled=stalled,
        stalled_for=detection.stalled_for,
        starting=reading.starts_by_itself if state.open_episode is None else "",
        maybe_on=place.silent if state.seen is None or now - state.seen.at > UNWATCHED_AFTER else (),
    )
    return judge(state, reading.power, reading.reason, now, cool_down=detection.cool_down, also=also)


def _of_plan(env: Environment, name: str, host: str) -> PlanView:
    service = env.plan.services[name]
    native, chosen = service.sync.consistency, _chosen_mode(env, name)
    return PlanView(
        hypervisor=host,
        site=env.plan.hypervisors[host].site,
        secondary=service.standby.secondary,
        mode=chosen or service.mode.value,
        chosen_mode=chosen,
        refresh_every=service.refresh.every,
        uuid=str(service.primary.uuid),
        primary_address=str(service.primary.address),
        standby_address=str(service.standby.address),
        max_staleness=service.max_staleness,
        has_dns=bool(service.dns or service.virtual_ip),
        dns_within=service.timeouts.dns,
        virtual_ip=_of_address(service.virtual_ip),
        cool_down=env.plan.detection.cool_down,
        replicated_by=dict.fromkeys(native.paths, native.by) if native.kind == "native" else {},
        drill_every=service.drill.every,
    )


def _chosen_mode(env: Environment, name: str) -> str:
    """What `standby set` has chosen in place of the plan's; empty where it has not."""
    try:
        chosen = ChosenModes(env.plan.state_dir).read(name)
        return "" if chosen is None else chosen.value
    except ExternalError:
        return "not known"


def _of_address(wanted: VirtualAddress | None) -> str:
    return "" if wanted is None else f"{wanted.address.ip} on {wanted.interface}"


def holder(state_dir: Path, service: str) -> str:
    """`process 123`, if a controller is at work on the service.

    The lock itself is not touched: who tried it, however shortly, could stand in a controller's way.
    """
    try:
        found = Holder.read((state_dir / "locks" / f"{service}.lock").read_bytes())
    except OSError:
        return ""
    return str(found) if found and not found.brief and Path("/proc", str(found.process)).exists() else ""
