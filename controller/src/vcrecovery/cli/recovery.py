"""What `vcrecovery failover`, `switchover` and `failback` do, once they are called."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vcrecovery.cli.dry_run import tell_dry_run
from vcrecovery.cli.interruption import interruption_of
from vcrecovery.cli.options import colour, known_service, operator, read_plan, service_of_vm
from vcrecovery.cli.output import say
from vcrecovery.cli.timeline import LiveTimeline, NoTimeline
from vcrecovery.core.episode import Episode, How, Outcome, Request
from vcrecovery.core.service_state import Side
from vcrecovery.core.text import plain, took
from vcrecovery.errors import ExitCode, RefusedError, UsageError, VCRecoveryError
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.failover import ALONE, ProgressReporter
from vcrecovery.operations.locked import fail_over_locked
from vcrecovery.operations.protection import until_protected
from vcrecovery.operations.several import Result, as_data, fail_over_all, result_of, result_of_error, worst
from vcrecovery.operations.start_conditions import LiveConditions
from vcrecovery.operations.start_gate import StartGate
from vcrecovery.plan.groups import hypervisors_of
from vcrecovery.plan.model import Plan
from vcrecovery.plan.places import places_of
from vcrecovery.plan.problems import suggest


class SeveralError(VCRecoveryError):
    """Not every service of several is served as was asked; the table said why. Has the status of the worst."""

    def __init__(self, message: str, hint: str, exit_code: ExitCode) -> None:
        super().__init__(message, hint)
        self.exit_code = exit_code


@dataclass(frozen=True)
class _Meant:
    """What the operator named. `name` is what --primary-is-down has to repeat."""

    what: str
    name: str
    services: tuple[str, ...]

    @property
    def alone(self) -> bool:
        return self.what == "service"


def _meant(
    env: Environment,
    plan_path: Path,
    service: str | None,
    vm: str | None,
    host: str | None,
    site: str | None,
    group: str | None,
) -> _Meant:
    """Raises UsageError with near names for one that the plan does not have."""
    plan = env.plan
    if sum(word is not None for word in (service, vm, host, site, group)) != 1:
        raise UsageError("name one service, or one VM with --vm, or use one of --host, --site and --group")
    if host is not None:
        refuse_unknown("hypervisor", host, list(plan.hypervisors), plan_path)
        return _together("host", host, env.whereabouts.on({host}), plan_path)
    if site is not None:
        refuse_unknown("site", site, sorted({entry.site for entry in plan.hypervisors.values()}), plan_path)
        return _together("site", site, env.whereabouts.on(hypervisors_of(plan, site)), plan_path)
    if group is not None:
        refuse_unknown("group", group, list(plan.groups), plan_path)
        return _together("group", group, plan.groups[group].services, plan_path)
    if service is not None and service not in plan.services and (option := _option_for(plan, service)):
        raise UsageError(f"plan {plan_path} has no service {service!r}", f"`{option} {service}` means all of that")
    name = known_service(plan, plan_path, service) if service is not None else service_of_vm(plan, plan_path, vm or "")
    return _Meant("service", name, (name,))


def _option_for(plan: Plan, name: str) -> str:
    """Of several services that have this name in common; nothing where none have."""
    sites = {entry.site for entry in plan.hypervisors.values()}
    known = {"--group": set(plan.groups), "--host": set(plan.hypervisors), "--site": sites}
    return next((option for option, names in known.items() if name in names), "")


def operators_word(what: str, name: str, typed: str | None) -> bool:
    """Whether the operator says that the primary is down, by typing the name of what is to be failed over.

    Raises UsageError for another name.
    """
    if typed not in (None, name):
        raise UsageError(f"--primary-is-down {typed} is not the {what}'s name", f"type {name} to mean it")
    return typed is not None


def refuse_unknown(what: str, name: str, known: list[str], plan_path: Path) -> None:
    """Raises UsageError, with near names, for one that the plan does not have."""
    if name not in known:
        raise UsageError(f"plan {plan_path} has no {what} {name!r} {suggest(name, known)}")


def _together(what: str, name: str, services: list[str], plan_path: Path) -> _Meant:
    if not services:
        raise UsageError(f"plan {plan_path} has no service on {what} {name}")
    return _Meant(what, name, tuple(services))


def run(
    plan_path: Path,
    *,
    service: str | None,
    vm: str | None,
    host: str | None,
    site: str | None,
    group: str | None,
    force: bool = False,
    primary_is_down: str | None = None,
    restore_point: str | None = None,
    to: str | None = None,
    secondary_is_down: str | None = None,
    how: How = How.WARM,
    planned: bool = False,
    back: bool = False,
    into: str | None = None,
    commit_after: float | None = None,
    dry_run: bool = False,
    as_json: bool,
) -> None:
    """What `vcrecovery failover` does; `planned`: `vcrecovery switchover`; `back`: `failback`."""
    carry_out(
        Environment(read_plan(plan_path)),
        plan_path,
        service=service,
        vm=vm,
        host=host,
        site=site,
        group=group,
        force=force,
        primary_is_down=primary_is_down,
        restore_point=restore_point,
        to=to,
        secondary_is_down=secondary_is_down,
        how=how,
        planned=planned,
        back=back,
        into=into,
        commit_after=commit_after,
        dry_run=dry_run,
        as_json=as_json,
    )


def carry_out(
    env: Environment,
    plan_path: Path,
    *,
    service: str | None,
    vm: str | None,
    host: str | None,
    site: str | None,
    group: str | None,
    force: bool = False,
    primary_is_down: str | None = None,
    restore_point: str | None = None,
    to: str | None = None,
    secondary_is_down: str | None = None,
    how: How = How.WARM,
    planned: bool = False,
    back: bool = False,
    into: str | None = None,
    commit_after: float | None = None,
    dry_run: bool = False,
    as_json: bool,
) -> None:
    """The same in `env`, which is the plan's."""
    meant = _meant(env, plan_path, service, vm, host, site, group)
    word = operators_word(meant.what, meant.name, primary_is_down)
    if restore_point is not None and not meant.alone:
        raise UsageError("--restore-point belongs to one service", "fail its service over by name")
    if to is not None:
        refuse_unknown("secondary", to, list(env.plan.secondaries), plan_path)
        if not meant.alone:
            raise UsageError("--to belongs to one service", "name it")
    off = _is_off(env, meant, to, secondary_is_down)
    if into is not None:
        _refuse_another_vm(env, meant, into.lower(), plan_path)
    by = operator()
    request = Request(
        force=force,
        primary_is_down=word,
        of_several=word and not meant.alone,
        by=by,
        restore_point=restore_point,
        to=to,
        secondary_is_down=off,
        how=how,
        planned=planned,
        back=back,
        rebuilt=into is not None,
        commit_after=commit_after,
    )
    if dry_run:
        tell_dry_run(env, meant.services, _cause(request), request, as_json=as_json)
        return
    ended: dict[str, Result] = {}
    try:
        if meant.alone:
            _alone(env, meant.name, request, ended, as_json)
        else:
            _all_of(env, meant, request, ended, as_json)
    except KeyboardInterrupt:
        raise interruption_of(env.journal, meant.services, ended, back=back) from None


def _cause(request: Request) -> str:
    return f"requested by {request.by}" + (f", {request.how}" if request.carries_memory else "")


def _is_off(env: Environment, meant: _Meant, to: str | None, typed: str | None) -> bool:
    """Whether the operator says that the secondary on which the service serves is off, by typing its name."""
    if typed is None:
        return False
    if to is None:
        raise UsageError("--secondary-is-down needs --to", "name the secondary that takes over")
    named = set(places_of(env.plan.services[meant.name])) - {to}
    if not named:
        raise UsageError(
            f"{meant.name} has no other secondary than {to}",
            "--to names where it goes on, --secondary-is-down what is off",
        )
    if typed not in named:
        raise UsageError(f"--secondary-is-down {typed} is not where {meant.name} serves", f"type {' or '.join(named)}")
    return True


def _refuse_another_vm(env: Environment, meant: _Meant, into: str, plan_path: Path) -> None:
    """Whoever has rebuilt a VM has to have told the plan: everything else acts on that one."""
    if not meant.alone:
        raise UsageError("--into belongs to one service", "return its service by name")
    name, services = meant.name, env.plan.services
    theirs = next((other for other, s in services.items() if other != name and str(s.primary.uuid) == into), None)
    if theirs is not None:
        raise RefusedError(f"VM {into} is the primary of {theirs}, not of {name}", "`virsh list --all --uuid --name`")
    known = str(services[name].primary.uuid)
    if known != into:
        raise RefusedError(
            f"plan {plan_path} says that the VM of {name} is {known}",
            f"set services.{name}.primary.uuid to {into}, lay it out with site.yml, then run it again",
        )


def _alone(env: Environment, name: str, request: Request, ended: dict[str, Result], as_json: bool) -> None:
    reporter: ProgressReporter = NoTimeline() if as_json else LiveTimeline()
    try:
        episode = fail_over_locked(env, name, _cause(request), request, reporter=reporter, gate=ALONE)
        ended[name] = result_of(name, episode, request)
        if not as_json:
            tell_the_end(env, request, name, episode, as_json=False)
        _until_protected(env, name, episode, quietly=as_json)
    except VCRecoveryError as error:
        if as_json:
            _print_json("service", name, [result_of_error(name, error)])
        raise
    if as_json:
        tell_the_end(env, request, name, episode, as_json=True)


def tell_the_end(env: Environment, request: Request, name: str, episode: Episode | None, *, as_json: bool) -> None:
    """`episode`: None when there was nothing to do."""
    if as_json:
        _print_json("service", name, [result_of(name, episode, request)])
    elif episode is None and request.moves and env.journal.state(name).side is Side.PRIMARY:
        say(f"{name}: nothing to do: its standby waits on {request.to}")
    elif episode is None:
        whose = "primary" if request.back else "standby"
        since = "" if request.back else f" since epoch {env.journal.state(name).epoch}"
        say(f"{name}: nothing to do: its {whose} serves{f' on {request.to}' if request.to else ''}{since}")
    elif episode.outcome is Outcome.DONE and episode.closed_at is not None:
        seconds = took(episode.opened_at, episode.closed_at)
        if episode.request.leaves is not None:
            say(colour(f"{name}: its standby waits on {episode.request.to}, after {seconds}", "green"))
            return
        whom = "VM" if episode.request.back else "standby"
        if episode.request.to is not None:
            whom += f" on {episode.request.to}"
        say(colour(f"{name}: served by its {whom} after {seconds}", "green"))
    else:
        say(f"{name}: {episode.reason}")


def _until_protected(env: Environment, name: str, episode: Episode | None, *, quietly: bool) -> None:
    """After a failback. It is not part of it: a VM that fails meanwhile is failed over."""
    if episode is None or not episode.request.back or episode.outcome is not Outcome.DONE:
        return
    age = until_protected(env, name, lambda text: None if quietly else say(f"{name}: its standby is compared: {text}"))
    if not quietly:
        say(colour(f"{name}: protected: its standby has everything, {age:.0f} s old", "green"))


def _all_of(env: Environment, meant: _Meant, request: Request, ended: dict[str, Result], as_json: bool) -> None:
    """`ended` gets what came of each service as it comes."""
    start_gate = StartGate(LiveConditions(env), env.clock, env.runtime)
    size = max(len(name) for name in meant.services)
    cause = f"requested by {request.by}, with {meant.what} {meant.name}"
    # One time for all: whichever is first fences for the others too, however late they come to it.
    asked_at = env.clock.now()

    def attempt(name: str) -> Episode | None:
        reporter: ProgressReporter = NoTimeline() if as_json else LiveTimeline(f"{name:<{size}}  ")
        episode = fail_over_locked(env, name, cause, request, reporter=reporter, gate=start_gate, detected_at=asked_at)
        ended[name] = result_of(name, episode, request)
        _until_protected(env, name, episode, quietly=True)
        return episode

    def tell(result: Result) -> None:
        ended[result.service] = result
        if not as_json and result.exit_code is not ExitCode.DONE:
            say(f"{result.service:<{size}}    {colour(_said(result), 'red')}")

    results = fail_over_all(meant.services, attempt, start_gate, tell, request, env.runtime)
    if as_json:
        _print_json(meant.what, meant.name, results)
    else:
        for line in table_of(results):
            say(line)
    whose = "VMs" if request.back else "standbys"
    refuse_missing(f"{meant.what} {meant.name}", results, f"are not served by their {whose}")


def refuse_missing(what: str, results: Sequence[Result], are_not: str) -> None:
    """Raises SeveralError, in the words of `are_not`, where one of them is not as was asked."""
    missing = [result for result in results if result.exit_code is not ExitCode.DONE]
    if missing:
        raise SeveralError(
            f"{what}: {len(missing)} of {len(results)} services {are_not}: "
            f"{', '.join(result.service for result in missing)}",
            "after fixing the cause, run it again",
            worst(result.exit_code for result in missing),
        )


def _said(result: Result) -> str:
    said = f"{result.result}: {result.reason}" if result.reason else result.result
    return plain(f"{said}; {result.hint}" if result.hint else said)


def table_of(results: Sequence[Result]) -> list[str]:
    size = max(len("service"), *(len(result.service) for result in results))
    words = max(len("result"), *(len(result.result) for result in results))
    lines = ["", f"{'service':<{size}}  {'result':<{words}}  {'took':>9}  why"]
    for result in results:
        taken = "" if result.seconds is None else f"{result.seconds:.1f} s" if result.seconds >= 0 else "unknown"
        good = result.exit_code is ExitCode.DONE
        word = colour(f"{result.result:<{words}}", "green" if good else "red")
        why = f"{result.reason}; {result.hint}" if result.hint else result.reason
        lines.append(f"{result.service:<{size}}  {word}  {taken:>9}  {plain(why)}".rstrip())
    return lines


def _print_json(what: str, name: str, results: list[Result]) -> None:
    data = {
        what: name,
        "ok": all(result.exit_code is ExitCode.DONE for result in results),
        "services": as_data(results),
    }
    say(json.dumps(data, indent=2))
