"""What the scenario folders cover: each promise, mode and fault, and what else a failover has, under a short tag.

`scenarios/README.md` is made of this and of the tags in the folders; a test compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from vcrecovery.plan.modes import Mode

FOLDER = Path(__file__).parent / "scenarios"
INDEX = FOLDER / "README.md"
README = Path(__file__).parents[2] / "README.md"

#: Chapters, in the order of a failover.
CHAPTERS = (
    "detection",
    "confirmation",
    "fencing",
    "start",
    "names",
    "groups",
    "hosts-and-sites",
    "service-down",
    "kept-serving",
    "operator",
    "planned",
    "controller",
)
#: Each promise of the README, by words that stand in its first line.
PROMISES: Mapping[str, str] = {
    "fence first": "started only after its primary is fenced",
    "answering ports": "DNS never points at a target whose ports",
    "one live copy": "killed, restarted or started twice never makes a second live copy",
    "confined key": "Nothing outside a service's own files can be written",
    "max staleness": "A failover refuses, with the reason, when the standby is older",
    "own wish": "Switching off your own VM is no failure",
    "withdrawn": "It never automatically ends a primary that is seen to serve",
    "second signal": "A signal is a hint",
    "power off": "It powers a hypervisor off automatically only",
    "cool down": "failed over automatically twice",
    "no lost write": "A switchover that ended well lost no write",
    "asks at boot": "A VM that boots beside a standby that serves starts none",
    "kept serving": "A standby that serves is kept serving",
    "drill": "A drill leaves nothing behind",
    "one of two": "and its [spare](docs/spares.md) one serves",
}
#: Promises that the decision core has no part in, with what tests them.
ELSEWHERE: Mapping[str, str] = {
    "confined key": "no decision of the core: `tests/lab` and `tests/unit` attack the receiver",
    "asks at boot": "a unit in the VM: `tests/primary/test_who_serves.py`, and `tests/lab/test_a_1_switchover.py`",
    "drill": "no failover: `tests/lab/test_s_drill.py` kills it at each step",
}
MODES: Mapping[str, str] = {
    Mode.HOT: "the standby runs",
    Mode.FROZEN: "booted, then frozen",
    Mode.WARM: "booted, no service runs",
    Mode.COLD: "off",
}
FAULTS: Mapping[str, str] = {
    "controller killed": "SIGKILL at a step (`test_kill_anywhere.py`: at every one)",
    "two controllers": "two at once, on one machine or on two",
    "lxd restarted": "LXD, or its machine, restarts in the middle",
    "dns down": "the DNS server is down, then up",
    "one dns server": "one of two authoritative servers refuses",
    "disk full": "no space left under the journal",
    "clock jumps": "by an hour, forward or back",
    "libvirtd hangs": "the hypervisor is reachable, libvirtd on it never answers",
    "cut network": "the primary lives behind a network that is cut",
    "flapping port": "a port opens and closes again",
}
REST: Mapping[str, str] = {
    "order": "of services that need each other",
    "parallel": "services start at the same time, up to a limit",
    "failing member": "one that does not come up holds back only those that need it",
    "vm": "one VM fails",
    "host": "all services of a hypervisor",
    "site": "all services of a site",
    "group": "all services of a group",
    "fence by libvirt": "destroy, then read back",
    "fence by command": "the operator's command ends the hypervisor",
    "operator's word": "typed by name, in place of a fence",
    "returning primary": "an old primary comes back after its epoch",
    "dns epoch": "a marker in DNS that is newer than the journal",
    "virtual ip": "an address that follows the service",
    "hung guest": "two signals speak for a hang",
    "restore point": "back to an older state",
    "service down": "whoever serves runs, and does not answer",
    "switchover": "the VM shuts down, and nothing that it has written is lost",
    "failback": "the VM fetches what the standby has written, and serves again",
    "rollback": "back from a failback, to what the standby was",
    "move": "a standby that serves goes on on another secondary, and nothing is lost",
    "spare": "another secondary has a copy of what serves, and takes over",
    "hook": "the operator's own command beside a step, or a gate before the start",
    "suspension": "the operator's word that automatic failover stops for a while",
}
SECTIONS: Mapping[str, Mapping[str, str]] = {
    "promise": PROMISES,
    "mode": MODES,
    "fault": FAULTS,
    "of a failover": REST,
}
TAGS = {tag: text for section in SECTIONS.values() for tag, text in section.items()}


def promises_of_the_readme() -> list[str]:
    """Each in one line."""
    section = README.read_text().split("## What it promises")[1].split("\n## ")[0]
    return [" ".join(entry.split()) for entry in section.split("\n- ")[1:]]


def folder_of(name: str) -> Path:
    """The scenario's, in its chapter."""
    return next(path for path in FOLDER.glob(f"*/{name}") if path.is_dir())


def covered() -> dict[str, list[str]]:
    """Tag -> the folders that have it."""
    found: dict[str, list[str]] = {tag: [] for tag in TAGS}
    for path in sorted(FOLDER.glob("*/*/scenario.yml")):
        for tag in yaml.safe_load(path.read_text()).get("covers", []):
            assert tag in found, f"{path}: no such tag: {tag}"
            found[tag].append(path.parent.name)
    return found


def _link(folder: Path) -> str:
    return f"[{folder.name}]({folder.relative_to(FOLDER)}/expect.log)"


def as_markdown() -> str:
    folders = covered()
    lines = [
        "# The scenarios",
        "",
        "Each folder is a story: `scenario.yml` has its title and what happens, `expect.log` what a user reads. Made",
        "of the folders by `VCRECOVERY_REWRITE=1 pytest tests/test_scenarios.py`.",
    ]
    for name in CHAPTERS:
        chapter = yaml.safe_load((FOLDER / name / "chapter.yml").read_text())
        lines += ["", f"## {chapter['title']}", "", chapter["about"], ""]
        for path in sorted((FOLDER / name).glob("*/scenario.yml")):
            lines.append(f"- {_link(path.parent)}: {yaml.safe_load(path.read_text())['title']}")
    lines += ["", "## What they cover"]
    for name, section in SECTIONS.items():
        lines += ["", f"| {name} | | folders |", "|---|---|---|"]
        for tag, text in section.items():
            where = [_link(folder_of(folder)) for folder in folders[tag]]
            # The README's own links begin at the top.
            text = text.replace("](docs/", "](../../../docs/")
            lines.append(f"| {tag} | {text} | {', '.join(where) or ELSEWHERE[tag]} |")
    return "\n".join(lines) + "\n"
