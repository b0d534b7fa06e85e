"""The operator's own commands that a plan has run on the controller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from shutil import which

from vcrecovery.plan.hooks import HookCommand, Hooks
from vcrecovery.plan.model import Hypervisor, Plan, Secondary
from vcrecovery.plan.problems import Key, dotted


def missing_commands(plan: Plan) -> list[str]:
    """Those that this machine does not have, a line each. Whether the others work is not tried."""
    return [
        f"{dotted(key)}: this machine has no command {command[0]} that it can run; the controller's needs it"
        for key, command in _commands(plan)
        if which(command[0]) is None
    ]


def _commands(plan: Plan) -> Iterator[tuple[Key, Sequence[str]]]:
    yield from _fences("hypervisors", plan.hypervisors)
    yield from _fences("secondaries", plan.secondaries)
    elastic = plan.balance.elastic
    if elastic is not None and elastic.provisioner.command is not None:
        yield ("balance", "elastic", "provisioner", "command"), elastic.provisioner.command
    yield from _hooks((), plan.hooks)
    for name, service in plan.services.items():
        for index, port in enumerate(service.ports):
            if port.command is not None:
                yield ("services", name, "ports", index, "command"), port.command
        yield from _hooks(("services", name), service.hooks)


def _fences(of: str, machines: Mapping[str, Hypervisor] | Mapping[str, Secondary]) -> Iterator[tuple[Key, list[str]]]:
    for name, machine in machines.items():
        if machine.fence is not None:
            yield (of, name, "fence", "command"), machine.fence.command


def _hooks(of: Key, hooks: Hooks) -> Iterator[tuple[Key, list[str]]]:
    moments: dict[str, Sequence[HookCommand]] = {
        "before_start": hooks.before_start,
        "after_switch": hooks.after_switch,
        "on_refused": hooks.on_refused,
    }
    for moment, commands in moments.items():
        for index, hook in enumerate(commands):
            yield (*of, "hooks", moment, index, "command"), hook.command
