"""The steps of a failover on the real world, for one service. Each looks before it acts, and returns its proof."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from vcrecovery.drivers.libvirt import DomainReading
from vcrecovery.drivers.lxd import Instance
from vcrecovery.drivers.lxd.instances import STOPPED
from vcrecovery.drivers.probe import open_ports, wait_for_ports
from vcrecovery.errors import OutsideError, RefusedError, VCRecoveryError
from vcrecovery.recover.states import OFF, Episode, Policy, Power, Step
from vcrecovery.recover.world import World
from vcrecovery.sync.freshness import read_freshness_quietly
from vcrecovery.sync.promote import promote
from vcrecovery.sync.restore_points import COPY_TIMEOUT, age_in_words, find, restore_points
from vcrecovery.sync.sessions import end_sessions, take_over
from vcrecovery.sync.standby import ACTIVE, EPOCH_KEY, READY_KEY, ROLE_KEY, STANDBY, settle

#: Seconds for killed processes to be gone.
SESSIONS_END_WITHIN = 10.0
#: Seconds for a restore point that is being made to be finished.
RESTORE_POINT_ENDS_WITHIN = 60.0


def policy_for(world: World, name: str) -> Policy:
    service = world.plan.services[name]
    return Policy(max_staleness=service.max_staleness, has_dns=bool(service.dns))


class Outside:
    """Acts for service `name` of the plan."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name
        self._service = world.plan.services[name]
        self._secondary = world.plan.secondaries[self._service.standby.secondary]
        self._host = world.hosts[self._service.primary.hypervisor]
        self._lxd = world.lxd[self._service.standby.secondary]
        self._ports = [port.tcp for port in self._service.ports]

    def epoch_elsewhere(self) -> int:
        # One that does not answer is reported by the step that needs it.
        found = [0]
        with contextlib.suppress(OutsideError):
            instance = self._lxd.get(self._name)
            found.append(int(instance.config.get(EPOCH_KEY) or 0) if instance else 0)
        for record in self._service.dns:
            zone = self._world.zones[record.zone]
            with contextlib.suppress(OutsideError):
                found.append(zone.read(zone.servers[0], record.name).epoch)
        return max(found)

    def carry_out(self, step: Step, episode: Episode) -> Mapping[str, Any]:
        match step:
            case Step.CONFIRM:
                return self._confirm(episode)
            case Step.FENCE:
                return self._fence(episode)
            case Step.RESTORE:
                return self._restore(episode)
            case Step.START:
                return self._start(episode)
            case Step.PROBE:
                return self._probe()
            case Step.SWITCH:
                return self._switch(episode)
            case Step.VERIFY:
                return self._verify()

    def _read_primary(self) -> DomainReading:
        try:
            return self._host.read(str(self._service.primary.uuid))
        except OutsideError as error:
            return DomainReading(Power.UNREACHABLE, detail=str(error))

    def _confirm(self, episode: Episode) -> dict[str, Any]:
        """Two signals that do not depend on each other: what libvirt says now, and whether the ports answer."""
        primary = str(self._service.primary.address)
        with ThreadPoolExecutor(max_workers=3) as pool:
            ports = pool.submit(open_ports, primary, self._ports, self._service.timeouts.confirm)
            problem = pool.submit(self._standby_problem, episode)
            freshness = pool.submit(read_freshness_quietly, self._lxd, self._name, self._secondary)
            reading = self._read_primary()
            found, fresh, trouble = ports.result(), freshness.result(), problem.result()
        answering = [f"{primary}:{port}" for port in found]
        on_ports = f"{', '.join(answering)} answers" if answering else f"no port of {primary} answers"
        # What the failure can have cost is counted up to when it was seen, not up to now.
        age = None if fresh.stamped_at is None else max(0.0, episode.opened_at - fresh.stamped_at)
        restore_problem, restore_age = self._restore_point(episode)
        return {
            "restore_asked": episode.request.restore_point,
            "restore_problem": restore_problem,
            "restore_age": restore_age,
            "power": reading.power.value,
            "reason": reading.reason,
            "detail": reading.detail,
            "vanished": reading.power is Power.ABSENT and episode.cause.startswith("libvirt:"),
            "open_ports": answering,
            "standby_problem": trouble,
            "freshness": age,
            "freshness_detail": fresh.detail,
            "summary": f"{self._host.name}: {reading}; {on_ports}",
        }

    def _standby_problem(self, episode: Episode) -> str:
        """Why there is nothing to fail over to; empty when there is. Asked before the primary is touched."""
        try:
            instance = self._lxd.get(self._name)
        except OutsideError as error:
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
        uuid, clock = str(self._service.primary.uuid), self._world.clock
        deadline = clock.now() + self._service.timeouts.fence
        self._host.destroy(uuid)
        while (reading := self._host.read(uuid)).power not in OFF | {Power.ABSENT}:
            if clock.now() > deadline:
                raise OutsideError(
                    f"VM {uuid} is still {reading} on {self._host.name} after its destroy",
                    "end it by hand, then call again",
                )
            clock.sleep(0.05)
        return {"summary": f"{self._host.name}: {reading}", "by": "libvirt", "power": reading.power.value}

    def _restore_point(self, episode: Episode) -> tuple[str, float | None]:
        """Why the restore point that was asked for cannot be had, and its age."""
        if (asked := episode.request.restore_point) is None:
            return "", None
        if not self._lxd.is_here:
            return f"secondary {self._lxd.name} is another machine: only there can its standbys be put back", None
        try:
            point = find(restore_points(self._lxd, self._name), self._name, asked)
        except VCRecoveryError as error:
            return error.message, None
        return "", self._world.clock.now() - point.taken_at

    def _restore(self, episode: Episode) -> dict[str, Any]:
        """Puts the standby back to its restore point. Done once more when it was cut short."""
        asked = episode.request.restore_point or ""
        point = find(restore_points(self._lxd, self._name), self._name, asked)
        instance = self._startable(episode)
        if instance.status != STOPPED and instance.config.get(ROLE_KEY) == STANDBY:
            # Nobody has used it yet.
            self._lxd.stop(self._name, self._service.timeouts.start)
            instance = self._startable(episode)
        if instance.status != STOPPED:
            raise OutsideError(
                f"container {self._name} is {instance.status.lower()}: a restore would throw away what it has written",
                f"if you want that: `lxc stop {self._name}`, then call again",
            )
        # It would not start by itself half-way: boot.autostart comes with the start.
        claim = {ROLE_KEY: ACTIVE, EPOCH_KEY: str(episode.epoch)}
        if any(instance.config.get(key) != value for key, value in claim.items()):
            self._lxd.configure(instance, claim)
        # LXD brings back the configuration of then, in which the standby takes files: none may come until that is over.
        with take_over(self._world.plan.state_dir, self._name, RESTORE_POINT_ENDS_WITHIN) as ended:
            self._lxd.restore(self._name, point.name, COPY_TIMEOUT)
            settle(self._world.plan, self._name, self._lxd, claim)
        age = max(0.0, self._world.clock.now() - point.taken_at)
        return {
            "summary": f"to {point.name}, {age_in_words(age)} old",
            "asked": asked,
            "restore_point": point.name,
            "age": age,
            "sessions_ended": ended,
        }

    def _startable(self, episode: Episode) -> Instance:
        """The standby, if this episode may start it."""
        instance = self._lxd.get(self._name)
        if instance is None:
            raise OutsideError(
                f"secondary {self._lxd.name} has no container {self._name}",
                "`vcrecovery standby apply` makes it, but its files must come from a sync",
            )
        if instance.config.get(READY_KEY) != "true":
            raise OutsideError(f"the standby of {self._name} was never made ready", "run the role `secondary`")
        if int(instance.config.get(EPOCH_KEY) or 0) > episode.epoch:
            raise RefusedError(
                f"container {self._name} belongs to epoch {instance.config[EPOCH_KEY]}; "
                f"this controller is at {episode.epoch}",
                "another controller has failed over since: look at its history",
            )
        return instance

    def _start(self, episode: Episode) -> dict[str, Any]:
        instance = self._startable(episode)
        # From here on the receiver refuses files: a primary that comes back must not overwrite live data.
        claim = {ROLE_KEY: ACTIVE, EPOCH_KEY: str(episode.epoch), "boot.autostart": "true"}
        if any(instance.config.get(key) != value for key, value in claim.items()):
            self._lxd.configure(instance, claim)
        # Those that were let in before that would go on writing.
        ended = end_sessions(self._world.plan.state_dir, self._name, SESSIONS_END_WITHIN)
        how = promote(self._lxd, self._name, self._service.timeouts.start)
        summary = f"container {self._name} on {self._lxd.name}: {how}"
        if ended:
            summary += f"; {ended} session{'s' if ended > 1 else ''} of its primary ended"
        return {"summary": summary, "was_running": instance.running, "sessions_ended": ended}

    def _probe(self) -> dict[str, Any]:
        # It may have stopped since it was started.
        self._lxd.start(self._name, self._service.timeouts.start)
        address, timeout = str(self._service.standby.address), self._service.timeouts.ports
        closed = wait_for_ports(address, self._ports, self._world.clock, timeout)
        if closed:
            shown = ", ".join(f"{address}:{port}" for port in closed)
            raise OutsideError(
                f"the standby of {self._name} does not answer on {shown} after {timeout:.0f} s; DNS was not changed",
                f"look inside with `lxc exec {self._name} -- systemctl --failed`, then call again",
            )
        return {"summary": ", ".join(f"{address}:{port}" for port in self._ports), "address": address}

    def _switch(self, episode: Episode) -> dict[str, Any]:
        old, new = str(self._service.primary.address), str(self._service.standby.address)
        before = {}
        for record in self._service.dns:
            zone = self._world.zones[record.zone]
            reading = zone.switch(record.name, old, new, record.ttl, episode.epoch)
            before[record.name] = sorted(reading.addresses)
        names = ", ".join(record.name for record in self._service.dns)
        return {"summary": f"{names} -> {new}", "before": before}

    def _verify(self) -> dict[str, Any]:
        address, timeout = str(self._service.standby.address), self._service.timeouts.dns
        servers: dict[str, None] = {}
        for record in self._service.dns:
            zone = self._world.zones[record.zone]
            servers.update(dict.fromkeys(zone.wait_until_everywhere(record.name, address, timeout)))
        return {"summary": f"on {', '.join(servers)}"}
