"""The clones of standbys that a drill boots: what they keep of the original, and how each of them is removed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vcrecovery.core.drill import clone_name
from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.lxd import Instance, LxdServer, TryAgainError
from vcrecovery.drivers.lxd.instances import STOPPED
from vcrecovery.errors import ExternalError
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.model import Plan
from vcrecovery.standby import lxcfs
from vcrecovery.standby.container import ROLE_KEY, config_of, secondary_of
from vcrecovery.standby.modes import RAW_KEY

#: What marks a clone: neither the receiver nor a keeper takes a container of this role for a standby.
DRILL = "drill"
#: Which controller's it is: others on this machine have a folder of state, and drills, of their own.
OWNER_KEY = "user.vcrecovery.drill"
_OURS = "user.vcrecovery."
#: A pool with driver `dir` copies the whole tree, and removes it file by file.
COPY_TIMEOUT = 3600.0
#: Seconds for a container of a drill to be stopped: nothing in it is worth waiting for.
_STOP_TIMEOUT = 30.0
_EVERY = 0.2


def is_ours(plan: Plan, instance: Instance) -> bool:
    """Whether it is a clone that a drill of this controller made."""
    return instance.config.get(ROLE_KEY) == DRILL and instance.config.get(OWNER_KEY) == str(plan.state_dir)


def config_of_clone(plan: Plan, name: str, original: Instance) -> dict[str, str]:
    """What is set over the configuration of the standby of service `name`; an empty value takes a key away.

    It boots with everything, as a standby that takes over does, whatever level its mode has it wait at.
    """
    service = plan.services[name]
    # Of VCRecovery's own keys none comes along: no epoch, and not what a keeper has noted.
    lost = dict.fromkeys((key for key in original.config if key.startswith(_OURS)), "")
    # What LXD would do to it by itself, or keep from being done.
    lost |= dict.fromkeys(
        (key for key in original.config if key.startswith(("boot.", "snapshots.", "security.protection."))), ""
    )
    return {
        **lost,
        "boot.autostart": "false",
        RAW_KEY: config_of(service, secondary_of(plan, service), lxcfs.files())[RAW_KEY],
        ROLE_KEY: DRILL,
        OWNER_KEY: str(plan.state_dir),
    }


def devices_of_clone(original: Instance, cable: str) -> dict[str, dict[str, str]]:
    """Its own disk, and a cable into the drill's network. Any other device would lead to what production uses."""
    kept = {name: dict(device) if _is_root(device) else {"type": "none"} for name, device in original.devices.items()}
    return {**kept, "eth0": {"type": "nic", "nictype": "physical", "parent": cable, "name": "eth0"}}


def left_out(original: Instance) -> list[str]:
    """The devices that the clone does without."""
    return sorted(name for name, device in original.devices.items() if name != "eth0" and not _is_root(device))


def _is_root(device: Mapping[str, str]) -> bool:
    return device.get("type") == "disk" and device.get("path") == "/"


def remove(lxd: LxdServer, plan: Plan, clone: str, clock: Clock, timeout: float = COPY_TIMEOUT) -> bool:
    """Removes it, whatever it is doing; whether it was there. Harmless for what is no clone of ours.

    LXD goes on copying for a drill that was killed: that end is waited for. Raises ExternalError after `timeout`
    seconds.
    """
    deadline = clock.steady() + timeout
    there = False
    while True:
        found = lxd.get(clone)
        if found is None or not is_ours(plan, found):
            return there
        there = True
        try:
            if found.status != STOPPED:
                lxd.stop(clone, _STOP_TIMEOUT)
            lxd.delete(clone, timeout)
        except ExternalError as error:
            # It may have ended by itself, or be busy.
            if clock.steady() >= deadline or not (isinstance(error, TryAgainError) or _changed(lxd, found)):
                raise
            clock.sleep(_EVERY)


def _changed(lxd: LxdServer, before: Instance) -> bool:
    now = lxd.get(before.name)
    return now is None or now.status != before.status


def left_over(env: Environment) -> Iterator[tuple[LxdServer, str]]:
    """The clones of this controller on this machine. Of use while no drill lives. Raises ExternalError."""
    for lxd in env.lxd.values():
        if lxd.is_here:
            for instance in lxd.all_with(ROLE_KEY, DRILL):
                if is_ours(env.plan, instance):
                    yield lxd, instance.name


def clean_up(env: Environment, timeout: float = COPY_TIMEOUT) -> list[str]:
    """Removes what drills left that were killed; the names of it. The caller holds the drills' lock.

    Their network went with them. Raises ExternalError when LXD cannot do it.
    """
    return [name for lxd, name in list(left_over(env)) if remove(lxd, env.plan, name, env.clock, timeout)]


def make(lxd: LxdServer, plan: Plan, name: str, original: Instance, cable: str) -> None:
    """Raises ExternalError."""
    config, devices = config_of_clone(plan, name, original), devices_of_clone(original, cable)
    lxd.copy(name, clone_name(name), config, devices, COPY_TIMEOUT)
