"""The template of a controller: who serves, how protected each service is, what is done about it, the secondaries."""

from __future__ import annotations

import re

from .alerts import ALERTS, Alert
from .parts import Part, graph, item, macro, rule, template, trigger, value_map
from .widgets import Page, figure, history, one_value, problems, tiles

NAME = "VCRecovery controller"
_OF_SERVICE = {"component": "service", "service": "{#SERVICE}"}
_OF_SECONDARY = {"component": "secondary", "vcr-secondary": "{#SECONDARY}"}
#: What an alert is of, to the macro with its name.
_MACROS = {"service": "{#SERVICE}", "secondary": "{#SECONDARY}", "": ""}


def _expression(alert: Alert, text: str) -> str:
    return re.sub(r"<(vcr\.[a-z.]+)>", lambda found: f"/{NAME}/{found[1]}{_index(alert)}", text)


def _index(alert: Alert) -> str:
    return f"[{_MACROS[alert.of]}]" if alert.of else ""


def _trigger(alert: Alert) -> Part:
    title = f"{alert.of.capitalize()} {_MACROS[alert.of]} " if alert.of else ""
    name = f"{title}{alert.says}"
    detail = f": {{?last(/{{HOST.HOST}}/{alert.detail}{_index(alert)})}}" if alert.detail else ""
    of = {"service": {"vcr-service": "{#SERVICE}", **_OF_SERVICE}, "secondary": _OF_SECONDARY, "": {}}[alert.of]
    return trigger(
        NAME,
        alert.kind,
        name,
        _expression(alert, alert.zabbix),
        alert.priority,
        alert.hint.replace("<name>", _MACROS[alert.of]),
        {"component": "controller", **of, "scope": alert.scope},
        event=alert.event or (f"{name}{detail}" if detail else ""),
        recovery=_expression(alert, alert.recovery),
        shown="Now: {ITEM.LASTVALUE1}",
    )


_MADE = {alert.kind: _trigger(alert) for alert in ALERTS if alert.zabbix}


def _on(*kinds: str) -> list[Part]:
    return [_MADE[kind] for kind in kinds]


def _service(
    key: str, name: str, about: str, *kinds: str, of: str = "", words: str = "", value_type: str = "", units: str = "",
    trends: bool = False, history: str = "2d", keeps_all: bool = False,
) -> Part:  # fmt: skip
    """`keeps_all`: also of a text each value, for problems that look at several, or for those who look back."""
    return item(
        NAME,
        f"{key}[{{#SERVICE}}]",
        name,
        about,
        _OF_SERVICE,
        of="vcr.status[{#SERVICE}]" if of else "",
        path=of,
        words=words,
        value_type=value_type,
        units=units,
        trends=trends,
        history=history,
        often=value_type not in ("CHAR", "TEXT") or keeps_all,
        triggers=_on(*kinds),
        prototype=True,
    )


#: As Zabbix exports them: a problem of one item stands at that, one of several at the rule.
_SERVICES_PROTOTYPES = [
    _service("vcr.age", "Age of the standby of {#SERVICE}",
        "Seconds by which the standby is behind its primary. What is not known is not 0.",
        of="$.age", words="Age", value_type="FLOAT", units="s", trends=True),
    _service("vcr.attention", "Findings for now, of {#SERVICE}",
        "How many things need somebody at once; `vcrecovery status {#SERVICE}` lists them.",
        of="$.attention"),
    _service("vcr.drill", "Drills of {#SERVICE}", "Whether the standby was rehearsed as the plan wants it.",
        "drill-failed", "drill-overdue", of="$.drill", words="Drill"),
    _service("vcr.gooddrill", "Last good drill of {#SERVICE}", "When it began; empty where none ever passed.",
        of="$.drilled", value_type="CHAR"),
    _service("vcr.failover", "Last operation of {#SERVICE}", "The newest failover or switchover that was done, and why.",
        of="$.failover", value_type="TEXT"),
    _service("vcr.health", "Health of {#SERVICE}",
        "Slow: it takes longer to answer than the plan's detection.slow_after. Unknown: nobody could ask, or a failover is"
        " at work on it.", "service-down", "service-unknown", words="Health"),
    _service("vcr.oldprimary", "Old primary of {#SERVICE}", "Whether it runs although the standby serves. Not while automatic failover is suspended.",
        "old-primary", of="$.old_primary", words="Yes or no"),
    _service("vcr.operation", "Operation on {#SERVICE}", "What is under way, and its last step; empty when nothing is.",
        of="$.operation", value_type="TEXT"),
    _service("vcr.protection", "Protection of {#SERVICE}",
        "Whether something would take over if whoever serves failed now. Degraded: not by itself, or with less than it"
        " should have.", of="$.protection", words="Protection"),
    _service("vcr.seconds", "Latency of {#SERVICE}",
        "How long the slowest of its ports took to answer, when it was asked last.",
        value_type="FLOAT", units="s", trends=True),
    _service("vcr.serves", "Who serves {#SERVICE}", "Its VM, its standby, or an operation is at work on that.",
        "at-work", "by-standby", "unfinished", words="Serves"),
    _service("vcr.standby", "Standby of {#SERVICE}", "Its container, its mode, and its secondary.",
        of="$.standby", value_type="CHAR"),
    _service("vcr.status", "Status of {#SERVICE}", "All that is known, in JSON, from which other items are taken.",
        value_type="TEXT", history="0"),
    _service(
        "vcr.suspended",
        "Suspension of automatic failover of {#SERVICE}",
        "For how long it has been suspended by the operator's word; 0 when it is not.",
        "suspended",
        of="$.suspended",
        units="s",
    ),
    _service("vcr.unprotected", "Why {#SERVICE} is unprotected", "What is missing; empty when nothing is.",
        of="$.why", value_type="TEXT"),
    _service("vcr.verdict", "Verdict on {#SERVICE}", "What the controller makes of what it sees.",
        of="$.verdict", value_type="CHAR", keeps_all=True),
    _service("vcr.vm", "VM of {#SERVICE}", "The primary's state, as its hypervisor tells it.",
        of="$.vm", value_type="CHAR", keeps_all=True),
    _service("vcr.why", "Why {#SERVICE} does not answer", "Each port that does not, and its reason. Empty while all do.",
        value_type="TEXT"),
    _service("vcr.wrong", "What is wrong with {#SERVICE}", "The most urgent finding, and what to do about it.",
        of="$.wrong", value_type="TEXT"),
]  # fmt: skip

_SERVICES = rule(
    NAME,
    "vcr.services",
    "Services",
    "The services of the plan. One that is not in it any more is removed after a day.",
    "1d",
    items=_SERVICES_PROTOTYPES,
    graphs=[
        graph(NAME, "Age of the standby of {#SERVICE}", [("vcr.age[{#SERVICE}]", "2774A4")]),
        graph(NAME, "Latency of {#SERVICE}", [("vcr.seconds[{#SERVICE}]", "1A7C11")]),
    ],
    triggers=_on("attention", "degraded", "failed", "unprotected"),
)


def _secondary(
    key: str,
    name: str,
    about: str,
    *kinds: str,
    words: str = "",
    value_type: str = "",
    percent: bool = False,
    units: str = "",
) -> Part:
    return item(
        NAME,
        f"{key}[{{#SECONDARY}}]",
        name,
        about,
        _OF_SECONDARY,
        words=words,
        value_type="FLOAT" if percent or units else value_type,
        units="%" if percent else units,
        trends=percent or bool(units),
        history="7d",
        triggers=_on(*kinds),
        prototype=True,
    )


_SECONDARIES = rule(
    NAME,
    "vcr.secondaries",
    "Secondaries",
    "The secondaries of the plan, and those that were made for a while. One that is gone is removed after a day.",
    "1d",
    items=[
        _secondary("vcr.cpu", "CPU of {#SECONDARY}",
            "Of its cores, how much is in use. Of a machine of which nobody tells it is what its containers use."
            " None comes while it cannot be read.", percent=True),
        _secondary("vcr.diskbusy", "Disk use of {#SECONDARY}",
            "In how much of the time the disk was in use that was waited for most. Disks and network are known of the"
            " controller's own machine, and of VMs of the plan.", percent=True),
        _secondary("vcr.disklatency", "Disk latency of {#SECONDARY}",
            "Mean time for a read or write on that disk.", units="s"),
        _secondary("vcr.dropped", "Packets dropped by {#SECONDARY}", "By its network cards, each second.",
            units="packets/s"),
        _secondary("vcr.memory", "Memory of {#SECONDARY}", "How much of it is in use, without caches.", percent=True),
        _secondary("vcr.network", "Network use of {#SECONDARY}",
            "Of the speed of its busiest card, in the direction in which there is more. None comes where nobody knows"
            " the speed, as in most VMs.", percent=True),
        _secondary("vcr.onfor", "Time on of {#SECONDARY}",
            "For how long it was on in this month, of one on demand or made for a while. None comes of one that is always"
            " on.", units="s"),
        _secondary("vcr.overloaded", "Overload of {#SECONDARY}",
            "Whether it is overloaded, as the plan's section balance has it.", "overload", words="Overload"),
        _secondary("vcr.power", "Power of {#SECONDARY}",
            "Of one on demand, or made for a while, by the controller's books.", words="Power"),
        *(_secondary(f"vcr.pressure.{resource}", f"{words} pressure of {{#SECONDARY}}",
            f"In how much of the last minute somebody waited for {about}. It is known of the controller's own machine.",
            percent=True)
            for resource, words, about in (
                ("cpu", "CPU", "a core"), ("io", "IO", "a disk"), ("memory", "Memory", "memory"))),
        _secondary("vcr.received", "Network in of {#SECONDARY}", "By all its network cards.", units="Bps"),
        _secondary("vcr.relief", "What would relieve {#SECONDARY}",
            "What it has too much to do with, and what would be moved. Empty while it is not overloaded.",
            value_type="TEXT"),
        _secondary("vcr.sent", "Network out of {#SECONDARY}", "By all its network cards.", units="Bps"),
        _secondary("vcr.steal", "CPU taken from {#SECONDARY}",
            "Of its cores, how much its hypervisor gave to others. None comes while nobody tells.", percent=True),
        _secondary("vcr.uses", "Who uses most of {#SECONDARY}", "The three containers that use most of its cores or memory.",
            value_type="TEXT"),
    ],
    graphs=[
        graph(NAME, "Disk latency of {#SECONDARY}", [("vcr.disklatency[{#SECONDARY}]", "2774A4")]),
        graph(NAME, "Load of {#SECONDARY}",
            [("vcr.cpu[{#SECONDARY}]", "1A7C11"), ("vcr.memory[{#SECONDARY}]", "F63100")], percent=True),
        graph(NAME, "Network of {#SECONDARY}",
            [("vcr.received[{#SECONDARY}]", "1A7C11"), ("vcr.sent[{#SECONDARY}]", "F63100")]),
        graph(NAME, "Pressure of {#SECONDARY}",
            [("vcr.pressure.cpu[{#SECONDARY}]", "1A7C11"), ("vcr.pressure.io[{#SECONDARY}]", "2774A4"),
             ("vcr.pressure.memory[{#SECONDARY}]", "F63100"), ("vcr.steal[{#SECONDARY}]", "97AAB3")], percent=True),
    ],
)  # fmt: skip


def _of_all(key: str, name: str, about: str, path: str, *kinds: str, value_type: str = "") -> Part:
    return item(
        NAME,
        key,
        name,
        about,
        {"component": "controller"},
        of="vcr.controller",
        path=path,
        value_type=value_type,
        history="1d" if value_type else "7d",
        often=not value_type,
        triggers=_on(*kinds),
    )


_NAME_OF = r'{{ITEM.NAME}.regsub("of (.*)","\1")}'
PAGES = [
    Page("Now", [
        problems(0, 0, 72, 7),
        tiles(0, 7, 24, 5, "Protection of *", _NAME_OF, {0: "59DB8F", 1: "FFC859", 2: "E45959"}, "Protection"),
        tiles(24, 7, 24, 5, "Health of *", _NAME_OF, {0: "59DB8F", 1: "FFC859", 2: "E45959", 3: "97AAB3"}, "Health"),
        tiles(48, 7, 24, 5, "Who serves *", r'{{ITEM.NAME}.regsub("Who serves (.*)","\1")}',
            {0: "59DB8F", 1: "FFA059", 2: "7499FF"}, "Who serves"),
        history(0, 12, 72, 9, NAME, "vcr.overview", "All services in words"),
        one_value(0, 21, 18, 4, NAME, "vcr.count.unprotected"),
        one_value(18, 21, 18, 4, NAME, "vcr.count.standby"),
        one_value(36, 21, 18, 4, NAME, "vcr.count.operations"),
        one_value(54, 21, 18, 4, NAME, "vcr.watch"),
    ]),
    Page("Figures", [
        figure(0, 0, 72, 10, NAME, "Age of the standby of {#SERVICE}", ["Age of the standby of *"]),
        figure(0, 10, 72, 10, NAME, "Latency of {#SERVICE}", ["Latency of *"]),
        figure(0, 20, 72, 8, NAME, "Load of {#SECONDARY}", ["CPU of *", "Memory of *"], percent=True),
        figure(0, 28, 72, 8, NAME, "Pressure of {#SECONDARY}",
            ["CPU pressure of *", "IO pressure of *", "Memory pressure of *", "CPU taken from *"], percent=True),
    ]),
]  # fmt: skip

#: Problems of two items of the template itself stand beside the templates.
TRIGGERS = _on("status")

TEMPLATE = template(
    NAME,
    "All that a VCRecovery controller knows: who serves, how protected each service is, what is wrong, what"
    " is done about it, and how loaded the secondaries are.\n"
    "The values come from `vcrecovery watch`. Zabbix starts no failover for these problems.",
    items=[
        _of_all("vcr.attention", "Findings for now that are about no service", "How many.", "$.attention", "controller"),
        item(NAME, "vcr.controller", "Status of the controller",
            "All that is about no single service, in JSON, from which other items are taken.",
            {"component": "controller"}, value_type="TEXT", history="0"),
        _of_all("vcr.count.degraded", "Services with degraded protection", "How many.", "$.degraded"),
        _of_all("vcr.count.operations", "Operations under way", "Failovers and the like that are not finished.",
            "$.operations"),
        _of_all("vcr.count.protected", "Services that are protected", "How many.", "$.protected"),
        _of_all("vcr.count.standby", "Services served by their standbys", "How many.", "$.by_standby"),
        _of_all("vcr.count.unprotected", "Unprotected services", "Nothing would take over if they failed now.",
            "$.unprotected"),
        _of_all("vcr.overview", "All services in words",
            "Who serves, how protected each is, what is wrong, and what was done about it; the worst first.",
            "$.overview", value_type="TEXT"),
        item(NAME, "vcr.watch", "Services watched", "How many, every 30 s. It is the controller's sign of life.",
            {"component": "controller"}, history="7d", triggers=_on("watch")),
        _of_all("vcr.wrong", "What is wrong beside the services", "Such as a pool that is full.", "$.wrong",
            value_type="TEXT"),
    ],
    macros=[
        macro("{$VCR.ATTENTION.FOR}", "10m", "What needs somebody for so long is a problem."),
        macro("{$VCR.DEGRADED.FOR}", "30m", "A protection that is degraded for so long is a problem."),
        macro("{$VCR.FAILED.FOR}", "1m", "A failed primary without a failover for so long is a problem."),
        macro("{$VCR.HEALTH.UNKNOWN.FOR}", "5m",
            "A service of which nobody knows for so long whether it answers is a problem."),
        macro("{$VCR.STATUS.SILENT}", "5m", "A controller that gives signs of life, and for so long no status, is a problem."),
        macro("{$VCR.SUSPENDED.FOR}", "1d", "Automatic failover that is suspended for so long is a problem."),
        macro("{$VCR.UNPROTECTED.FOR}", "2m", "A service that is unprotected for so long is a problem."),
        macro("{$VCR.WATCH.SILENT}", "2m",
            "A controller that has told nothing for so long is a problem. It gives a sign of life every 30 s."),
        macro("{$VCR.WORK.FOR}", "5m", "An operation that is not finished after so long is a problem."),
    ],
    words=[
        value_map(NAME, "Age", {-2: "its standby serves", -1: "not known"}),
        value_map(NAME, "Drill", {0: "well", 1: "failed", 2: "overdue"}),
        value_map(NAME, "Health", {0: "answers", 1: "slow", 2: "down", 3: "unknown"}),
        value_map(NAME, "Overload", {0: "no", 1: "overloaded"}),
        value_map(NAME, "Power", {0: "off", 1: "on", 2: "being made", 3: "being given back"}),
        value_map(NAME, "Protection", {0: "protected", 1: "degraded", 2: "unprotected"}),
        value_map(NAME, "Serves", {0: "its VM", 1: "its standby", 2: "changing hands"}),
        value_map(NAME, "Yes or no", {0: "no", 1: "yes"}),
    ],
    rules=[_SECONDARIES, _SERVICES],
)  # fmt: skip
