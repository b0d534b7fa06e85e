"""The standby container: created empty, given its own identity, guarded against starting by itself."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.lxd import Instance, LxdServer, TryAgainError
from vcrecovery.drivers.lxd.instances import STOPPED
from vcrecovery.drivers.lxd.resources import TELLS_ORDERS
from vcrecovery.errors import ExternalError, RefusedError
from vcrecovery.plan.model import Plan, Secondary, Service
from vcrecovery.standby import lxcfs
from vcrecovery.standby.modes import RAW_KEY, init_of_all, rest_units, with_init_of
from vcrecovery.store.lock import KEEPER_PATIENCE, one_keeper
from vcrecovery.transfer import idmap
from vcrecovery.transfer.failback_orders import ORDER_KEY
from vcrecovery.transfer.rootfs import Rootfs

ROLE_KEY = "user.vcrecovery.role"
EPOCH_KEY = "user.vcrecovery.epoch"
#: Set once LXD has chosen how it maps this container's owners; before that the tree takes no files.
READY_KEY = "user.vcrecovery.ready"
#: Set while a failback keeps what the standby was at its stop: the tree takes no files meanwhile.
KEEPING_KEY = "user.vcrecovery.keeping"
#: Of a spare of one that waits elsewhere: the secondary on which it does. Else it serves there.
WAITS_ON_KEY = "user.vcrecovery.waits-on"
#: Of one that waits where it was moved to: the secondary that it came from. It has all that was ever sent there.
HAS_ALL_OF_KEY = "user.vcrecovery.has-all-of"
#: The epoch of a move that was taken back to it: of two that were to take files then, it is the one.
TAKEN_BACK_KEY = "user.vcrecovery.taken-back"
#: The last: of a container that neither stands by nor serves: a copy of one that does, or what one was copied from.
STANDBY, ACTIVE, SPARE = "standby", "active", "spare"
#: The storage drivers that keep a stopped container's files where they can be written.
DRIVERS = ("dir", "btrfs")
#: Where `vcrecovery receive` finds the standbys of this machine.
REGISTER = "standbys"


@dataclass
class Changes:
    """What `apply` had to do; empty when all was as it should be."""

    made: list[str] = field(default_factory=list)

    def note(self, changed: bool, what: str) -> None:
        if changed:
            self.made.append(what)


def secondary_of(plan: Plan, service: Service) -> Secondary:
    return plan.secondaries[service.standby.secondary]


def config_of(service: Service, secondary: Secondary, lxcfs_files: Sequence[str]) -> dict[str, str]:
    """The configuration of a standby's container, as LXD has it; `lxcfs_files` are those of the secondary."""
    network, network6 = secondary.network.address, secondary.network.address6
    # The address is set from outside, so that it does not depend on the network scripts of the primary's system.
    lines = [
        f"lxc.net.0.ipv4.address = {service.standby.address}/{network.network.prefixlen}",
        f"lxc.net.0.ipv4.gateway = {network.ip}",
    ]
    if service.standby.address6 and network6:
        lines += [
            f"lxc.net.0.ipv6.address = {service.standby.address6}/{network6.network.prefixlen}",
            f"lxc.net.0.ipv6.gateway = {network6.ip}",
        ]
    lines += init_of_all(service.first_units)
    lines += lxcfs.lines(lxcfs_files)
    return {
        "boot.autostart": "false",
        **_limits_of(service),
        RAW_KEY: "\n".join(lines),
        ROLE_KEY: STANDBY,
    }


def _limits_of(service: Service) -> dict[str, str]:
    """None where the plan has none: an operator may have set some by hand."""
    limits = service.limits
    if (limits.cpu, limits.memory, limits.processes) == (None, None, None):
        return {}
    return {
        "limits.cpu": "" if limits.cpu is None else str(limits.cpu),
        "limits.memory": "" if limits.memory is None else f"{limits.memory}B",
        "limits.processes": "" if limits.processes is None else str(limits.processes),
    }


def devices_of(service: Service, secondary: Secondary) -> dict[str, dict[str, str]]:
    """Its disk and its network card."""
    disk = service.limits.disk
    return {
        "root": {
            "type": "disk",
            "path": "/",
            "pool": secondary.storage_pool,
            **({} if disk is None else {"size": f"{disk}B"}),
        },
        "eth0": {"type": "nic", "nictype": "bridged", "parent": secondary.network.bridge, "name": "eth0"},
    }


#: What keeps LXD from starting a container with its machine.
STAYS_OFF = {"boot.autostart": "false", "boot.autostart.priority": ""}


def epoch_of(found: Instance) -> int:
    """The epoch of the operation that claimed the container last; 0: none has."""
    return int(found.config.get(EPOCH_KEY) or 0)


def has_gone_back(found: Instance | None, epoch: int) -> bool:
    """Whether it stands by, although by the journal it serves since `epoch`: its VM does, and the journal is behind.

    Another controller has gone back to it, or this one's machine was put back to a backup of before.
    """
    return found is not None and found.config.get(ROLE_KEY) == STANDBY and epoch_of(found) >= epoch


def boots_with_its_machine(plan: Plan, name: str) -> dict[str, str]:
    """What has LXD start a container that serves when its machine boots: those first that others need.

    One that has a spare may serve there by then: the watcher starts it, where it is to be.
    """
    if plan.services[name].standby.spare is not None:
        return STAYS_OFF
    return {"boot.autostart": "true", "boot.autostart.priority": str(len(_in_need_of(plan, name)))}


def _in_need_of(plan: Plan, name: str) -> set[str]:
    """The services that cannot be up without it, directly or through others."""
    found: set[str] = set()
    asked = [name]
    while asked:
        need = asked.pop()
        new = {other for other, service in plan.services.items() if need in service.needs} - found
        found |= new
        asked += new
    return found


def _differs(found: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in wanted.items() if (found.get(key) or "") != value}


def apply(plan: Plan, name: str, lxd: LxdServer, clock: Clock, *, stands_by: bool = False) -> Changes:
    """Brings the standby of service `name` to what the plan says, on the secondary itself.

    A standby that serves is left alone. So is one that has gone on to serve elsewhere, unless `stands_by`: the caller
    knows that its primary serves. Raises ExternalError when LXD cannot do it, and BusyError when another keeper
    does not come to an end.
    """
    with one_keeper(plan.state_dir, name, KEEPER_PATIENCE, clock):
        return _apply(plan, name, lxd, clock, stands_by=stands_by)


def _apply(plan: Plan, name: str, lxd: LxdServer, clock: Clock, *, stands_by: bool) -> Changes:
    service = plan.services[name]
    secondary = secondary_of(plan, service)
    changes = Changes()
    path = lxd.rootfs(secondary.storage_pool, name)
    wanted = config_of(service, secondary, lxcfs.files())
    storage_and_network(secondary, lxd, changes)
    changes.note(lxd.tell_of_receiver(TELLS_ORDERS), "controllers elsewhere told what the receiver can")
    instance = lxd.get(name)
    if instance is None:
        lxd.create_empty(name, wanted, devices_of(service, secondary))
        changes.note(True, f"container {name} created")
        instance = lxd.must_get(name)
    role = instance.config.get(ROLE_KEY)
    if role == ACTIVE or (role == SPARE and not stands_by):
        return changes
    if ROLE_KEY not in instance.config:
        raise ExternalError(
            f"secondary {lxd.name} has a container {name} that VCRecovery did not make",
            "rename that container or the service",
        )
    # How it boots in its mode is the keeper's.
    wanted[RAW_KEY] = with_init_of(instance.config.get(RAW_KEY, ""), wanted[RAW_KEY])
    config = _differs(instance.config, wanted)
    devices = {n: d for n, d in devices_of(service, secondary).items() if instance.devices.get(n) != d}
    if config or devices:
        lxd.configure(instance, config, devices)
        changes.note(True, f"container {name} set to the plan")
    if instance.config.get(READY_KEY) != "true":
        _choose_id_map(lxd, name, path, clock)
        changes.note(True, "ID map chosen")
    instance = lxd.must_get(name)
    tree = Rootfs(path, idmap.of_tree(name, instance.config, path))
    own_identity(tree, name, service, secondary, changes)
    changes.note(_register(plan.state_dir, name, lxd.socket, path), "receiver told")
    return changes


def set_up_again(plan: Plan, name: str, lxd: LxdServer, claim: Mapping[str, str]) -> None:
    """After a restore, which brings back the configuration of then: what the plan says, its own identity, `claim`."""
    if not lxd.is_here:
        # It has served as it was then: with an identity, and all that its secondary gives it.
        lxd.set_keys(lambda: lxd.must_get(name), {**claim, KEEPING_KEY: ""})
        return
    service = plan.services[name]
    secondary = secondary_of(plan, service)
    path = lxd.rootfs(secondary.storage_pool, name)
    wanted = {**config_of(service, secondary, lxcfs.files()), **claim, KEEPING_KEY: ""}
    instance = lxd.reconfigure(lambda: lxd.must_get(name), lambda _found: wanted, devices_of(service, secondary))
    tree = Rootfs(path, idmap.of_tree(name, instance.config, path))
    try:
        own_identity(tree, name, service, secondary, Changes())
    except OSError as error:
        # Such as a watcher whose unit shows it that place read-only.
        raise ExternalError(
            f"{path} cannot be written: {error.strerror}", f"call `vcrecovery failover {name}` as root there"
        ) from error


def stand_by_again(lxd: LxdServer, name: str) -> None:
    """Makes a container that served a standby again. Raises RefusedError while it runs."""
    claim: tuple[str | None, str | None] | None = None

    def read() -> Instance:
        nonlocal claim
        instance = lxd.must_get(name)
        if instance.status != STOPPED:
            raise RefusedError(f"container {name} runs on secondary {lxd.name}", f"`{lxd.client} stop {name}` first")
        found = (instance.config.get(ROLE_KEY), instance.config.get(EPOCH_KEY))
        # What LXD writes at this moment is nothing to us; what another controller writes holds.
        claim = claim or found
        # Our own write, which LXD has made although it said that it could not: a full disk had no room for its notes.
        if found not in (claim, (STANDBY, claim[1])):
            raise ExternalError(f"another controller has just claimed container {name}", "see its `vcrecovery history`")
        return instance

    gone = dict.fromkeys((KEEPING_KEY, ORDER_KEY, WAITS_ON_KEY, HAS_ALL_OF_KEY), "")

    def keys(found: Instance) -> dict[str, str]:
        # The one that it is taken back from may be away, and not know.
        back = {TAKEN_BACK_KEY: found.config.get(EPOCH_KEY, "")} if found.config.get(WAITS_ON_KEY) else {}
        return {ROLE_KEY: STANDBY, **gone, **back, **STAYS_OFF}

    lxd.reconfigure(read, keys)


def let_files_in(lxd: LxdServer, read: Callable[[], Instance]) -> None:
    """What a failback keeps is kept, or given up. Raises what `read` does, which gives the container."""
    lxd.reconfigure(read, lambda found: {KEEPING_KEY: ""} if KEEPING_KEY in found.config else {})


def storage_and_network(secondary: Secondary, lxd: LxdServer, changes: Changes) -> None:
    pool, network, vm = secondary.storage_pool, secondary.network, secondary.vm
    driver = lxd.pool_driver(pool)
    if driver is None:
        lxd.create_pool(pool, vm.pool_folder if vm is not None else "")
        changes.note(True, f"storage pool {pool} created")
    elif driver not in DRIVERS:
        raise ExternalError(
            f"storage pool {pool} of secondary {lxd.name} has driver {driver}, which shows a container's files only "
            f"while it runs; standbys need a pool with driver {' or '.join(DRIVERS)}",
            "name another pool in the plan; one that does not exist is created",
        )
    if not lxd.network_exists(network.bridge):
        card = vm.standbys_card if vm is not None else ""
        lxd.create_network(network.bridge, str(network.address), str(network.address6 or "none"), card)
        changes.note(True, f"network {network.bridge} created")


def _choose_id_map(lxd: LxdServer, name: str, path: Path, clock: Clock) -> None:
    """Lets LXD decide how it maps owners while the tree is empty.

    LXD decides at a container's first start, and where the kernel has no idmapped mounts for it, it changes the owner
    of every file then. On a full tree that walk would be part of the recovery time. The start of an empty tree ends
    right after that decision, since there is no init to run.
    """
    path.mkdir(mode=0o755, exist_ok=True)
    try:
        lxd.start(name, timeout=30)
    except ExternalError as error:
        if "forkstart" not in error.message:
            raise
    deadline = clock.steady() + 30
    while True:
        instance = lxd.must_get(name)
        if instance.status == STOPPED:
            # LXD still writes keys of its own for a moment.
            with contextlib.suppress(TryAgainError):
                lxd.configure(instance, {READY_KEY: "true"})
                return
        elif instance.running:
            lxd.stop(name, timeout=10)
        if clock.steady() > deadline:
            raise ExternalError(
                f"container {name} does not stop: {instance.status}", f"try `{lxd.client} stop -f {name}`"
            )
        clock.sleep(0.1)


def own_identity(tree: Rootfs, name: str, service: Service, secondary: Secondary, changes: Changes) -> None:
    """Makes a tree that came from a primary the standby's own."""
    from vcrecovery.excludes import machine_specific  # with its package, which a failover does without

    for folder, mode in (("/dev", 0o755), ("/proc", 0o555), ("/sys", 0o555), ("/run", 0o755), ("/tmp", 0o1777)):  # noqa: S108
        changes.note(tree.folder(folder, mode), f"folder {folder}")
    files = {
        "/etc/hostname": f"{name}\n",
        "/etc/fstab": "# A standby mounts nothing of its primary's.\n",
        "/etc/network/interfaces": "auto lo\niface lo inet loopback\n",
        "/etc/resolv.conf": f"nameserver {secondary.network.address.ip}\n",
    }
    for inside, text in files.items():
        changes.note(tree.file(inside, text.encode()), inside)
    if not tree.read("/etc/machine-id", 1):
        # Without one, systemd takes the boot for the first ever and enables units by its presets.
        changes.note(tree.file("/etc/machine-id", f"{uuid.uuid4().hex}\n".encode(), 0o444), "/etc/machine-id")
    for unit in machine_specific.MASKED_UNITS:
        changes.note(tree.link(machine_specific.unit_path(unit), "/dev/null"), f"{unit} masked")
    for generator in machine_specific.MASKED_GENERATORS:
        changes.note(tree.link(machine_specific.generator_path(generator), "/dev/null"), f"{generator} masked")
    for unit, text in rest_units(service.first_units).items():
        rest = tree.file(machine_specific.unit_path(unit), text.encode())
        changes.note(rest, f"{unit}, first units: {' '.join(service.first_units) or 'none'}")
    if service.standby.host_keys == "own" and not tree.read("/etc/ssh/ssh_host_ed25519_key", 1):
        _make_host_key(tree)
        changes.note(True, "SSH host key made")


def _make_host_key(tree: Rootfs) -> None:
    # Not by ssh-keygen, whose file would stay somewhere when we are killed. Loaded for those only that need it.
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption())
    # The private one last: where it is, both are.
    tree.file("/etc/ssh/ssh_host_ed25519_key.pub", public + b"\n")
    tree.file("/etc/ssh/ssh_host_ed25519_key", private, 0o600)


def register(plan: Plan, name: str, lxd: LxdServer, secondary: str) -> bool:
    """Has the receiver of this machine, which is that secondary, know where the container is, or will be.

    Whether that changed anything. Raises ExternalError on another machine.
    """
    return _register(plan.state_dir, name, lxd.socket, lxd.rootfs(plan.secondaries[secondary].storage_pool, name))


def _register(state_dir: Path, name: str, socket: Path, rootfs: Path) -> bool:
    """Writes what the receiver needs, where it finds it without reading the plan."""
    folder = state_dir / REGISTER
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.json"
    text = json.dumps({"socket": str(socket), "container": name, "rootfs": str(rootfs)}, indent=1) + "\n"
    if file.exists() and file.read_text() == text:
        return False
    scratch = file.with_suffix(".new")
    scratch.write_text(text)
    scratch.replace(file)
    return True
