"""`vcrecovery watch`."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from vcrecovery.cli.options import plan_option, read_plan
from vcrecovery.cli.systemd import tell_systemd
from vcrecovery.detect.watch import Watch
from vcrecovery.recover.states import DONE_WORD, Episode, Step
from vcrecovery.recover.unattended import Unattended
from vcrecovery.recover.world import World
from vcrecovery.sync.package_watch import PackageWatch
from vcrecovery.sync.restore_point_loop import keep_making

log = logging.getLogger("vcrecovery.watch")


class _LogTimeline:
    """Steps as log lines."""

    def begun(self, episode: Episode, step: Step, sentence: str) -> None:
        log.info("%s: epoch %d: %s", episode.service, episode.epoch, sentence)

    def ended(self, episode: Episode, step: Step, at: float, evidence: Mapping[str, Any]) -> None:
        since = at - episode.opened_at
        summary = evidence.get("summary", "")
        log.info("%s: epoch %d: %s after %.3f s: %s", episode.service, episode.epoch, DONE_WORD[step], since, summary)


def _take_zabbix_events(world: World, recover: Unattended, stop: threading.Event) -> None:
    """Where the plan names Zabbix's API. Loaded only then."""
    zabbix = world.plan.zabbix
    if zabbix is None or zabbix.api is None:
        return
    from vcrecovery.detect.zabbix_events import ZabbixEvents
    from vcrecovery.drivers.zabbix import ZabbixServer

    events = ZabbixEvents(world, ZabbixServer(zabbix.api), recover)
    threading.Thread(target=events.run, args=(stop,), name="zabbix-events", daemon=True).start()


@click.command()
@click.option("--verbose", is_flag=True, help="Also say what was seen and led to nothing.")
@plan_option
def watch(verbose: bool, plan_path: Path) -> None:
    """Watch every primary of the plan and fail over those that crash, hang, or lose their hypervisor."""
    level = logging.DEBUG if verbose else logging.INFO
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)-7s %(message)s")
    logging.getLogger("urllib3").setLevel(logging.WARNING)
    plan = read_plan(plan_path)
    world = World(plan)
    stop = threading.Event()
    recover = Unattended(world, _LogTimeline())
    for number in (signal.SIGTERM, signal.SIGINT):
        # A failover under way is left where it is; the journal takes it up at the next start.
        signal.signal(number, lambda *_: stop.set())
    threading.Thread(target=keep_making, args=(plan, World(plan).lxd, world.clock, stop), daemon=True).start()
    threading.Thread(target=PackageWatch(plan, World(plan).lxd, world.clock).run, args=(stop,), daemon=True).start()
    _take_zabbix_events(world, recover, stop)
    log.info("watching %d service(s) of %s", len(plan.services), plan_path)
    Watch(world, recover).run(stop, ready=lambda: tell_systemd("READY=1"))
