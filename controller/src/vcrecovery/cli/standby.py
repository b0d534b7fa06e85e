"""`vcrecovery standby`."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import click

from vcrecovery.cli import complete
from vcrecovery.cli.options import json_option, known_service, plan_option, read_plan, seconds_of
from vcrecovery.core.episode import Outcome, Step
from vcrecovery.core.phase import allowed
from vcrecovery.core.service_state import ServiceState, Side
from vcrecovery.core.text import day_and_time
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.drivers.lxd.instances import STOPPED
from vcrecovery.errors import ExternalError, RefusedError, UsageError
from vcrecovery.operations import virtual_address
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.records import names_of
from vcrecovery.operations.serve_from_primary import serve_from_primary
from vcrecovery.operations.written_off import served_since
from vcrecovery.plan.places import is_elsewhere, place, places_of, put
from vcrecovery.plan.problems import suggest
from vcrecovery.standby.container import ACTIVE, ROLE_KEY, SPARE, WAITS_ON_KEY, epoch_of, register, stand_by_again
from vcrecovery.standby.container import apply as apply_standby
from vcrecovery.standby.copies import put_aside
from vcrecovery.standby.seed import seed as seed_standby
from vcrecovery.store.lock import KEEPER_PATIENCE, one_keeper, service_lock
from vcrecovery.transfer.freshness import wait_for_sync


@click.group()
def standby() -> None:
    """Make and fill standbys on this secondary."""


@standby.command(short_help="Bring standbys to what the plan says.")
@click.argument("services", shell_complete=complete.services, nargs=-1)
@json_option
@plan_option
def apply(services: tuple[str, ...], as_json: bool, plan_path: Path) -> None:
    """Bring the standbys of SERVICES (or of all) to what the plan says. A second run changes nothing."""
    plan = read_plan(plan_path)
    names = [known_service(plan, plan_path, name) for name in services] or list(plan.services)
    env = Environment(plan)
    changes: dict[str, list[str]] = {}
    for name in names:
        if is_elsewhere(plan.services[name]):
            changes[name] = []
        else:
            lxd = env.lxd[plan.services[name].standby.secondary]
            changes[name] = apply_standby(plan, name, lxd, env.clock, stands_by=_is_known_to_stand_by(env, name)).made
        if not as_json:
            click.echo(f"{name}: {', '.join(changes[name]) or 'nothing to do'}")
    if as_json:
        click.echo(json.dumps({"changed": any(changes.values()), "changes": changes}))


@standby.command(short_help="Have the receiver know standbys that may be moved here.")
@click.argument("services", shell_complete=complete.services, nargs=-1)
@click.option("--on", "secondary", required=True, metavar="SECONDARY", help="This machine's name in the plan.")
@json_option
@plan_option
def admit(services: tuple[str, ...], secondary: str, as_json: bool, plan_path: Path) -> None:
    """Have this machine's receiver know the standbys of SERVICES (or of all whose spare this is).

    It lets nothing in before `vcrecovery move` has brought a standby here. A second run changes nothing.
    """
    plan = read_plan(plan_path)
    if secondary not in plan.secondaries:
        raise UsageError(
            f"plan {plan_path} has no secondary {secondary!r} {suggest(secondary, list(plan.secondaries))}"
        )
    names = [known_service(plan, plan_path, name) for name in services] or [
        name for name, service in plan.services.items() if secondary in places_of(service)[1:]
    ]
    lxd = Environment(plan).lxd[secondary]
    changes = {name: register(plan, name, lxd, secondary) for name in names}
    if as_json:
        click.echo(json.dumps({"changed": any(changes.values()), "changes": changes}))
        return
    for name, changed in changes.items():
        click.echo(f"{name}: {'receiver told' if changed else 'nothing to do'}")


def _is_known_to_stand_by(env: Environment, name: str) -> bool:
    """Another machine's controller may know of a failover; a journal that has seen none does not."""
    if not env.has_a_journal():
        return False
    state = env.journal.state(name)
    return state.epoch > 0 and state.side is Side.PRIMARY and state.open_episode is None


@standby.command(short_help="Return the service to its repaired primary.")
@click.argument("service", shell_complete=complete.service)
@click.option(
    "--secondary-is-down",
    shell_complete=complete.secondary,
    metavar="SECONDARY",
    help="On your word, nothing runs there any more. Type the secondary's name. In a failback whose VM has everything; "
    "else with --force.",
)
@click.option(
    "--force",
    is_flag=True,
    help="With --secondary-is-down: the VM serves what it has, and what the standby has written since the failover is "
    "lost.",
)
@plan_option
def reset(service: str, secondary_is_down: str | None, force: bool, plan_path: Path) -> None:
    """Return SERVICE to its repaired primary.

    First stop the container, copy what changed in it to the VM (except what a sync excludes, such as its masked units:
    see `vcrecovery exclude-list`), and point DNS back. Then run this: the standby receives the primary's files again,
    and the service is protected. An unfinished failover is given up. A quarantined VM is resumed; to use it earlier,
    `vcrecovery suspend SERVICE --for forever` and resume it by hand.

    Where the secondary is lost for good while it serves: start the VM's services, point DNS back, then
    --secondary-is-down SECONDARY --force.

    While the primary serves it has a standby wait at home again that waited on a secondary which is lost, or that has
    come back with its secondary after --secondary-is-down.
    """
    plan = read_plan(plan_path)
    known_service(plan, plan_path, service)
    if force and secondary_is_down is None:
        raise UsageError("--force belongs to --secondary-is-down", "name the secondary that is lost")
    serve_from_the_primary(Environment(plan), service, secondary_is_down, force=force)


def serve_from_the_primary(
    env: Environment, service: str, secondary_is_down: str | None = None, *, force: bool = False
) -> None:
    """What `vcrecovery standby reset` does."""
    plan = env.plan
    keeping = one_keeper(plan.state_dir, service, KEEPER_PATIENCE, env.clock)
    with keeping, service_lock(plan.state_dir, service, clock=env.clock):
        state = env.journal.state(service)
        under_way = state.open_episode is not None and state.open_episode.has_acted
        if under_way and state.side is Side.PRIMARY:
            _refuse_in_a_switchover(env, state)
        if state.side is Side.PRIMARY and not under_way:
            if _left_a_lost_secondary(env, state) or _has_come_back(env, state):
                return
            click.echo(f"{service}: nothing to do: its primary serves")
            return
        put(plan, service, state.placed_on)
        secondary = plan.services[service].standby.secondary
        if secondary_is_down is not None:
            _refuse_unless_lost(env, state, secondary_is_down, force=force)
        else:
            _refuse_in_a_failback(state, secondary)
        for name in names_of(env, plan.services[service], Side.PRIMARY):
            found = name.read()
            if any(found.values[change.kind] != {change.wanted} for change in name.changes):
                raise RefusedError(f"{name.text} does not point at the primary {name.target}", "point it back first")
        if is_elsewhere(plan.services[service]):
            _leave_the_spare(env, state)
        elif secondary_is_down is None:
            _have_it_stand_by(env.lxd[secondary], service)
        virtual_address.give_up(env, plan.services[service])
        resumed = serve_from_primary(env, service, writes_off=secondary_is_down is not None)
    if resumed:
        click.echo(f"{service}: its VM was quarantined, and runs again")
    if secondary_is_down is not None:
        click.echo(
            f"{service}: its primary serves, unprotected; as soon as {secondary_is_down} is back: `vcrecovery standby "
            f"reset {service}` has the container stand by again; a VM that boots before that starts no service"
        )
        return
    click.echo(f"{service}: its primary serves, and is protected once it is seen running")


def _have_it_stand_by(lxd: LxdServer, service: str) -> None:
    try:
        stand_by_again(lxd, service)
    except ExternalError as error:
        try:
            lxd.get(service)
        except ExternalError:
            lost = (
                f"once {lxd.name} is lost for good: `vcrecovery standby reset {service} --secondary-is-down {lxd.name}`"
            )
            hint = f"{error.hint or 'fix that'}, then run it again; {lost} says what that loses"
            raise ExternalError(error.message, hint) from error
        raise


def _left_a_lost_secondary(env: Environment, state: ServiceState) -> bool:
    """Whether it has its standby wait at home again, as it is there.

    It waited where it is no more, or nobody answers, or the plan has no place for it.
    """
    name = state.service
    if state.open_episode is None and name in env.misplaced:
        home = env.lxd[env.plan.services[name].standby.secondary]
    else:
        put(env.plan, name, state.placed_on)
        standby = env.plan.services[name].standby
        if state.open_episode is not None or standby.spare is None or not is_elsewhere(env.plan.services[name]):
            return False
        with suppress(ExternalError):
            if env.lxd[standby.secondary].get(name) is not None:
                return False
        home = env.lxd[standby.spare.secondary]
    stand_by_again(home, name)
    env.journal.serve_from_primary(name, env.clock.now())
    _waits_again(name, home.name)
    return True


def _has_come_back(env: Environment, state: ServiceState) -> bool:
    """Whether its container does not serve any more, whose secondary was lost in a failback, and takes files again."""
    service = state.service
    put(env.plan, service, state.placed_on)
    if is_elsewhere(env.plan.services[service]) or state.open_episode is not None:
        return False
    home = env.lxd[env.plan.services[service].standby.secondary]
    found = None
    with suppress(ExternalError):
        found = home.get(service)
    # One of a later epoch is another controller's, and serves.
    if found is None or found.config.get(ROLE_KEY) != ACTIVE or epoch_of(found) > state.epoch:
        return False
    stand_by_again(home, service)
    env.journal.serve_from_primary(service, env.clock.now())
    _waits_again(service, home.name)
    return True


def _waits_again(service: str, secondary: str) -> None:
    click.echo(
        f"{service}: its standby waits on {secondary} again, protected once its VM has compared everything there"
    )


def _leave_the_spare(env: Environment, state: ServiceState) -> None:
    """The container there serves no more, and the one where it stood by takes files again."""
    service, episode = state.service, state.open_episode
    spare = env.lxd[env.plan.services[service].standby.secondary]
    found = spare.get(service)
    if found is not None and found.status != STOPPED:
        hint = f"`{spare.client} stop {service}` there first"
        raise RefusedError(f"container {service} runs on secondary {spare.name}", hint)
    put_aside(spare, service, state.epoch)
    place(env.plan, service, None)
    home = env.lxd[env.plan.services[service].standby.secondary]
    try:
        stand_by_again(home, service)
    except ExternalError as error:
        if episode is not None and episode.fence is None:
            # It may serve there.
            raise
        click.echo(f"{service}: {error.message}; `vcrecovery standby apply {service}` has it stand by there again")


def _refuse_in_a_switchover(env: Environment, state: ServiceState) -> None:
    """Its VM may still be on its way down, and nobody would start it again."""
    service, episode = env.plan.services[state.service], state.open_episode
    if episode is None or not episode.request.planned:
        return
    if not env.probes.answering(str(service.primary.address), service.ports, service.timeouts.confirm):
        raise RefusedError(
            f"a switchover of {state.service} is under way, and its VM does not answer",
            f"`vcrecovery switchover {state.service}` brings it to its end",
        )


def _refuse_in_a_failback(state: ServiceState, secondary: str) -> None:
    """Neither side serves: it goes on or back."""
    episode = state.open_episode
    if episode is None or not episode.request.back or not episode.has_acted or state.side is not Side.STANDBY:
        return
    hint = f"`vcrecovery failback {state.service}` brings it to its end"
    if episode.vm_has_everything:
        hint += f"; once {secondary} is off for certain, add `--secondary-is-down {secondary}`"
    else:
        hint += (
            f"; once {secondary} is lost for good, add `--secondary-is-down {secondary}`, which says what that loses"
        )
    raise RefusedError(f"a failback of {state.service} is under way", hint)


def _refuse_unless_lost(env: Environment, state: ServiceState, secondary: str, *, force: bool) -> None:
    """The operator's word that `secondary` is off is for a VM that has everything, and which nobody can tell so; or,
    by force, for one that lacks what was written there.
    """
    service, episode = env.plan.services[state.service], state.open_episode
    there = service.standby.secondary
    if secondary != there:
        raise UsageError(f"--secondary-is-down {secondary} is not where {state.service} served", f"type {there}")
    if is_elsewhere(service):
        hint, home = f"bring {secondary} back, then `vcrecovery failback {state.service}`", service.standby.spare
        if force and episode is None and home is not None:
            hint += f"; once it is lost for good, `vcrecovery failover {state.service} --to {home.secondary} "
            hint += f"--secondary-is-down {secondary} --force` has what is there serve"
        raise RefusedError(
            f"{state.service} served on its spare {secondary}: that container is the newest once it is back", hint
        )
    if episode is None or not episode.vm_has_everything:
        _refuse_to_lose_it(env, state, secondary, force=force)
    with suppress(ExternalError):
        if env.lxd[secondary].get(state.service) is not None:
            raise RefusedError(
                f"you say that secondary {secondary} is down, but its LXD answers",
                f"`vcrecovery failback {state.service}` brings the failback to its end",
            )
    if not env.probes.answering(str(service.primary.address), service.ports, service.timeouts.confirm):
        raise RefusedError(
            f"the VM of {state.service} does not answer", "`systemctl default` in the VM starts its services"
        )


def _refuse_to_lose_it(env: Environment, state: ServiceState, secondary: str, *, force: bool) -> None:
    """Unless by force. What moves it to another secondary is to come to its end: there it has everything."""
    name, episode, spare = state.service, state.open_episode, env.plan.services[state.service].standby.spare
    if episode is not None and (episode.request.to is not None or Outcome.GIVEN_UP not in allowed(episode)):
        raise RefusedError(*episode.goes_on_first)
    if force:
        return
    since, of_two, way_out = served_since(env, name), "", f"bring {secondary} back"
    if episode is not None and episode.request.back and episode.tried(Step.COPY):
        of_two = ", and the copy into its VM has not ended: the files there are of two states"
    if spare is not None:
        way_out += f", or `vcrecovery failover {name} --to {spare.secondary} --secondary-is-down {secondary}`"
    raise RefusedError(
        f"--secondary-is-down is for a failback whose VM has everything; what the standby of {name} has written on "
        f"{secondary} since {'its failover' if since is None else day_and_time(since)} would be lost{of_two}",
        f"{way_out}; once it is lost for good, add `--force`: the VM serves what it has",
    )


@standby.command(short_help="Wait for a complete sync.")
@click.argument("service", shell_complete=complete.service)
@click.option("--timeout", default="1h", show_default=True, callback=seconds_of, help="How long to wait: 90s, 10m.")
@click.option("--any", "any_time", is_flag=True, help="Accept a complete sync of any age.")
@plan_option
def wait(service: str, timeout: float, any_time: bool, plan_path: Path) -> None:
    """Wait until the standby of SERVICE has everything that its primary had when this was run."""
    plan = read_plan(plan_path)
    known_service(plan, plan_path, service)
    env = Environment(plan)
    serves = f"{service}: its standby serves: nothing is synced before `vcrecovery failback {service}`"
    if env.journal.state(service).side is Side.STANDBY:
        click.echo(serves)
        return
    secondary = plan.services[service].standby.secondary
    lxd, place = env.lxd[secondary], plan.secondaries[secondary]
    found = lxd.get(service)
    # This machine's journal, if it has one, is not the controller's.
    if found is not None and found.config.get(ROLE_KEY) == ACTIVE:
        click.echo(serves)
        return
    if found is not None and found.config.get(ROLE_KEY) == SPARE and (on := found.config.get(WAITS_ON_KEY)):
        click.echo(f"{service}: its standby waits on {on}: see `vcrecovery status {service}` on its controller")
        return
    age = wait_for_sync(
        lxd,
        service,
        place,
        env.clock,
        timeout,
        lambda line: click.echo(f"{service}: {line}", err=True),
        newer=not any_time,
    )
    click.echo(f"{service}: in sync, files {age:.0f} s old")


@standby.command(short_help="Fill a standby from a local tree.")
@click.argument("service", shell_complete=complete.service)
@click.option(
    "--from",
    "source",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="A directory tree, such as the VM's image.",
)
@plan_option
def seed(service: str, source: Path, plan_path: Path) -> None:
    """Fill the standby of SERVICE from a local tree, so that the first sync has little to send."""
    plan = read_plan(plan_path)
    known_service(plan, plan_path, service)
    if not os.path.isdir(source):  # noqa: PTH112  of a folder that may not be looked into, pathlib raises
        raise UsageError(f"--from {source}: no such folder", "name one that you may read")
    seed_standby(plan, service, source)
    click.echo(f"{service}: seeded from {source}")
