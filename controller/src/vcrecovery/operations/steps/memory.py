"""A move that takes memory and connections along (CRIU): what speaks against it, and how it goes back."""

from __future__ import annotations

from vcrecovery.drivers.lxd import Instance, LxdServer
from vcrecovery.drivers.lxd.flavour import INCUS
from vcrecovery.drivers.lxd.instances import STOPPED
from vcrecovery.errors import ExternalError
from vcrecovery.operations.steps.subject import Subject
from vcrecovery.standby.promote import promote_again

#: Seconds for CRIU to write a memory down. LXD itself waits for as long as it takes.
WRITTEN_WITHIN = 300.0
#: Seconds for the look into the container, and for a start: LXD needs 30 to notice that CRIU has failed in it.
_LOOKS_WITHIN, STARTS_WITHIN = 10.0, 120.0
#: What has LXD itself map the owners of files.
_OFF = "set LXD_IDMAPPED_MOUNTS_DISABLE=1 for LXD, and restart it and the container,"
#: Namespaces that CRIU cannot take where they differ from those of the container's init.
_OWN = ("uts", "ipc", "pid", "user")
#: Tells of each process in a namespace of its own, and of file systems that CRIU does not know.
_LOOK = f"""\
for kind in {" ".join(_OWN)}; do
  init=$(readlink /proc/1/ns/$kind) || exit 1
  for process in /proc/[0-9]*; do
    ours=$(readlink $process/ns/$kind) || continue
    [ "$ours" = "$init" ] && continue
    read -r name < $process/comm && echo "$name ($kind namespace)"
  done
done
while read -r _ _ _ _ place rest; do
  case "$rest" in *" - ramfs "*) echo "the ramfs at $place";; esac
done < /proc/1/mountinfo
exit 0
"""


def problems(subject: Subject, source: LxdServer) -> list[str]:
    """Why memory and connections cannot come along; each in one line with the way out."""
    standby, spare = subject.service.standby, subject.service.standby.spare
    here = subject.lxd
    found = []
    if spare is not None and (standby.address, standby.address6) != (spare.address, spare.address6):
        found.append(
            f"its address would change from {spare.address} to {standby.address}, and its connections would break: "
            "give its spare the same one, in a network that both secondaries share, or leave --how out"
        )
    for lxd in (source, here):
        why = checkpoints_problem(lxd)
        found += [why] if why else []
        driver = lxd.pool_driver(subject.env.plan.secondaries[lxd.name].storage_pool)
        if driver not in (None, "dir"):
            found.append(f"{lxd.name}: a memory is carried by pools of driver dir alone, not {driver}")
    found += _differences(source, here)
    if source.must_get(subject.name).config.get("volatile.last_state.idmap") == "[]":
        found.append(
            f"the kernel maps the owners of its files, which CRIU does not bring back: {_OFF} on both secondaries"
        )
    if not found and (inside := _cannot_be_taken(subject.name, source)):
        found.append(f"CRIU cannot take what runs in it: {', '.join(inside)}; leave --how out")
    return found


def _differences(source: LxdServer, here: LxdServer) -> list[str]:
    before, after = source.kernel(), here.kernel()
    found = []
    if (before.version, before.architecture) != (after.version, after.architecture):
        said = (f"{lxd.name} {k.version} {k.architecture}" for lxd, k in ((source, before), (here, after)))
        found.append(f"the kernels differ ({', '.join(said)}): boot both secondaries with the same one")
    if before.maps_owners != after.maps_owners:
        found.append(
            f"one of the secondaries has its kernel map the owners of files, the other has not: {_OFF} on both"
        )
    return found


def checkpoints_problem(lxd: LxdServer) -> str:
    """Why there is no CRIU that works; empty when there is."""
    said = lxd.says_of_checkpoints()
    if lxd.flavour is INCUS:
        return f"secondary {lxd.name} has Incus, with which no memory is moved"
    if not said:
        return (
            f"secondary {lxd.name} has no CRIU that was set up: `secondary_stateful_moves: true` for the role "
            "`secondary` does that"
        )
    state, _, rest = said.partition(" ")
    if state != "ok":
        return f"CRIU on secondary {lxd.name} does not work: {rest or said}"
    if (kernel := lxd.kernel().version) not in rest.split():
        return f"CRIU on secondary {lxd.name} was not checked with its kernel {kernel}: run the role `secondary`"
    return ""


def refuse_a_copy_without(subject: Subject) -> None:
    """Raises ExternalError where its copy could not be started from a memory."""
    found = subject.lxd.get(subject.name)
    if found is None or not found.stateful:
        raise ExternalError(f"its copy on {subject.lxd.name} was made without its memory", "run it again")


def goes_on(subject: Subject, source: LxdServer, instance: Instance) -> str:
    """Has it go on where it was with its memory, which is there still; empty when it has to boot."""
    found = source.get(instance.name) or instance
    if found.status != STOPPED or not found.stateful:
        return ""
    try:
        return promote_again(source, found, max(STARTS_WITHIN, subject.service.timeouts.start), from_memory=True)
    except ExternalError:
        # It serves again at any rate.
        return ""


def _cannot_be_taken(name: str, source: LxdServer) -> list[str]:
    """What is seen in it that CRIU has no way to write down. Nothing, where it has no tools to look with."""
    try:
        status, said = source.ask(name, ["/bin/sh", "-c", _LOOK], _LOOKS_WITHIN)
    except ExternalError:
        return []
    return sorted(set(said.splitlines())) if status == 0 else []
