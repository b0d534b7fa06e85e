"""The copy of a standby that serves, on another secondary: made, refreshed, and what was copied from it put aside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass

from vcrecovery.core.drill import size
from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.lxd import Instance, LxdServer
from vcrecovery.drivers.lxd.copies import INCOMPLETE_KEY
from vcrecovery.drivers.lxd.instances import FROZEN, STOPPED
from vcrecovery.errors import ExternalError, RefusedError
from vcrecovery.plan.model import Plan
from vcrecovery.plan.places import is_elsewhere
from vcrecovery.standby import lxcfs
from vcrecovery.standby.container import (
    ACTIVE,
    EPOCH_KEY,
    HAS_ALL_OF_KEY,
    READY_KEY,
    ROLE_KEY,
    SPARE,
    STANDBY,
    STAYS_OFF,
    WAITS_ON_KEY,
    Changes,
    config_of,
    devices_of,
    epoch_of,
    secondary_of,
    storage_and_network,
)
from vcrecovery.transfer.tree_walk import size_of_tree

#: When the copy was whole last, and at which epoch. Empty while none ever was.
COPIED_KEY = "user.vcrecovery.copied"
#: Its value for what stood by, or served, where it is now copied to, and was no copy before.
_ITSELF = "itself"
#: Set while it may be frozen for the last moments of a refresh.
PAUSED_KEY = "user.vcrecovery.paused"
#: The address of its network card, which LXD has chosen.
CARD_KEY = "volatile.eth0.hwaddr"
#: Seconds for one that is put aside to end by itself.
ENDS_WITHIN = 60.0
_DRIVER_OF_MOMENTS = "btrfs"
#: What rsync and LXD say of a full disk, in small letters.
_FULL = "no space left on device"


@dataclass(frozen=True)
class Copied:
    """`at`: from when the files are, in seconds since the epoch; `epoch`: of the failover that had it serve."""

    at: float
    epoch: int


def copied(found: Instance) -> Copied | None:
    """None where no copy was ever whole."""
    try:
        at, epoch = found.config.get(COPIED_KEY, "").split(" ")
        return Copied(float(at), int(epoch))
    except ValueError:
        return None


def is_whole(found: Instance) -> bool:
    """Whether no refresh was cut off."""
    return not found.config.get(INCOMPLETE_KEY)


def copy(
    plan: Plan,
    name: str,
    source: LxdServer,
    here: LxdServer,
    epoch: int,
    clock: Clock,
    *,
    timeout: float,
    pause: bool = False,
    with_memory: bool = False,
    waits_on: str = "",
    tell: Callable[[str], None] = lambda _text: None,
    look: Callable[[], None] = lambda: None,
) -> None:
    """Makes the container of `name` on `here` what it is on `source`. `plan` has the service on `here`.

    `with_memory`: so that it can go on there as it is, with the same network card. A copy that LXD has made without
    is made anew.
    `waits_on`: the secondary on which the standby waits for its VM meanwhile; empty where it serves.

    Raises ExternalError, and RefusedError when `here` has another container of that name, or one that serves.
    """
    service = plan.services[name]
    secondary = secondary_of(plan, service)
    found = here.get(name)
    if found is None:
        storage_and_network(secondary, here, Changes())
    else:
        _refuse_what_is_no_copy(here, found, epoch, at_home=not is_elsewhere(service))
        from vcrecovery.standby.restore_points import gone_with_a_copy  # a failover to it does without

        if why := gone_with_a_copy(here, name):
            raise RefusedError(f"{name} is not copied: {why}")
        if with_memory and not found.stateful:
            here.delete(name)
            found = None
    began = clock.now()
    config = {
        **config_of(service, secondary, lxcfs.files() if here.is_here else ()),
        **STAYS_OFF,
        ROLE_KEY: SPARE,
        READY_KEY: "true",
        EPOCH_KEY: str(epoch),
        WAITS_ON_KEY: waits_on,
        HAS_ALL_OF_KEY: "",
        COPIED_KEY: "" if found is None else _was_before(found),
    }
    if with_memory:
        config |= {key: value for key, value in source.must_get(name).config.items() if key == CARD_KEY}

    def ours(now: Instance) -> Instance:
        """Whoever fails over to it meanwhile has claimed it."""
        return of_no_later_epoch(here, now, epoch)

    pauses = pause and source.pool_driver(_pool_of(source, name)) != _DRIVER_OF_MOMENTS
    with _marked_as_paused(source, name) if pauses else nullcontext():
        try:
            here.pull(
                source,
                name,
                config,
                devices_of(service, secondary),
                timeout,
                paused=pauses,
                takes_memory=with_memory,
                tell=tell,
                look=look,
                check=ours,
            )
        except ExternalError as error:
            if _FULL not in error.message.lower():
                raise
            raise _does_not_fit(name, source, here, secondary.storage_pool) from error
    names = f"nameserver {secondary.network.address.ip}\n".encode()
    if here.file(name, "/etc/resolv.conf") != names and here.file(name, "/etc") is not None:
        here.write_file(name, "/etc/resolv.conf", names)
    note = {COPIED_KEY: f"{began!r} {epoch}"}
    here.reconfigure(lambda: ours(here.must_get(name)), lambda _found: note)


def _was_before(found: Instance) -> str:
    """For COPIED_KEY, up to the end of a copy to it."""
    return found.config.get(COPIED_KEY) or (_ITSELF if is_whole(found) else "")


def _does_not_fit(name: str, source: LxdServer, here: LxdServer, pool: str) -> ExternalError:
    """What of it is there goes, where none was ever whole: its neighbours need the room.

    Not what was there by itself: it has restore points, and all but what was written since.
    """
    found, takes, free = here.get(name), "", ""
    if found is not None and not found.config.get(COPIED_KEY):
        with suppress(ExternalError):
            here.delete(name)
    with suppress(ExternalError):
        if source.is_here:
            takes = f" takes {size(size_of_tree(source.rootfs(_pool_of(source, name), name)))}"
        free = f", and {size(here.pool_free(pool))} are free"
    return ExternalError(
        f"pool {pool} of {here.name} is full: the copy of {name}{takes or ' does not fit'}{free}",
        "make room there, then run it again",
    )


@contextmanager
def _marked_as_paused(source: LxdServer, name: str) -> Iterator[None]:
    """Whoever finds it frozen knows that nobody has wished for that; an LXD that ends meanwhile leaves it so."""

    def mark(text: str) -> None:
        source.reconfigure(lambda: source.must_get(name), lambda _found: {PAUSED_KEY: text})

    mark("true")
    try:
        yield
    finally:
        with suppress(ExternalError):  # whoever looks next thaws it
            if source.must_get(name).status != FROZEN:
                mark("")


def is_left_paused(found: Instance) -> bool:
    """Whether a copy has frozen it, which goes on or was cut off."""
    return found.status == FROZEN and bool(found.config.get(PAUSED_KEY))


def thaw(lxd: LxdServer, name: str, timeout: float) -> bool:
    """Of a container that a copy has left frozen; whether it was. The caller holds its keeping: none goes on."""
    found = lxd.get(name)
    if found is None or not is_left_paused(found):
        return False
    lxd.unfreeze(name, timeout)
    lxd.reconfigure(lambda: lxd.must_get(name), lambda _found: {PAUSED_KEY: ""})
    return True


def put_aside(
    lxd: LxdServer,
    name: str,
    epoch: int,
    timeout: float = ENDS_WITHIN,
    *,
    waits_on: str = "",
    with_memory: bool = False,
) -> Instance | None:
    """Has a container neither serve nor wait any more, since another one does from `epoch` on; as it is then, None
    without one. `waits_on`: the secondary of the other one, if that waits.

    `with_memory`: that other one is to go on with it. Raises ExternalError when that is not proved, and
    RefusedError for one of a later epoch.
    """
    if lxd.get(name) is None:
        return None
    keys = {ROLE_KEY: SPARE, EPOCH_KEY: str(epoch), WAITS_ON_KEY: waits_on, HAS_ALL_OF_KEY: "", **STAYS_OFF}

    found = lxd.set_keys(lambda: of_no_later_epoch(lxd, lxd.must_get(name), epoch), keys)
    if found.status != STOPPED or (with_memory and not found.stateful):
        (lxd.stop_with_memory if with_memory else lxd.shut_down)(name, timeout)
    ended = lxd.get(name)
    if ended is not None and ended.status != STOPPED:
        raise ExternalError(
            f"container {name} on {lxd.name} has not stopped within {timeout:.0f} s: {ended.status}",
            f"`{lxd.client} stop --force {name}` there",
        )
    return ended


def of_no_later_epoch(lxd: LxdServer, found: Instance, epoch: int) -> Instance:
    """The same. Raises RefusedError for one that another controller has claimed since."""
    if epoch_of(found) > epoch:
        raise RefusedError(
            f"container {found.name} on {lxd.name} belongs to epoch {found.config[EPOCH_KEY]}; this controller is at "
            f"{epoch}",
            "another controller has failed over since: see its `vcrecovery history`",
        )
    return found


def _refuse_what_is_no_copy(lxd: LxdServer, found: Instance, epoch: int, *, at_home: bool) -> None:
    """`at_home`: it stands by here, so it may be one that was just made."""
    name = found.name
    if found.config.get(ROLE_KEY) not in (ACTIVE, SPARE, *([STANDBY] if at_home else [])):
        raise RefusedError(
            f"secondary {lxd.name} has a container {name} that is no copy of this service",
            "rename that container or the service",
        )
    if epoch_of(found) > epoch:
        raise RefusedError(
            f"container {name} on {lxd.name} belongs to epoch {found.config[EPOCH_KEY]}",
            "another controller has failed over since: see its `vcrecovery history`",
        )
    if found.status != STOPPED:
        raise RefusedError(f"container {name} runs on secondary {lxd.name}", f"`{lxd.client} stop {name}` there first")


def _pool_of(lxd: LxdServer, name: str) -> str:
    return lxd.must_get(name).devices["root"]["pool"]
