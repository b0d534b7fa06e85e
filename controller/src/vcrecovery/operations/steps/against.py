"""What would stop a planned move half-way, beside what is seen of the VM and the container."""

from __future__ import annotations

from functools import partial

from vcrecovery.core.episode import Episode
from vcrecovery.operations import records
from vcrecovery.operations.receivers import deaf_receiver
from vcrecovery.operations.serving import standby_serves
from vcrecovery.operations.steps.moving import against_a_move
from vcrecovery.operations.steps.subject import Subject
from vcrecovery.operations.steps.waiting import against_a_waiting_move
from vcrecovery.plan.on_demand import is_on_demand
from vcrecovery.plan.services import own_virtual_address
from vcrecovery.primary.who_serves import NETWORK_MANAGER
from vcrecovery.transfer.standby_files import is_there

#: A unit that is started at each boot.
_ASKS = "/etc/systemd/system/basic.target.wants/vcrecovery-who-serves.service"


def against(subject: Subject, episode: Episode) -> tuple[str, ...]:
    """Nothing speaks against a failover."""
    if not (episode.request.back or episode.request.planned):
        return ()
    if episode.request.leaves is not None:
        return tuple(against_a_waiting_move(subject, episode))
    if episode.request.moves:
        return tuple(against_a_move(subject, episode))
    found = _against_a_failback(subject, episode) if episode.request.back else []
    found += records.problems(subject.names_after(episode))
    consistency = subject.service.sync.consistency
    if consistency.kind == "native":
        listed = ", ".join(consistency.paths)
        found.append(f"{listed} is replicated by {consistency.by}: nobody can prove here that nothing of it is lost")
    return tuple(found)


def _against_a_failback(subject: Subject, episode: Episode) -> list[str]:
    name, lxd = subject.name, subject.lxd
    by_hand = f"stop it, copy what it has written to its VM, then `vcrecovery standby reset {name}`"
    if is_on_demand(subject.secondary):
        return [f"its VM cannot fetch from secondary {lxd.name}, which is on demand: {by_hand}"]
    if own_virtual_address(subject.service):
        return [f"its VM's own address is the virtual one, which its standby has, and two would have it: {by_hand}"]
    if why := deaf_receiver(lxd):
        return [why]
    if not standby_serves(subject.env, name):
        return [f"its standby is to serve and does not answer; `vcrecovery failover {name}` brings it up"]
    if episode.request.rebuilt:
        return []
    # The standby has what its VM starts at its boot, though masked.
    there = partial(is_there, lxd, name, subject.secondary)
    if not there(_ASKS):
        return ["its VM does not ask at its boot who serves, and would serve beside it: run the role `primary`"]
    if there(NETWORK_MANAGER) and subject.service.primary.unanswered == "serve":
        return ["NetworkManager brings its VM's network up too late to ask who serves: set `primary.unanswered: wait`"]
    return []
