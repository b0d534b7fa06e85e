"""What Prometheus is told of each service. Pure. `templates/prometheus/alerts.yml` uses these names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum

from vcrecovery.balance.load import Load
from vcrecovery.core.drill import DrillOutcome
from vcrecovery.core.episode import Outcome
from vcrecovery.core.health import BUCKETS, Health, Latencies
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import Side
from vcrecovery.core.verdict import Kind
from vcrecovery.report.exposition import Family, Sample
from vcrecovery.report.findings import Level, findings
from vcrecovery.report.protection import Protection, protection
from vcrecovery.report.view import ServiceView
from vcrecovery.store.load_book import Seen
from vcrecovery.store.outages import Total


def families(
    views: Sequence[ServiceView], outcomes: Mapping[tuple[str, Outcome], int], version: str, took: float
) -> list[Family]:
    """`outcomes`: how many episodes of a service ended how. `took`: seconds that the look at everything took."""

    def each(name: str, meaning: str, value: Callable[[ServiceView], float | None]) -> Family:
        found = [(view, value(view)) for view in views]
        samples = [Sample({"service": view.name}, seen) for view, seen in found if seen is not None]
        return Family(f"vcrecovery_{name}", "gauge", meaning, samples)

    def one_of(
        name: str, label: str, words: type[StrEnum], meaning: str, value: Callable[[ServiceView], str]
    ) -> Family:
        """1 for the word that holds, 0 for the others."""
        samples = [
            Sample({"service": view.name, label: word.value}, float(held == word.value))
            for view, held in [(view, value(view)) for view in views]
            for word in words
        ]
        return Family(f"vcrecovery_{name}", "gauge", meaning, samples)

    def last(view: ServiceView) -> float | None:
        return view.done.closed_at - view.done.opened_at if view.done and view.done.closed_at is not None else None

    def opened(view: ServiceView) -> float | None:
        return view.state.open_episode.opened_at if view.state.open_episode else None

    return [
        Family("vcrecovery_build_info", "gauge", "The version of the controller.", [Sample({"version": version}, 1)]),
        Family("vcrecovery_look_duration_seconds", "gauge", "How long asking everything took.", [Sample({}, took)]),
        Family("vcrecovery_service_info", "gauge", "The service as the plan describes it.", _info(views)),
        each("service_epoch", "The epoch of the service: it grows with every failover.", lambda v: v.state.epoch),
        one_of("service_side", "side", Side, "Who serves.", lambda v: v.state.side.value),
        one_of(
            "service_protection",
            "protection",
            Protection,
            "Whether something would take over.",
            lambda v: protection(v).level.value,
        ),
        each(
            "service_up",
            "Whether whoever serves answers on all its ports; none where that is not known.",
            lambda v: None if v.course.health is Health.UNKNOWN else float(v.course.health is not Health.DOWN),
        ),
        each(
            "service_slow",
            "Whether it takes longer than detection.slow_after to answer; none where that is not known.",
            lambda v: None if v.course.health is Health.UNKNOWN else float(v.course.health is Health.SLOW),
        ),
        each(
            "service_down_since_timestamp_seconds",
            "From when on a service that does not answer has not done so.",
            lambda v: v.course.since if v.course.health is Health.DOWN else None,
        ),
        one_of("primary_power", "power", Power, "The primary's state, as read now.", lambda v: v.reading.power.value),
        one_of("service_verdict", "verdict", Kind, "What that means.", lambda v: v.verdict.kind.value),
        Family("vcrecovery_standby_state", "gauge", "The state of the standby's container.", _standbys(views)),
        each(
            "standby_freshness_age_seconds",
            "The age of the newest state known to have arrived whole; none where it is not known.",
            lambda v: v.standby.age if v.protected else None,
        ),
        each("standby_max_staleness_seconds", "The age at which a failover refuses.", lambda v: v.plan.max_staleness),
        each(
            "spare_age_seconds",
            "While the standby serves: the age of its whole copy on its spare; none where there is none.",
            lambda v: v.spare.age(v.at) if v.spare is not None and v.spare.whole else None,
        ),
        each("standby_queue_changes", "Changes that the primary has seen and not sent.", _queue),
        Family(
            "vcrecovery_sync_sent_bytes_total",
            "counter",
            "Bytes that the sync has sent since the boot of its VM; none where nobody counts them.",
            [
                Sample({"service": view.name}, view.standby.fresh.sent)
                for view in views
                if view.standby.fresh is not None and view.protected and view.standby.fresh.sent is not None
            ],
        ),
        each(
            "service_suspended",
            "Whether the operator has suspended automatic failover.",
            lambda v: float(v.suspension is not None),
        ),
        each(
            "primary_held",
            "Whether the old primary is quarantined.",
            lambda v: float(v.held_since is not None),
        ),
        each("episode_open", "Whether a failover is not finished.", lambda v: float(v.state.open_episode is not None)),
        each("episode_opened_timestamp_seconds", "When the failover that is not finished began.", opened),
        Family(
            "vcrecovery_episodes_total",
            "counter",
            "Failovers and attempts, by how they ended.",
            [
                Sample({"service": view.name, "outcome": outcome.value}, outcomes.get((view.name, outcome), 0))
                for view in views
                for outcome in Outcome
            ],
        ),
        each("last_failover_duration_seconds", "How long the last failover took, from its detection.", last),
        each(
            "last_failover_timestamp_seconds",
            "When the last failover was done.",
            lambda v: v.done.closed_at if v.done else None,
        ),
        each(
            "drill_last_good_timestamp_seconds",
            "When the last drill that passed ended; none where none ever has.",
            lambda v: v.drills.good.ended_at if v.drills.good else None,
        ),
        each(
            "drill_last_good_recovery_seconds",
            "How long its clone took from its start to its open ports.",
            lambda v: v.drills.good.recovery if v.drills.good else None,
        ),
        each(
            "drill_failed",
            "Whether the newest drill has failed; none where there was none.",
            lambda v: None if v.drills.last is None else float(v.drills.last.outcome is DrillOutcome.FAILED),
        ),
        each(
            "drill_overdue",
            "Whether no drill has passed for longer than drill.every; none where that is not set.",
            lambda v: None if v.plan.drill_every is None else float(v.drill_overdue),
        ),
        Family("vcrecovery_service_findings", "gauge", "What `vcrecovery status --check` finds.", _findings(views)),
    ]


def outages(services: Sequence[str], totals: Mapping[str, Total]) -> list[Family]:
    known = {name: totals.get(name, Total(0, 0.0)) for name in services}
    return [
        Family(
            "vcrecovery_outages_total",
            "counter",
            "Times in which a service did not answer, also one that goes on.",
            [Sample({"service": name}, total.count) for name, total in known.items()],
        ),
        Family(
            "vcrecovery_outage_seconds_total",
            "counter",
            "How long they were together, up to two minutes ago: until then an outage that seems over may go on.",
            [Sample({"service": name}, total.seconds) for name, total in known.items()],
        ),
    ]


def secondaries(seen: Mapping[str, Seen], drained: Collection[str], known: Iterable[str]) -> list[Family]:
    """`seen`: what the watcher has seen of them; what it could not read has no sample."""

    known_loads = [(name, one, one.load) for name, one in seen.items() if one.load is not None]

    def each(name: str, meaning: str, value: Callable[[Load], float | None]) -> Family:
        found = [(secondary, value(load)) for secondary, _, load in known_loads]
        samples = [Sample({"secondary": secondary}, seen) for secondary, seen in found if seen is not None]
        return Family(f"vcrecovery_secondary_{name}", "gauge", meaning, samples)

    def each_of(name: str, label: str, meaning: str, values: Callable[[Load], Mapping[str, float]]) -> Family:
        samples = [
            Sample({"secondary": secondary, label: what}, value)
            for secondary, _, load in known_loads
            for what, value in values(load).items()
        ]
        return Family(f"vcrecovery_{name}", "gauge", meaning, samples)

    return [
        each("cores", "The cores of the secondary.", lambda load: load.size.cpu),
        each(
            "cores_used",
            "Those in use; of a machine of which nobody tells, by its containers.",
            lambda load: load.used.cpu,
        ),
        each("cores_stolen", "Those that its hypervisor gave to others, where it tells.", lambda load: load.stolen),
        each("memory_bytes", "The memory of the secondary.", lambda load: load.size.memory),
        each("memory_used_bytes", "What of that is in use.", lambda load: load.used.memory),
        each_of(
            "secondary_pressure_ratio",
            "resource",
            "In how much of the last minute somebody waited for it; of the machine that the watcher is on.",
            lambda load: {resource: percent / 100 for resource, percent in load.pressure.items()},
        ),
        each(
            "disk_latency_seconds",
            "The mean time for a read or write on the disk that was waited for most; of "
            "the machine that the watcher is on, and of VMs of the plan.",
            lambda load: None if load.disk is None else load.disk.latency,
        ),
        each(
            "disk_busy_ratio",
            "In how much of the time that disk was in use.",
            lambda load: None if load.disk is None else load.disk.busy,
        ),
        each(
            "network_receive_bytes_per_second",
            "Of the network cards of the machine that the watcher is on, and of VMs of the plan.",
            lambda load: None if load.network is None else load.network.received,
        ),
        each(
            "network_transmit_bytes_per_second",
            "The same of what they send.",
            lambda load: None if load.network is None else load.network.sent,
        ),
        each(
            "network_dropped_packets_per_second",
            "Those that they dropped.",
            lambda load: None if load.network is None else load.network.dropped,
        ),
        each(
            "network_used_ratio",
            "Of the speed of the busiest card, where that is known, in its busier direction.",
            lambda load: None if load.network is None else load.network.share,
        ),
        each_of(
            "container_disk_bytes_per_second",
            "container",
            "What each container reads and writes, where LXD tells it.",
            lambda load: {name: own.disk for name, own in load.traffic.items() if own.disk is not None},
        ),
        each_of(
            "container_network_bytes_per_second",
            "container",
            "What each container receives or sends, whichever is more.",
            lambda load: {name: own.network for name, own in load.traffic.items() if own.network is not None},
        ),
        each_of(
            "container_cores_used",
            "container",
            "The cores that each of its containers uses.",
            lambda load: {container: uses.cpu for container, uses in load.containers.items()},
        ),
        Family(
            "vcrecovery_secondary_overloaded",
            "gauge",
            "Whether it is overloaded, by `balance` of the plan; none where its load is not known.",
            [Sample({"secondary": name}, float(one.since is not None)) for name, one, _ in known_loads],
        ),
        Family(
            "vcrecovery_secondary_drained",
            "gauge",
            "Whether an operator has drained it.",
            [Sample({"secondary": name}, float(name in drained)) for name in known],
        ),
    ]


def latencies(found: Mapping[str, Latencies]) -> Family:
    """Of `vcrecovery watch` only, since its start."""
    samples = []
    for name, one in found.items():
        said = {"service": name}
        samples += [Sample({**said, "le": f"{bound:g}"}, one.up_to[bound], "_bucket") for bound in BUCKETS]
        samples += [Sample({**said, "le": "+Inf"}, one.count, "_bucket")]
        samples += [Sample(said, one.total, "_sum"), Sample(said, one.count, "_count")]
    return Family("vcrecovery_probe_duration_seconds", "histogram", "How long a service takes to answer.", samples)


def _queue(view: ServiceView) -> float | None:
    fresh = view.standby.fresh
    return fresh.queue if fresh is not None and view.protected else None


def _info(views: Sequence[ServiceView]) -> list[Sample]:
    return [
        Sample(
            {
                "service": view.name,
                "hypervisor": view.plan.hypervisor,
                "site": view.plan.site,
                "secondary": view.plan.secondary,
                "mode": view.plan.mode,
            },
            1,
        )
        for view in views
    ]


def _standbys(views: Sequence[ServiceView]) -> list[Sample]:
    return [Sample({"service": view.name, "state": view.standby.state}, 1) for view in views]


def _findings(views: Sequence[ServiceView]) -> list[Sample]:
    found = {view.name: [finding.level for finding in findings(view)] for view in views}
    return [
        Sample({"service": name, "level": level.value}, levels.count(level))
        for name, levels in found.items()
        for level in Level
    ]
