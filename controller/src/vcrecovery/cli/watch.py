"""`vcrecovery watch`."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from vcrecovery.cli.options import plan_option, read_plan
from vcrecovery.detect.watch import Watch
from vcrecovery.errors import OutsideError
from vcrecovery.recover.failover import automatic, fail_over
from vcrecovery.recover.lock import service_lock
from vcrecovery.recover.outside import Outside, policy_for
from vcrecovery.recover.states import DONE_WORD, Episode, Request, Side, Step
from vcrecovery.recover.world import World
from vcrecovery.sync.package_watch import PackageWatch
from vcrecovery.sync.restore_point_loop import keep_making
from vcrecovery.sync.standby_keeper import StandbyKeeper

log = logging.getLogger("vcrecovery.watch")


class _LogTimeline:
    """Steps as log lines."""

    def begun(self, episode: Episode, step: Step, sentence: str) -> None:
        log.info("%s: epoch %d: %s", episode.service, episode.epoch, sentence)

    def ended(self, episode: Episode, step: Step, at: float, evidence: Mapping[str, Any]) -> None:
        since = at - episode.opened_at
        summary = evidence.get("summary", "")
        log.info("%s: epoch %d: %s after %.3f s: %s", episode.service, episode.epoch, DONE_WORD[step], since, summary)


def _tell_systemd(text: str) -> None:
    """sd_notify(3), where systemd listens."""
    if path := os.environ.get("NOTIFY_SOCKET"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto(text.encode(), f"\0{path[1:]}" if path.startswith("@") else path)


@click.command()
@click.option("--verbose", is_flag=True, help="Also say what was seen and led to nothing.")
@plan_option
def watch(verbose: bool, plan_path: Path) -> None:
    """Watch every primary of the plan and fail over those that crash."""
    level = logging.DEBUG if verbose else logging.INFO
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)-7s %(message)s")
    logging.getLogger("urllib3").setLevel(logging.WARNING)
    plan = read_plan(plan_path)
    world = World(plan)
    stop = threading.Event()

    def recover(service: str, cause: str, detected_at: float) -> Episode:
        def attempt() -> Episode:
            # Between two attempts an operator may take over.
            with service_lock(plan.state_dir, service):
                state = world.journal.state(service)
                if state.side is Side.STANDBY and state.open_episode is None:
                    return world.journal.history(service, 1)[0]
                return fail_over(
                    service,
                    cause,
                    Request(automatic=True, by="watch"),
                    policy=policy_for(world, service),
                    actuator=Outside(world, service),
                    journal=world.journal,
                    clock=world.clock,
                    teller=_LogTimeline(),
                    detected_at=detected_at,
                )

        def on_failure(error: OutsideError, delay: float) -> None:
            log.error("%s: %s; trying again in %.0f s", service, error, delay)

        episode = automatic(attempt, world.clock, on_failure)
        log.info("%s: epoch %d: %s: %s", service, episode.epoch, episode.outcome, episode.reason)
        return episode

    for number in (signal.SIGTERM, signal.SIGINT):
        # A failover under way is left where it is; the journal takes it up at the next start.
        signal.signal(number, lambda *_: stop.set())
    threading.Thread(target=keep_making, args=(plan, World(plan).lxd, world.clock, stop), daemon=True).start()
    threading.Thread(target=PackageWatch(plan, World(plan).lxd, world.clock).run, args=(stop,), daemon=True).start()
    keeper = StandbyKeeper(plan, World(plan).lxd, world.journal, world.clock)
    threading.Thread(target=keeper.run, args=(stop,), daemon=True).start()
    log.info("watching %d service(s) of %s", len(plan.services), plan_path)
    Watch(world, recover).run(stop, ready=lambda: _tell_systemd("READY=1"))
