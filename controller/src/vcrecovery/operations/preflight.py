"""Asks the outside whether it is what the plan says. Changes nothing."""

from __future__ import annotations

import contextlib
import os
import socket

from vcrecovery.core.power import Power
from vcrecovery.errors import VCRecoveryError
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.records import by_zone, of_zone
from vcrecovery.plan.leased import LeasedSecondary
from vcrecovery.plan.names import LONG_TTL
from vcrecovery.plan.on_demand import is_on_demand
from vcrecovery.standby.databases import copied_as_files
from vcrecovery.transfer import rsync_fault
from vcrecovery.transfer.rootfs import Rootfs


def notify_warnings(env: Environment) -> list[str]:
    """Why people would not be told, a line each. Nothing is asked of others for that."""
    found = [f"notify: {why}"] if env.plan.notify and (why := env.notifier.missing()) else []
    for number, destination in enumerate(env.plan.notify):
        try:
            env.notifier.count(destination.url_file)
        except VCRecoveryError as error:
            found.append(f"notify[{number}].url_file: {error}")
    return found


def warnings_outside(env: Environment) -> list[str]:
    """What may be meant so, but loses data or time when it is not, a line each; of standbys only those here."""
    found: list[str] = []
    for name, service in env.plan.services.items():
        place = env.plan.secondaries[service.standby.secondary]
        lxd = env.lxd[service.standby.secondary]
        if lxd.is_here:
            rootfs = lxd.rootfs(place.storage_pool, name)
            if os.access(rootfs, os.R_OK | os.X_OK):
                found += copied_as_files(name, service, Rootfs(rootfs, []))
        if service.limits.disk is not None:
            spare = service.standby.spare
            for secondary in [lxd.name, *([] if spare is None else [spare.secondary])]:
                pool = env.plan.secondaries[secondary].storage_pool
                with contextlib.suppress(VCRecoveryError):
                    if env.lxd[secondary].pool_driver(pool) == "dir":
                        found.append(
                            f"services.{name}.limits.disk: pool {pool} of {secondary} has driver dir, which keeps no "
                            "quota: nothing limits it"
                        )
        if service.virtual_ip and service.virtual_ip.interface not in (known for _, known in socket.if_nameindex()):
            found.append(
                f"services.{name}.virtual_ip.interface: this machine has no {service.virtual_ip.interface}; "
                "the controller's needs it"
            )
    return found + _deaf_receivers(env) + _slow_names(env)


def check_outside(env: Environment) -> list[str]:
    """Every problem that hypervisors, secondaries and DNS servers show, a line each."""
    problems: list[str] = []
    silent: set[str] = set()
    for name, service in env.plan.services.items():
        lxd = env.lxd[service.standby.secondary]
        if env.whereabouts.home(name) not in silent:
            place = env.whereabouts.find(name)
            if place.reading.power is Power.UNREACHABLE:
                silent.add(place.host)
                problems.append(f"hypervisors.{place.host}: {place.reading.detail}")
            elif place.reading.power is Power.ABSENT:
                problems.append(f"services.{name}.primary.uuid: {place.reading.detail}")
        if lxd.name not in silent:
            try:
                if lxd.get(name) is None:
                    problems.append(
                        f"services.{name}.standby: secondary {lxd.name} has no container {name}; "
                        "the role `secondary` makes it"
                    )
            except VCRecoveryError as error:
                silent.add(lxd.name)
                problems.append(f"secondaries.{lxd.name}: {error}")
    problems += _spare_problems(env, silent)
    receiving = [name for name, lxd in env.lxd.items() if lxd.is_here and name not in silent]
    if receiving and (fault := rsync_fault.what_is_wrong()):
        problems += [f"secondaries.{name}: {fault}" for name in receiving]
    return problems + _dns_problems(env)


def _spare_problems(env: Environment, silent: set[str]) -> list[str]:
    """What would keep a standby that serves from being copied, either way."""
    spares = [service.standby for service in env.plan.services.values() if service.standby.spare is not None]
    places = dict.fromkeys(
        name for standby in spares if standby.spare is not None for name in (standby.secondary, standby.spare.secondary)
    )
    problems = []
    for name in places:
        if name in silent:
            continue
        try:
            env.lxd[name].on_the_network()
        except VCRecoveryError as error:
            silent.add(name)
            problems.append(f"secondaries.{name}: {error}")
    pairs = {(s.secondary, s.spare.secondary) for s in spares if s.spare is not None}
    for here, there in sorted(pair for pair in pairs if not silent.intersection(pair)):
        try:
            env.lxd[there].refuse_another_kind(env.lxd[here])
        except VCRecoveryError as error:
            problems.append(f"secondaries.{there}: {error}")
    return problems


def _deaf_receivers(env: Environment) -> list[str]:
    """Those from which no failback fetches."""
    # With its drivers, which a check without `--online` does without.
    from vcrecovery.operations.receivers import deaf_receiver

    found = []
    for name in dict.fromkeys(service.standby.secondary for service in env.plan.services.values()):
        if is_on_demand(env.plan.secondaries[name]) or isinstance(env.plan.secondaries[name], LeasedSecondary):
            continue
        with contextlib.suppress(VCRecoveryError):
            if why := deaf_receiver(env.lxd[name]):
                found.append(f"secondaries.{name}: {why}")
    return found


def _dns_problems(env: Environment) -> list[str]:
    """What would stop a switch: the key, a server, a name that holds what the plan does not know."""
    problems: list[str] = []
    for zone_name, names in by_zone(env).items():
        problems += [f"dns.zones.{zone_name}: {problem}" for problem in of_zone(env.zones[zone_name], names)]
    return list(dict.fromkeys(problems))


def _slow_names(env: Environment) -> list[str]:
    """Names that resolvers keep for long, whatever the plan says: DNS has its own TTL until the first switch."""
    found = []
    for zone_name, names in by_zone(env).items():
        for name in names:
            with contextlib.suppress(VCRecoveryError):
                for kind, seconds in name.read().ttl.items():
                    if seconds > LONG_TTL:
                        found.append(
                            f"dns.zones.{zone_name}: {kind} of {name.text} has a TTL of {seconds} s on its server: "
                            "resolvers keep giving it for that long after a failover"
                        )
    return found
