"""The template of a data centre: whether any of its hypervisors is heard, and whether anybody asks them."""

from __future__ import annotations

from .parts import calculated, macro, template, trigger, value_map
from .widgets import Page, one_value, problems

NAME = "VCRecovery site"
_BEATS, _ASKED = f"/{NAME}/vcr.site.heartbeats", f"/{NAME}/vcr.site.asked"

_NOT_ASKED = trigger(
    NAME,
    "relay",
    "Nobody asks the hypervisors of the site",
    f"max({_ASKED},{{$VCR.RELAY.SILENT}})=0 and count({_ASKED},{{$VCR.RELAY.SILENT}})>=0.6*{{$VCR.RELAY.SILENT}}",
    "HIGH",
    "`vcrecovery relay` does not run, does not reach Zabbix's port 10051, or has a clock that is far from Zabbix's:"
    " `systemctl status vcrecovery-relay`. What is shown of the VMs is old. The controller's own watcher, if it detects"
    " failures itself, goes on.",
    {"scope": "availability", "component": "relay", "vcr-site": "{$VCR.SITE}"},
    recovery=f"last({_ASKED})>0",
    event="Site {$VCR.SITE}: nobody has asked its hypervisors for {$VCR.RELAY.SILENT}",
    shown="Hypervisors asked of late: {ITEM.LASTVALUE1}",
)
_SILENT = trigger(
    NAME,
    "site",
    "Site is silent",
    f'last({_BEATS})=0 and count({_BEATS},{{$VCR.HOST.SILENT}},"ge","0")>=0.6*{{$VCR.HOST.SILENT}} and min({_ASKED},{{$VCR.HOST.SILENT}})>0',
    "DISASTER",
    "Not one of its hypervisors is heard, although they are asked. This is one problem instead of one per hypervisor."
    " VCRecovery fails over what it does not reach either: `vcrecovery status`. After a restart of Zabbix it waits until"
    " it has itself looked for 60 % of the time.",
    {"vcr": "recover", "scope": "availability", "component": "hypervisor", "vcr-site": "{$VCR.SITE}"},
    event="Site {$VCR.SITE}: all of its hypervisors have been silent for {$VCR.HOST.SILENT}",
    recovery=f"last({_BEATS})>=2",
    shown="Heartbeats of late: {ITEM.LASTVALUE1}",
)

PAGES = [
    Page("Now", [
        problems(0, 0, 72, 6),
        one_value(0, 6, 36, 5, NAME, "vcr.site.heartbeats"),
        one_value(36, 6, 36, 5, NAME, "vcr.site.asked"),
    ])
]  # fmt: skip

#: A trigger of two items stands beside the templates.
TRIGGERS = [_SILENT]

TEMPLATE = template(
    NAME,
    "A data centre: whether any of its hypervisors is heard.\n"
    "Its hypervisors are the hosts in the group VCRecovery/{$VCR.SITE}.",
    items=[
        calculated(
            NAME,
            "vcr.site.asked",
            "Hypervisors asked of late",
            "Of how many the relay has asked the agent within {$VCR.SITE.HEARD}, whatever came of it; -1 as long as it has never asked one.",
            "relay",
            'count(max_foreach(/*/vcr.asked?[group="VCRecovery/{$VCR.SITE}"],{$VCR.SITE.HEARD}))'
            '-(count(last_foreach(/*/vcr.asked?[group="VCRecovery/{$VCR.SITE}"]))=0)',
            value_type="FLOAT",
            words="Heartbeats",
            triggers=[_NOT_ASKED],
        ),
        calculated(
            NAME,
            "vcr.site.heartbeats",
            "Heartbeats of late",
            "How many have come of the hypervisor that is heard best; -1 as long as none has ever been heard.",
            "heartbeat",
            'max(last_foreach(/*/vcr.heartbeats?[group="VCRecovery/{$VCR.SITE}"]))',
            value_type="FLOAT",
            words="Heartbeats",
        ),
    ],
    macros=[
        macro(
            "{$VCR.HOST.SILENT}",
            "15s",
            "A site not heard of for so long is a problem; the plan's detection.host_silent_for.",
        ),
        macro("{$VCR.RELAY.SILENT}", "60s", "A relay that has asked nobody for so long is a problem."),
        macro("{$VCR.SITE}", "main", "The site's name in the plan."),
        macro(
            "{$VCR.SITE.HEARD}",
            "7s",
            "A relay that has asked nobody for so long is away. Less than {$VCR.HOST.SILENT}: so it is noticed before its end"
            " looks like that of all hypervisors.",
        ),
    ],
    words=[value_map(NAME, "Heartbeats", {-1: "never heard", 0: "silent"})],
)
