"""The template of a libvirt host: its guests, and the problems from which VCRecovery fails over."""

from __future__ import annotations

from .parts import Part, calculated, graph, item, macro, rule, template, trigger, value_map
from .widgets import Page, figure, history, one_value, problems, tiles

NAME = "VCRecovery hypervisor"
_STATE, _CPU = f"/{NAME}/vcr.state[{{#UUID}}]", f"/{NAME}/vcr.cpu[{{#UUID}}]"
_BEATS, _HEARD, _ASKED = f"/{NAME}/vcr.heartbeats", f"/{NAME}/vcr.site.heard", f"/{NAME}/vcr.asked"
#: What the controller reads of a problem.
_RECOVER = {"vcr": "recover"}
_OF_GUEST = {"component": "vm", "service": "{#SERVICE}", "vcr-uuid": "{#UUID}"}

#: Of a site that fails, no hypervisor is silent: its own problem says so, also while they come back one by one. Zabbix
#: must have looked itself for most of the time (it may have been off), and somebody must have asked the hypervisor.
SILENT = trigger(
    NAME,
    "host",
    "Hypervisor is silent",
    f"last({_BEATS})=0 and min({_HEARD},{{$VCR.SITE.HEARD}})>0"
    f' and count({_BEATS},{{$VCR.HOST.SILENT}},"ge","0")>=0.6*{{$VCR.HOST.SILENT}}'
    f" and count({_ASKED},{{$VCR.HOST.SILENT}})>=2 and count({_ASKED},{{$VCR.SITE.HEARD}})>0",
    "DISASTER",
    "Nothing is heard of its SNMP agent, or that hears nothing of libvirt, while others of its site are heard. VCRecovery"
    " fails over the services of its VMs when it does not reach them either. `vcrecovery status` says how far that is."
    " A whole site that is silent is one problem, of the site.",
    {**_RECOVER, "scope": "availability", "component": "hypervisor", "vcr-host": "{HOST.HOST}"},
    event="Hypervisor {HOST.HOST} has been silent for {$VCR.HOST.SILENT}",
    recovery=f"last({_BEATS})>=2",
    shown="Heartbeats of late: {ITEM.LASTVALUE1}",
)

_OFF = "^(crashed|shutoff|absent)"
_IS_OFF = f'find({_STATE},,"regexp","{_OFF}")=1'
#: For a while: a moment of it says nothing.
_IS_PAUSED = (
    f'(find({_STATE},,"regexp","^paused")=1 and find({_STATE},#1:now-{{$VCR.PAUSED.FOR}},"regexp","^paused")=1'
    f' and count({_STATE},{{$VCR.PAUSED.FOR}})=count({_STATE},{{$VCR.PAUSED.FOR}},"regexp","^paused"))'
)


def _guest_trigger(
    kind: str, name: str, expression: str, priority: str, about: str, *, event: str, recovery: str = "", shown: str = ""
) -> Part:
    recovers = {} if kind == "paused" else _RECOVER
    scope = {"scope": "performance" if kind == "cpu-high" else "availability"}
    return trigger(
        NAME,
        kind,
        f"Service {{#SERVICE}}: VM {{#VM}} {name}",
        expression,
        priority,
        about,
        {**recovers, **_OF_GUEST, **scope},
        event=f"Service {{#SERVICE}}: VM {{#VM}} {event}",
        recovery=recovery,
        shown=shown,
        depends=[SILENT],
    )


_CRASHED = _guest_trigger(
    "vm",
    "has crashed",
    f'find({_STATE},,"regexp","^(crashed([ ].*)?|shutoff([ ][(](crashed|failed|daemon)[)])?'
    '|absent [(](crashed|failed)[)])$")=1',
    "HIGH",
    "It is off, and that was not requested (`shutoff` alone: it ran before, and an agent that tells no causes finds it"
    " off). VCRecovery fails the service over: `vcrecovery explain {#SERVICE}` says how far it is. That the standby"
    " serves is a problem of its own, on the controller's host.",
    event="has crashed: {ITEM.VALUE}",
    shown="State: {ITEM.LASTVALUE1}",
)
_ZERO = _guest_trigger(
    "cpu-zero",
    "uses no CPU time",
    f"max({_CPU},{{$VCR.CPU.ZERO.FOR}})=0 and count({_CPU},{{$VCR.CPU.ZERO.FOR}})>=2"
    f" and count({_CPU},{{$VCR.CPU.ZERO.FOR}})*{{$VCR.POLL}}>=0.9*{{$VCR.CPU.ZERO.FOR}}"
    f' and last({_STATE})="running" and last({_STATE},#1:now-{{$VCR.CPU.ZERO.FOR}})="running"'
    f' and count({_STATE},{{$VCR.CPU.ZERO.FOR}},"ne","running")=0',
    "AVERAGE",
    "A suspicion that it hangs, and no more: VCRecovery fails it over only if its ports do not answer either. It must"
    " have been running for all of that time: a guest that was paused until now has used none either."
    " `vcrecovery explain {#SERVICE}` says what was found.",
    event="runs, and has used no CPU time for {$VCR.CPU.ZERO.FOR}",
    recovery=f'count({_CPU},{{$VCR.CPU.OK.FOR}},"gt","0")>=2 or last({_STATE})<>"running"',
    shown="CPU: {ITEM.LASTVALUE1}",
)
_HIGH = _guest_trigger(
    "cpu-high",
    "uses too much CPU time",
    f"min({_CPU},{{$VCR.CPU.HIGH.FOR}})>{{$VCR.CPU.HIGH}} and count({_CPU},{{$VCR.CPU.HIGH.FOR}})>=2"
    f" and count({_CPU},{{$VCR.CPU.HIGH.FOR}})*{{$VCR.POLL}}>=0.9*{{$VCR.CPU.HIGH.FOR}}"
    f' and last({_STATE})="running" and count({_STATE},{{$VCR.BOOT.GRACE}},"regexp","{_OFF}")=0',
    "AVERAGE",
    "It is overloaded, or spins: VCRecovery fails it over only if its ports do not answer. Nine tenths of the time must"
    " be covered by samples. One that boots is busy, and its ports are closed: for {$VCR.BOOT.GRACE} that says nothing."
    " `vcrecovery explain {#SERVICE}` says what was found.",
    event="has used more than {$VCR.CPU.HIGH} % of its CPUs for {$VCR.CPU.HIGH.FOR}",
    recovery=f"(max({_CPU},{{$VCR.CPU.OK.FOR}})<{{$VCR.CPU.HIGH.OK}} and count({_CPU},{{$VCR.CPU.OK.FOR}})>=2)"
    f" or {_IS_OFF} or {_IS_PAUSED}",
    shown="CPU: {ITEM.LASTVALUE1}",
)
_PAUSED = _guest_trigger(
    "paused",
    "is paused",
    _IS_PAUSED,
    "WARNING",
    "It serves nobody. Somebody has suspended it, or a fault has (a full disk of its host), or VCRecovery holds an old"
    " primary so that it writes nothing: `vcrecovery status {#SERVICE}` says which. To go on: `virsh resume {#VM}`.",
    event="has been paused for {$VCR.PAUSED.FOR}",
    shown="State: {ITEM.LASTVALUE1}",
)

_GUESTS = rule(
    NAME,
    "vcr.guests",
    "Guests",
    "Every guest of the hypervisor. Only the primaries of the plan's services get triggers.",
    "14d",
    items=[
        item(
            NAME,
            "vcr.cpu[{#UUID}]",
            "CPU of {#VM}",
            "Per cent of all of its vCPUs; 0 while it is off.",
            {"component": "cpu", "service": "{#SERVICE}"},
            history="7d",
            trends=True,
            value_type="FLOAT",
            units="%",
            prototype=True,
        ),
        item(
            NAME,
            "vcr.state[{#UUID}]",
            "State of {#VM}",
            "libvirt's word for it, and the cause in parentheses where one is known.",
            {"component": "vm", "service": "{#SERVICE}"},
            history="7d",
            value_type="CHAR",
            triggers=[_CRASHED, _PAUSED],
            prototype=True,
        ),
    ],
    graphs=[graph(NAME, "CPU of {#VM}", [("vcr.cpu[{#UUID}]", "1A7C11")], percent=True)],
    triggers=[_ZERO, _HIGH],
    overrides=[
        {
            "name": "No service has it as its primary",
            "step": "1",
            "stop": "STOP",
            "filter": {
                "conditions": [{"macro": "{#SERVICE}", "value": ".", "operator": "NOT_MATCHES_REGEX", "formulaid": "A"}]
            },
            "operations": [{"operationobject": "TRIGGER_PROTOTYPE", "operator": "LIKE", "discover": "NO_DISCOVER"}],
        }
    ],
)

NAME_OF_VM = r'{{ITEM.NAME}.regsub("State of (.*)","\1")}'
PAGES = [
    Page("Now", [
        problems(0, 0, 72, 6),
        tiles(0, 6, 72, 4, "State of *", NAME_OF_VM, name="VMs"),
        history(0, 10, 48, 7, NAME, "vcr.summary", "Guests in words"),
        one_value(48, 10, 12, 7, NAME, "vcr.heartbeats"),
        one_value(60, 10, 12, 7, NAME, "vcr.site.heard"),
    ]),
    Page("Figures", [figure(0, 0, 72, 12, NAME, "CPU of {#VM}", ["CPU of *"], percent=True)]),
]  # fmt: skip

TEMPLATE = template(
    NAME,
    "A libvirt host, its guests, and the problems from which VCRecovery fails over.\n"
    "The values come from `vcrecovery relay`; the role `monitoring` sets the macros from the plan.",
    items=[
        item(
            NAME,
            "vcr.asked",
            "Questions of the relay",
            "1 each time the relay has asked the hypervisor's SNMP agent, whatever came of it.",
            {"component": "relay"},
            history="1d",
        ),
        item(
            NAME,
            "vcr.heartbeat",
            "Heartbeat",
            "1 each time the hypervisor's SNMP agent has answered, and knew what libvirt says.",
            {"component": "heartbeat"},
            history="7d",
        ),
        calculated(
            NAME,
            "vcr.heartbeats",
            "Heartbeats of late",
            "How many have come within {$VCR.HOST.SILENT}; -1 as long as not one has ever come.\n"
            "nodata() would not do: Zabbix looks at it only every 30 s.",
            "heartbeat",
            'count(//vcr.heartbeat,{$VCR.HOST.SILENT},"eq","1")-(count(//vcr.heartbeat,#1)=0)',
            value_type="FLOAT",
            words="Heartbeats",
        ),
        calculated(
            NAME,
            "vcr.site.heard",
            "Hypervisors of the site heard of late",
            "How many have been heard within {$VCR.SITE.HEARD}.",
            "heartbeat",
            'count(max_foreach(/*/vcr.heartbeat?[group="VCRecovery/{$VCR.SITE}"],{$VCR.SITE.HEARD}))',
        ),
        item(
            NAME,
            "vcr.summary",
            "Guests in words",
            "Each primary of the plan's services on this hypervisor, and its state.",
            {"component": "vm"},
            value_type="TEXT",
        ),
    ],
    macros=[
        macro(
            "{$VCR.BOOT.GRACE}",
            "300s",
            "For so long after its start a guest may use all of its CPUs, as for the controller's own watcher.",
        ),
        macro("{$VCR.CPU.HIGH}", "95", "Per cent of all vCPUs of a guest; the plan's detection.cpu_high."),
        macro(
            "{$VCR.CPU.HIGH.FOR}", "60s", "A guest above that for so long is a problem; the plan's detection.cpu_high_for."
        ),
        macro("{$VCR.CPU.HIGH.OK}", "80", "Per cent; below that for {$VCR.CPU.OK.FOR} the problem is over."),
        macro("{$VCR.CPU.OK.FOR}", "30s", "For how long a guest's CPU has to be well again."),
        macro(
            "{$VCR.CPU.ZERO.FOR}",
            "60s",
            "A guest that used no CPU time for so long is suspected; the plan's detection.cpu_zero_for.",
        ),
        macro(
            "{$VCR.HOST.SILENT}",
            "15s",
            "A hypervisor not heard of for so long is a problem; the plan's detection.host_silent_for.",
        ),
        macro("{$VCR.PAUSED.FOR}", "60s", "A primary that has been paused for so long is a problem."),
        macro(
            "{$VCR.POLL}", "5s", "How often the relay reads every guest; the plan's snmp.poll, and 6 s for libvirt-snmp."
        ),
        macro("{$VCR.SITE}", "main", "The hypervisor's site in the plan."),
        macro(
            "{$VCR.SITE.HEARD}",
            "7s",
            "A site is alive while one of its hypervisors has been heard within this time. More than {$VCR.POLL}, and"
            " less than {$VCR.HOST.SILENT} by more than {$VCR.POLL}: so a site that fails never looks like single"
            " hypervisors.",
        ),
    ],
    words=[value_map(NAME, "Heartbeats", {-1: "never heard", 0: "silent"})],
    rules=[_GUESTS],
)  # fmt: skip
