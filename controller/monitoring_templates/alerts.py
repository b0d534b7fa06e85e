"""What calls somebody, in one list for Prometheus and for Zabbix: the same problems, words and ways out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Alert:
    """`kind`: its tag in Zabbix. `says` follows the name of the service or secondary that it is about.

    Problems are exported in the order of their names, which depends on Zabbix's locale where they differ in punctuation:
    so each name is a sentence without any before its verb.

    In `hint`, <name> is that name. `value`: what Prometheus adds to `says`; `detail`: the item whose text Zabbix adds;
    or `event`, its name of the event. `expr` is Prometheus'; `zabbix` is Zabbix's, with <item> for the items of the
    service. Each may be empty where another alert covers it.
    """

    name: str
    kind: str
    severity: str
    says: str
    hint: str
    expr: str = ""
    lasts: str = ""
    zabbix: str = ""
    recovery: str = ""
    of: str = "service"
    scope: str = "availability"
    detail: str = ""
    value: str = ""
    event: str = ""

    @property
    def priority(self) -> str:
        """Zabbix's word."""
        return {"critical": "HIGH", "average": "AVERAGE", "warning": "WARNING"}[self.severity]

    @property
    def label(self) -> str:
        """Prometheus' word, which knows two."""
        return "critical" if self.severity == "critical" else "warning"


#: No failover is running of it, and no drill.
_NONE_OPEN = " unless on (service) vcrecovery_episode_open == 1"

ALERTS: Sequence[Alert] = (
    Alert(
        "VCRecoveryWatcherDown",
        "watch",
        "critical",
        "Nothing watches the primaries",
        "`systemctl status vcrecovery-watch` on the controller. No failure is acted on until it runs.",
        expr='up{job="vcrecovery"} == 0 or absent(up{job="vcrecovery"})',
        lasts="2m",
        zabbix="nodata(<vcr.watch>,{$VCR.WATCH.SILENT})=1",
        event="Nothing watches the primaries: the controller has told nothing for {$VCR.WATCH.SILENT}",
        of="",
    ),
    Alert(
        "VCRecoveryStatusOld",
        "status",
        "critical",
        "What is shown of who serves is old",
        "The watcher runs, and cannot read its journal, or Zabbix does not take what it sends: `journalctl -u vcrecovery-watch`"
        " on the controller, then `vcrecovery status`.",
        # One that has just come back has not looked yet.
        zabbix="nodata(<vcr.count.unprotected>,{$VCR.STATUS.SILENT})=1 and nodata(<vcr.watch>,{$VCR.WATCH.SILENT})=0"
        " and count(<vcr.watch>,{$VCR.WATCH.SILENT})>=3",
        of="",
    ),
    Alert(
        "VCRecoveryFailoverNotFinished",
        "unfinished",
        "critical",
        "has an operation that is not finished",
        "`vcrecovery explain <name>` says what it waits for, and what to type.",
        expr="time() - vcrecovery_episode_opened_timestamp_seconds > 300",
        value=" after {{ $value | humanizeDuration }}",
        zabbix='last(<vcr.serves>)=2 and count(<vcr.serves>,{$VCR.WORK.FOR},"ne","2")=0'
        " and count(<vcr.serves>,{$VCR.WORK.FOR})>=5",
        detail="vcr.operation",
    ),
    Alert(
        "VCRecoveryServiceFailed",
        "failed",
        "critical",
        "has a failed primary, and no failover is running",
        "`vcrecovery explain <name>`",
        expr='vcrecovery_service_verdict{verdict=~"failed|hung|host silent"} == 1' + _NONE_OPEN,
        lasts="1m",
        zabbix='last(<vcr.verdict>)="failed" and last(<vcr.serves>)<>2'
        ' and count(<vcr.verdict>,{$VCR.FAILED.FOR},"ne","failed")=0 and count(<vcr.verdict>,{$VCR.FAILED.FOR})>=2',
        detail="vcr.wrong",
    ),
    Alert(
        "VCRecoveryServiceDown",
        "service-down",
        "critical",
        "is down",
        "`vcrecovery status <name>` says on which ports, and what to type.",
        expr="vcrecovery_service_up == 0" + _NONE_OPEN,
        lasts="1m",
        zabbix="last(<vcr.health>)=2",
        recovery="last(<vcr.health>)<2",
        detail="vcr.why",
    ),
    Alert(
        "VCRecoveryServiceUnknown",
        "service-unknown",
        "average",
        "is not known to answer",
        "The controller cannot ask it, or a failover does not come to an end: `vcrecovery status <name>`.",
        zabbix='last(<vcr.health>)=3 and count(<vcr.health>,{$VCR.HEALTH.UNKNOWN.FOR},"ne","3")=0',
    ),
    Alert(
        "VCRecoveryOldPrimaryRuns",
        "old-primary",
        "critical",
        "has its old primary running beside its standby",
        "`vcrecovery status <name>` says how to shut it down. Its files are older than what the standby has served since.",
        expr='vcrecovery_service_verdict{verdict="stale primary"} == 1 unless on (service) vcrecovery_primary_held == 1\n'
        "unless on (service) vcrecovery_service_suspended == 1",
        lasts="1m",
        zabbix="min(<vcr.oldprimary>,{$VCR.FAILED.FOR})=1 and count(<vcr.oldprimary>,{$VCR.FAILED.FOR})>=2",
    ),
    Alert(
        "VCRecoveryHypervisorSilent",
        "unreachable",
        "critical",
        "is on a hypervisor that does not answer",
        "A failure would not be noticed, and not be fenced. `vcrecovery status <name>`",
        expr='vcrecovery_primary_power{power="unreachable"} == 1\n'
        'and on (service) vcrecovery_service_side{side="primary"} == 1',
        lasts="2m",
    ),
    Alert(
        "VCRecoveryStandbyTooOld",
        "too-old",
        "critical",
        "has a standby that is too old for a failover",
        "`vcrecovery status <name>`, then vcrecovery-sync on the primary",
        expr="vcrecovery_standby_freshness_age_seconds > vcrecovery_standby_max_staleness_seconds",
        lasts="1m",
        value=" ({{ $value | humanizeDuration }})",
    ),
    Alert(
        "VCRecoveryStandbyAgeNotKnown",
        "age-not-known",
        "critical",
        "has a standby of unknown age: a failover would refuse",
        "`vcrecovery status <name>`",
        expr='vcrecovery_service_side{side="primary"} == 1\nunless on (service) vcrecovery_standby_freshness_age_seconds',
        lasts="15m",
    ),
    Alert(
        "VCRecoveryUnprotected",
        "unprotected",
        "critical",
        "is unprotected",
        "Nothing would take over if its primary failed now. `vcrecovery status <name>` says why, and what to type.",
        expr='vcrecovery_service_protection{protection="unprotected"} == 1\n'
        'and on (service) vcrecovery_service_side{side="primary"} == 1' + _NONE_OPEN,
        lasts="2m",
        zabbix="min(<vcr.protection>,{$VCR.UNPROTECTED.FOR})=2 and count(<vcr.protection>,{$VCR.UNPROTECTED.FOR})>=3"
        " and last(<vcr.serves>)=0",
        recovery="last(<vcr.protection>)<2 or last(<vcr.serves>)<>0",
        detail="vcr.unprotected",
    ),
    Alert(
        "VCRecoveryNeedsSomebody",
        "attention",
        "critical",
        "needs somebody",
        "`vcrecovery status <name>` lists what it found, each with the command that fixes it.",
        expr='vcrecovery_service_findings{level="attention"} > 0',
        lasts="10m",
        value=": {{ $value }} finding(s)",
        # What has a problem of its own is no second one.
        zabbix="min(<vcr.attention>,{$VCR.ATTENTION.FOR})>0 and count(<vcr.attention>,{$VCR.ATTENTION.FOR})>=10"
        " and (last(<vcr.protection>)<2 or last(<vcr.serves>)=1) and last(<vcr.health>)<>2",
        recovery="last(<vcr.attention>)=0",
        detail="vcr.wrong",
    ),
    Alert(
        "VCRecoveryFailedOver",
        "by-standby",
        "average",
        "is served by its standby",
        "`vcrecovery explain <name>` says what happened. Repair the primary, then `vcrecovery failback <name>`.",
        expr='vcrecovery_service_side{side="standby"} == 1' + _NONE_OPEN,
        zabbix="last(<vcr.serves>)=1",
        recovery="last(<vcr.serves>)=0",
    ),
    Alert(
        "VCRecoveryAtWork",
        "at-work",
        "average",
        "is changing hands",
        "A failover, switchover, failback or move is under way. `vcrecovery explain <name>` shows how far it is.",
        zabbix="last(<vcr.serves>)=2",
    ),
    Alert(
        "VCRecoveryDegraded",
        "degraded",
        "warning",
        "has degraded protection",
        "A failover would work, but not by itself, or with less than it should have. `vcrecovery status <name>`",
        expr='vcrecovery_service_protection{protection="degraded"} == 1\n'
        'and on (service) vcrecovery_service_side{side="primary"} == 1',
        lasts="30m",
        zabbix="min(<vcr.protection>,{$VCR.DEGRADED.FOR})=1 and max(<vcr.protection>,{$VCR.DEGRADED.FOR})=1"
        " and count(<vcr.protection>,{$VCR.DEGRADED.FOR})>=10 and last(<vcr.serves>)=0",
        recovery="last(<vcr.protection>)<>1 or last(<vcr.serves>)<>0",
        detail="vcr.unprotected",
    ),
    Alert(
        "VCRecoverySuspendedForLong",
        "suspended",
        "warning",
        "has automatic failover suspended for more than a day",
        "`vcrecovery resume <name>` resumes it.",
        expr="min_over_time(vcrecovery_service_suspended[1d]) == 1",
        lasts="1h",
        zabbix="last(<vcr.suspended>)>{$VCR.SUSPENDED.FOR}",
        scope="notice",
    ),
    Alert(
        "VCRecoveryDrillOverdue",
        "drill-overdue",
        "warning",
        "has had no good drill for longer than its drill.every",
        "`vcrecovery drill <name>` rehearses now, or says why it cannot.",
        expr="vcrecovery_drill_overdue == 1",
        lasts="1h",
        zabbix="last(<vcr.drill>)=2",
        scope="notice",
    ),
    Alert(
        "VCRecoveryDrillFailed",
        "drill-failed",
        "warning",
        "has failed its last drill: a failover may fail, too",
        "`vcrecovery history <name>` says in which step, and why.",
        expr="vcrecovery_drill_failed == 1",
        zabbix="last(<vcr.drill>)=1",
        scope="notice",
    ),
    Alert(
        "VCRecoverySecondaryOverloaded",
        "overload",
        "warning",
        "is overloaded",
        "The services whose standbys serve there are slow. `vcrecovery rebalance` moves some to their spares, if there is room; `vcrecovery rebalance --dry-run` says which,"
        " and why.",
        expr="vcrecovery_secondary_overloaded == 1",
        lasts="5m",
        zabbix="last(<vcr.overloaded>)=1 and nodata(<vcr.overloaded>,{$VCR.WATCH.SILENT})=0",
        of="secondary",
        scope="performance",
        detail="vcr.relief",
    ),
    Alert(
        "VCRecoveryControllerNeedsSomebody",
        "controller",
        "warning",
        "A secondary or the controller needs somebody",
        "`vcrecovery status` on the controller says more: a pool that takes no more files.",
        zabbix="min(<vcr.attention>,{$VCR.UNPROTECTED.FOR})>0 and count(<vcr.attention>,{$VCR.UNPROTECTED.FOR})>=3",
        recovery="last(<vcr.attention>)=0",
        of="",
        scope="notice",
        detail="vcr.wrong",
    ),
)

BY_KIND = {alert.kind: alert for alert in ALERTS}


def prometheus() -> str:
    """The rules, for a Prometheus."""
    head = """\
# Alerts for what `vcrecovery watch` serves (`metrics: {}` in the plan). In prometheus.yml:
#   rule_files: [/etc/prometheus/vcrecovery-alerts.yml]
#   scrape_configs: [{job_name: vcrecovery, static_configs: [{targets: [localhost:9870]}]}]
# `vcrecovery status --check` says the same without Prometheus.
# Written by `make templates`: change controller/monitoring_templates/alerts.py instead.
groups:
  - name: vcrecovery
    rules:
"""
    return head + "".join(_rule(alert) for alert in ALERTS if alert.expr)


def _rule(alert: Alert) -> str:
    name = f"{{{{ $labels.{alert.of} }}}}" if alert.of else ""
    summary = f"{name} {alert.says}{alert.value}".strip()
    lines = [f"      - alert: {alert.name}"]
    if "\n" in alert.expr:
        lines += ["        expr: >-", *(f"          {line}" for line in alert.expr.splitlines())]
    else:
        lines.append(f"        expr: {alert.expr}")
    if alert.lasts:
        lines.append(f"        for: {alert.lasts}")
    lines += [
        f"        labels: {{severity: {alert.label}}}",
        "        annotations:",
        f'          summary: "{summary}"',
        f'          description: "{alert.hint.replace("<name>", name)}"',
    ]
    return "\n".join(lines) + "\n"
