"""The crash of all primaries, until each service's name leads to its standby and that answers."""

from __future__ import annotations

import copy
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from vcrecovery.plan.modes import Mode
from vcrecovery_lab import libvirt
from vcrecovery_lab.pair.process import start
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.run import LabError
from vcrecovery_lab.secondary_vm.site import HOST, NETWORK, SECONDARY, Site, uuid_of, virtual_machine

from .answers import Watch, answers
from .names import addresses_of
from .overhead_site import ZONE, dns_of, name_server, simulated_lxd
from .rounds import Took
from .services import TIMEOUTS
from .stage_containers import PATIENCE, PROGRAM, blank_primaries, standing_by
from .stage_vms import StandbyVms

Places = Mapping[str, tuple[str, int]]


def crash_of_containers(folder: Path, site: Site, mode: Mode) -> Took:
    """With standbys in the site's secondary, which wait in `mode`. `folder` is made."""
    folder.mkdir()
    places = {name: (site.standbys[name], port) for name, port in site.services.items()}
    with standing_by(site, mode):
        return crash(folder, site.data, places)


def crash_of_vms(folder: Path, standbys: StandbyVms) -> Took:
    """With VMs that are off: to the controller, cold containers of an LXD that starts a VM in place of each."""
    folder.mkdir()
    with standbys.switched_off(), simulated_lxd(folder, list(standbys.places), standbys.start_command) as lxd:
        return crash(folder, plan_of_vms(folder, lxd, standbys.places), standbys.places)


def plan_of_vms(folder: Path, lxd: Path, places: Places) -> dict[str, Any]:
    return {
        "version": 1,
        "state_dir": str(folder / "state"),
        "hypervisors": {HOST: {"uri": "qemu:///system"}},
        "secondaries": {
            SECONDARY: {
                "lxd": str(lxd),
                "starts_at_once": len(places),
                "network": {"bridge": "br0", "address": f"{NETWORK}.20/24"},
                "receiver": {"address": "127.0.0.1"},
            }
        },
        "services": {
            name: {
                "primary": {"hypervisor": HOST, "uuid": uuid_of(name), "address": _primary_of(number)},
                "standby": {"secondary": SECONDARY, "address": address},
                "ports": [port],
                "timeouts": TIMEOUTS,
            }
            for number, (name, (address, port)) in enumerate(places.items())
        },
    }


def _primary_of(number: int) -> str:
    """As in the secondary's site."""
    return virtual_machine("", 31 + number).ip


def with_names(plan: Mapping[str, Any], dns: Mapping[str, Any]) -> dict[str, Any]:
    """The plan with a name for each service; nothing cools down, for they crash again and again."""
    made: dict[str, Any] = copy.deepcopy({**plan, "dns": dns})
    made["detection"] = {"cool_down": "1ms"}
    for name, service in made["services"].items():
        service["dns"] = [{"name": f"{name}.{ZONE}", "zone": ZONE}]
    return made


def crash(folder: Path, plan: Mapping[str, Any], places: Places) -> Took:
    primaries = {name: service["primary"]["address"] for name, service in plan["services"].items()}
    with ExitStack() as ends:
        dns_port = ends.enter_context(name_server(folder, primaries))
        file, log = folder / "with-names.yml", folder / "watch.log"
        file.write_text(yaml.safe_dump(with_names(plan, dns_of(folder, dns_port))))
        blanks = ends.enter_context(blank_primaries(places))
        watch = start([PROGRAM, "watch", "--verbose", "--plan", file], log)
        ends.callback(watch.wait, PATIENCE)
        ends.callback(watch.terminate)
        for name in places:
            wait_until(partial(_is_watched, log, name), f"{name} to be watched: see {log}", PATIENCE, 0.1)
        pids = {name: _running(blank, name) for name, blank in blanks.items()}
        asks = {name: through(name, place, dns_port) for name, place in places.items()}
        early = [name for name, ask in asks.items() if ask()]
        if early:
            raise LabError(f"{', '.join(early)}: the name leads to the standby before anything has crashed")
        asked = Watch(asks, PATIENCE)
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
        return asked.took()


def through(name: str, place: tuple[str, int], dns_port: int) -> Callable[[], bool]:
    """Whether a service's name leads to this place, and that answers."""

    def ask() -> bool:
        return addresses_of(f"{name}.{ZONE}", dns_port) == [place[0]] and answers(*place)

    return ask


def _is_watched(log: Path, name: str) -> bool:
    return f"{name}: the primary is running" in log.read_text()


def _running(blank: str, name: str) -> int:
    pid = libvirt.pid(blank, uuid_of(name))
    if pid is None:
        raise LabError(f"{blank} does not run")
    return pid
