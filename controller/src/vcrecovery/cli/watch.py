"""`vcrecovery watch`."""

from __future__ import annotations

import faulthandler
import logging
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import click

from vcrecovery import logs
from vcrecovery.cli.options import plan_option, read_plan
from vcrecovery.cli.systemd import sign_of_life, tell_systemd
from vcrecovery.core.episode import DONE_WORD, Episode, Step
from vcrecovery.core.evidence import Proof
from vcrecovery.detect.freshness_watch import keep_noting
from vcrecovery.detect.health_watch import HealthWatch, keep_asking
from vcrecovery.detect.load_watch import LoadWatch, keep_looking_at_loads
from vcrecovery.detect.quarantine_keeper import hold_returning
from vcrecovery.detect.rounds import Rounds
from vcrecovery.detect.service_down_watch import ServiceDownWatch, keep_looking
from vcrecovery.detect.standby_watch import StandbyWatch, keep_serving_standbys
from vcrecovery.detect.watch import Watch
from vcrecovery.detect.zabbix_events import ZabbixEvents
from vcrecovery.detect.zabbix_health import ZabbixHealth
from vcrecovery.detect.zone_watch import keep_trying_zones
from vcrecovery.drivers.runtime import Event
from vcrecovery.drivers.zabbix import ZabbixServer
from vcrecovery.operations.address_keeper import keep_addresses
from vcrecovery.operations.drill_loop import command, keep_drilling
from vcrecovery.operations.elastic.keeper import LeaseKeeper, keep_leases
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.order_keeper import keep_orders
from vcrecovery.operations.power_keeper import keep_power
from vcrecovery.operations.secondary_power import on_demand_secondaries
from vcrecovery.operations.spare_loop import keep_copying
from vcrecovery.operations.unattended import Unattended
from vcrecovery.plan.model import Plan
from vcrecovery.report.notifier import Notifier
from vcrecovery.report.page_answers import metrics_answers, place_of_metrics, place_of_status, status_answers
from vcrecovery.report.page_server import Answers, Place, keep_serving
from vcrecovery.report.powers import powers
from vcrecovery.report.recent_look import RecentLook
from vcrecovery.report.secondaries import of_secondaries
from vcrecovery.report.zabbix_status import ZabbixServing, ZabbixStatus
from vcrecovery.standby.keeper import StandbyKeeper
from vcrecovery.standby.package_watch import PackageWatch
from vcrecovery.standby.restore_point_loop import keep_making
from vcrecovery.store.load_book import LoadBook
from vcrecovery.store.watcher_beat import WatcherBeat

log = logging.getLogger("vcrecovery.watch")

#: Seconds that the watcher waits at its end for figures to be written.
_LAST_WORDS = 2.0


class LogTimeline:
    """Steps as log lines."""

    def begun(self, episode: Episode, step: Step, sentence: str) -> None:
        logs.about(episode.service, episode.epoch, episode.id)
        log.info("%s: epoch %d: %s", episode.service, episode.epoch, sentence)

    def ended(self, episode: Episode, step: Step, at: float, evidence: Proof) -> None:
        since = at - episode.opened_at
        after = f"{since:.3f} s" if since >= 0 else "an unknown time (the clock was set back)"
        summary = evidence.summary
        log.info("%s: epoch %d: %s after %s: %s", episode.service, episode.epoch, DONE_WORD[step], after, summary)

    def failed(self, episode: Episode, step: Step, at: float, error: str) -> None:
        log.error("%s: epoch %d: %s failed: %s", episode.service, episode.epoch, step, error)

    def waiting(self, episode: Episode, at: float, sentence: str) -> None:
        log.info("%s: epoch %d: %s", episode.service, episode.epoch, sentence)

    def further(self, episode: Episode, at: float, sentence: str) -> None:
        self.waiting(episode, at, sentence)


def _take_zabbix_events(env: Environment, recover: Unattended, stop: Event) -> None:
    """Where the plan names Zabbix's API."""
    zabbix = env.plan.zabbix
    if zabbix is None or zabbix.api is None:
        return
    events = ZabbixEvents(env, ZabbixServer(zabbix.api), recover)
    env.runtime.spawn(lambda: events.run(stop), "zabbix-events")


def _tell_zabbix_health(env: Environment, health: HealthWatch, stop: Event) -> None:
    """Where the plan has a Zabbix."""
    if env.plan.zabbix is not None:
        book, looks = LoadBook(env.plan.state_dir), env.plan.balance.do != "nothing"
        sender = ZabbixHealth(
            env.plan.zabbix,
            health,
            env.clock,
            list(env.plan.secondaries) if looks else [],
            lambda: book.read(env.clock.now()) if looks else {},
            lambda: powers(env),
        )
        env.runtime.spawn(lambda: sender.run(stop), "zabbix-health")


def _tell_others(plan: Plan, health: HealthWatch, now: Callable[[], float], stop: Event) -> None:
    """The pages that the plan asks for, and Zabbix; all of them show the same looks."""
    recent = RecentLook(plan, health=health)
    if plan.zabbix is not None:
        env = recent.env
        status = ZabbixStatus(plan.zabbix, env.clock, lambda: recent.look(0.0).views, lambda: of_secondaries(env))
        serving = ZabbixServing(plan.zabbix, list(plan.services), env.clock, env.journal.who_serves, status.soon)
        for run, name in ((status.run, "zabbix-status"), (serving.run, "zabbix-serving")):
            threading.Thread(target=run, args=(stop,), name=name, daemon=True).start()
    pages: list[tuple[Place, Answers]] = []
    if plan.metrics is not None:
        pages.append((place_of_metrics(plan.metrics), metrics_answers(recent)))
    if plan.status_page is not None:
        pages.append((place_of_status(plan.status_page), status_answers(recent, plan.status_page, now)))
    for place, answers in pages:
        threading.Thread(target=keep_serving, args=(place, answers, stop), name=place.key, daemon=True).start()


def watching(
    env: Environment,
    stop: Event,
    ready: Callable[[], None] = lambda: None,
    beat: Callable[[], None] = lambda: None,
    serve: Callable[[HealthWatch], None] = lambda _health: None,
) -> None:
    """All that goes on while `vcrecovery watch` runs, until `stop` is set.

    `ready` is called once it watches, and `beat` again and again for as long as it does. `serve` gets what there is to
    serve to others.
    """
    plan, runtime = env.plan, env.runtime
    recover = Unattended(env, LogTimeline())
    # Each with connections of its own.
    points, packages, standbys, addresses, spares = (env.another() for _ in range(5))
    runtime.spawn(lambda: keep_making(plan, points.lxd, env.journal, env.clock, stop), "restore-points")
    runtime.spawn(lambda: PackageWatch(plan, packages.lxd, env.clock).run(stop), "packages")
    keeper = StandbyKeeper(plan, standbys.lxd, env.journal, env.clock, runtime)
    runtime.spawn(lambda: keeper.run(stop), "standbys")
    runtime.spawn(lambda: keep_addresses(addresses, stop), "addresses")
    runtime.spawn(lambda: keep_copying(spares, stop, LogTimeline()), "spares")
    if on_demand_secondaries(env):
        powers = env.another()
        runtime.spawn(lambda: keep_power(powers, stop), "powers")
    rounds = Rounds()
    health = HealthWatch(env.another(), rounds)
    runtime.spawn(lambda: keep_asking(health, stop), "services")
    serve(health)
    standbys_that_serve = env.another()
    watch_standbys = StandbyWatch(standbys_that_serve, recover, health, rounds)
    runtime.spawn(lambda: keep_serving_standbys(watch_standbys, standbys_that_serve, stop), "standbys-that-serve")
    services_down = ServiceDownWatch(env.another(), recover, health, rounds)
    runtime.spawn(lambda: keep_looking(services_down, stop), "services-down")
    if plan.balance.do != "nothing":
        loads = LoadWatch(env.apart(), LogTimeline(), rounds, recover.working_on)
        runtime.spawn(lambda: keep_looking_at_loads(loads, stop), "loads")
    if plan.balance.elastic is not None:
        leases = LeaseKeeper(env.another(), plan.balance.elastic)
        runtime.spawn(lambda: keep_leases(leases, stop), "leases")
    hold_returning(env.another(), stop, rounds)
    _take_zabbix_events(env, recover, stop)
    _tell_zabbix_health(env, health, stop)
    if plan.notify:
        Notifier(env.another(), lambda: health.courses, rounds).start(stop)
    log.info("watching %d service(s)", len(plan.services))
    Watch(env, recover, rounds).run(stop, ready, beat)


@click.command()
@click.option("--verbose", is_flag=True, help="Also log what led to no action.")
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="On stderr.")
@click.option(
    "--drill-unit",
    metavar="UNIT",
    help="Have systemd start this unit, which calls `vcrecovery drill --due`, when a drill is due.",
)
@click.option(
    "--disk-unit",
    metavar="UNIT",
    default="",
    help="Have systemd mount disks of secondaries on demand, by UNIT-mount@ and UNIT-unmount@.",
)
@plan_option
def watch(verbose: bool, log_format: logs.Format, drill_unit: str | None, disk_unit: str, plan_path: Path) -> None:
    """Watch every primary of the plan and fail over those that crash, hang, or lose their hypervisor."""
    logs.set_up(log_format, verbose=verbose)
    plan = read_plan(plan_path)
    # systemd aborts one that hangs: the log then shows where each thread was.
    faulthandler.enable()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        # A failover under way is left where it is; the journal takes it up at the next start.
        signal.signal(number, lambda *_: stop.set())
    log.info("plan %s", plan_path)
    drills, argv = Environment(plan), command(plan_path, drill_unit)
    threading.Thread(target=keep_drilling, args=(drills, argv, stop), name="drills", daemon=True).start()
    noting = threading.Thread(target=keep_noting, args=(Environment(plan), stop), name="freshness", daemon=True)
    noting.start()
    threading.Thread(target=keep_trying_zones, args=(Environment(plan), stop), name="zones", daemon=True).start()
    threading.Thread(target=keep_orders, args=(Environment(plan), stop), name="orders", daemon=True).start()
    signs = WatcherBeat(plan.state_dir)

    def beat() -> None:
        signs.give()
        sign_of_life()

    watching(
        Environment(plan, disk_unit=disk_unit),
        stop,
        lambda: tell_systemd("READY=1"),
        beat,
        lambda health: _tell_others(plan, health, drills.clock.now, stop),
    )
    # It writes what it has not written yet.
    noting.join(_LAST_WORDS)
