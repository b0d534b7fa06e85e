"""`vcrecovery status` and `vcrecovery history`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from vcrecovery.cli import timeline
from vcrecovery.cli.options import colour, json_option, known_service, plan_option, read_plan
from vcrecovery.detect.verdict import Kind, judge
from vcrecovery.detect.watch import readings
from vcrecovery.drivers.libvirt import DomainReading
from vcrecovery.errors import OutsideError
from vcrecovery.recover.states import Episode, Outcome
from vcrecovery.recover.world import World
from vcrecovery.sync.freshness import Reconcile, progress_line, read_freshness_quietly
from vcrecovery.sync.modes import ChosenModes

_SHADE = {Kind.HEALTHY: "green", Kind.FAILED_OVER: "yellow", Kind.PAUSED: "yellow"}


def _standby(world: World, name: str) -> dict[str, Any]:
    service = world.plan.services[name]
    lxd = world.lxd[service.standby.secondary]
    try:
        instance = lxd.get(name)
    except OutsideError as error:
        return {"state": "unreachable", "detail": error.message, "age": None}
    if instance is None:
        return {"state": "missing", "detail": f"secondary {lxd.name} has no container {name}", "age": None}
    fresh = read_freshness_quietly(lxd, name, world.plan.secondaries[service.standby.secondary])
    age = None if fresh.stamped_at is None else max(0.0, world.clock.now() - fresh.stamped_at)
    return {
        "state": instance.status.lower(),
        "detail": fresh.detail,
        "age": age,
        "whole": fresh.whole,
        "queue": fresh.queue,
        "reconcile": asdict(fresh.reconcile) if fresh.reconcile else None,
    }


def _dns(world: World, name: str) -> dict[str, list[str] | None]:
    found: dict[str, list[str] | None] = {}
    for record in world.plan.services[name].dns:
        zone = world.zones[record.zone]
        try:
            found[record.name] = sorted(zone.read(zone.servers[0], record.name).addresses)
        except OutsideError:
            found[record.name] = None
    return found


def _describe(world: World, name: str, reading: DomainReading) -> dict[str, Any]:
    state, service = world.journal.state(name), world.plan.services[name]
    now, native = world.clock.now(), service.sync.consistency
    verdict = judge(state, reading.power, reading.reason, now)
    episode = state.open_episode
    return {
        "service": name,
        "serves": state.side.value,
        "epoch": state.epoch,
        "verdict": verdict.kind.value,
        "sentence": verdict.sentence,
        "primary": str(reading),
        "mode": ChosenModes(world.plan.state_dir).of(name, service).value,
        "standby": _standby(world, name),
        "max_staleness": service.max_staleness,
        "paused_until": state.pause.until if state.pause and state.pause.holds(now) else None,
        "paused": state.pause.reason if state.pause and state.pause.holds(now) else None,
        "unfinished": {"epoch": episode.epoch, "cause": episode.cause} if episode else None,
        "dns": _dns(world, name),
        "replicated_by": dict.fromkeys(native.paths, native.by) if native.kind == "native" else {},
    }


def _sync_lines(standby: dict[str, Any]) -> Sequence[str]:
    """How the sync is doing, as the primary has told it."""
    queue, reconcile = standby.get("queue"), standby.get("reconcile")
    lines = []
    if reconcile:
        if reconcile["ended"] is None:
            told = progress_line(Reconcile(**reconcile)) if reconcile["sent"] is not None else "has begun"
            lines.append(f"  sync      comparing the whole tree: {told}")
        elif not reconcile["error"]:
            at, seconds = timeline.day_and_time(reconcile["ended"]), reconcile["ended"] - reconcile["began"]
            sent = f"{reconcile['files'] or 0} files, {(reconcile['bytes'] or 0) / 1e6:.1f} MB"
            lines.append(f"  sync      queue {queue or 0}; last compared {at} in {seconds:.1f} s: {sent}")
    if standby.get("detail") and standby["age"] is not None:
        lines.append(f"  sync      may lack something: {standby['detail']}")
    if reconcile and reconcile["list_error"]:
        lines.append(f"  sync      the exclude list is an old one: {reconcile['list_error']}")
    return lines


def _shown(entry: dict[str, Any]) -> Sequence[str]:
    standby, age = entry["standby"], entry["standby"]["age"]
    if age is None:
        freshness = f"age not known: {standby['detail']}"
    else:
        too_old = age > entry["max_staleness"] and entry["serves"] == "primary"
        freshness = f"files {age:.0f} s old" + (f", more than {entry['max_staleness']:.0f} s" if too_old else "")
    shade = _SHADE.get(Kind(entry["verdict"]), "red")
    lines = [
        f"{colour(entry['service'], shade)}  {entry['verdict']}",
        f"  serves    {entry['serves']}, epoch {entry['epoch']}",
        f"  primary   {entry['primary']}",
        f"  standby   {standby['state']} (mode {entry['mode']}), {freshness}",
        *_sync_lines(standby),
        *(f"  sync      {path} is replicated by {by}" for path, by in entry["replicated_by"].items()),
    ]
    for name, addresses in entry["dns"].items():
        points_at = "no answer" if addresses is None else ", ".join(addresses) or "nothing"
        lines.append(f"  dns       {name} -> {points_at}")
    if entry["paused"] is not None:
        until = timeline.day_and_time(entry["paused_until"]) if entry["paused_until"] else "`vcrecovery resume`"
        lines.append(f"  paused    until {until} ({entry['paused']})")
    if entry["unfinished"]:
        name = entry["service"]
        lines.append(f"  failover  epoch {entry['unfinished']['epoch']} is not finished: `vcrecovery failover {name}`")
    if Kind(entry["verdict"]) not in (Kind.HEALTHY, Kind.FAILED_OVER):
        lines.append(f"  verdict   {entry['sentence']}")
    return lines


@click.command()
@click.argument("service", required=False)
@json_option
@plan_option
def status(service: str | None, as_json: bool, plan_path: Path) -> None:
    """Show who serves what, and how fresh each standby is."""
    plan = read_plan(plan_path)
    names = [known_service(plan, plan_path, service)] if service else list(plan.services)
    world = World(plan)
    states = readings(world)
    with ThreadPoolExecutor(max_workers=8) as pool:
        entries = list(pool.map(lambda name: _describe(world, name, states[name]), names))
    if as_json:
        click.echo(json.dumps({"services": entries}, indent=2))
        return
    for entry in entries:
        click.echo("\n".join(_shown(entry)))


def _as_data(episode: Episode) -> dict[str, Any]:
    return {
        "episode": episode.id,
        "service": episode.service,
        "epoch": episode.epoch,
        "cause": episode.cause,
        "request": asdict(episode.request),
        "opened_at": episode.opened_at,
        "closed_at": episode.closed_at,
        "outcome": episode.outcome.value if episode.outcome else None,
        "reason": episode.reason,
        "steps": [asdict(record) for record in episode.steps],
    }


@click.command()
@click.argument("service", required=False)
@click.option("--limit", default=20, show_default=True, type=click.IntRange(min=1), help="How many failovers.")
@json_option
@plan_option
def history(service: str | None, limit: int, as_json: bool, plan_path: Path) -> None:
    """Show failovers, newest last, with the time and the proof of each step."""
    plan = read_plan(plan_path)
    if service:
        known_service(plan, plan_path, service)
    episodes = World(plan).journal.history(service, limit)[::-1]
    if as_json:
        click.echo(json.dumps({"episodes": [_as_data(episode) for episode in episodes]}, indent=2))
        return
    if not episodes:
        click.echo("no failover yet")
    for episode in episodes:
        first, *rest = timeline.of_episode(episode)
        click.echo(colour(first, "green" if episode.outcome is Outcome.DONE else "yellow"))
        click.echo("\n".join(rest))
