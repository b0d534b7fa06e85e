"""Scenario folders: commands in, golden log out. They read as documentation.

What runs is the shipped program over simulated drivers (see `simulated`), with a virtual clock: `expect.log` is what
`vcrecovery watch` logs and `vcrecovery failover` prints. `scenario.yml` has a title, what it `covers` (see
`scenario_index.py`), the world's settings, what else its `plan` says of each service, of detection and of balance, and
a list of commands. Without `services` there is one, called web. With them, `world` holds for each, and a command that
names one (`crash: db`, `set: {of: db, ...}`) is for that one alone.
The watcher runs while a `watch` goes on, and stands still otherwise.
`VCRECOVERY_REWRITE=1` writes the logs and the index again: read the difference before you commit it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import scenario_index as index
from simulated.site import Site
from vcrecovery.errors import VCRecoveryError
from vcrecovery.plan.modes import Mode

SCENARIOS = sorted(path.parent.name for path in index.FOLDER.glob("*/*/scenario.yml"))


class Stage:
    """A scenario that is being played."""

    def __init__(self, scenario: dict[str, Any], scratch: Path) -> None:
        policy, world = scenario.get("policy", {}), dict(scenario.get("world", {}))
        services: dict[str, dict[str, Any]] = scenario.get("services", {"web": {}})
        detection = {key: f"{value:g}s" for key, value in policy.items() if key != "max_staleness"}
        staleness = {key: f"{value:g}s" for key, value in policy.items() if key == "max_staleness"}
        self.site = Site(
            scratch,
            services,
            world=world,
            plan={
                "detection": {
                    "hold_returning": scenario.get("hold_returning", False),
                    **detection,
                    **scenario.get("plan", {}).get("detection", {}),
                },
                "balance": scenario.get("plan", {}).get("balance", {}),
                "service": {**staleness, **scenario.get("plan", {}).get("service", {})},
            },
            groups=scenario.get("groups", {}),
            starts_at_once=scenario.get("starts_at_once", 32),
        )
        self.names = list(self.site.world.services)
        self.several = len(self.names) > 1

    def _set(self, said: dict[str, Any]) -> None:
        values = dict(said)
        names = self._named(values.pop("of", None))
        self.site.change(names, values)
        whose = "" if len(names) == len(self.names) else f"{', '.join(names)}: "
        nothing = {"reason": "none"}
        told = ", ".join(
            f"{key} = {nothing.get(key, 'well') if value == '' else value}" for key, value in values.items()
        )
        self.site.say(f"world: {whose}{told}")

    def _named(self, argument: Any) -> list[str]:
        if argument is None:
            return self.names
        return [argument] if isinstance(argument, str) else list(argument)

    def _later(self, seconds: float, command: Any) -> None:
        """Between two things that the program does."""
        scheduler = self.site.scheduler
        scheduler.at(scheduler.time + seconds, lambda: self._all(command))

    def _all(self, commands: Any) -> None:
        for command in commands if isinstance(commands, list) else [commands]:
            self.act(command, wait=False)

    def _operator(self, verb: str, said: dict[str, Any], *, wait: bool) -> None:
        words = dict(said)
        what = next((what for what in ("service", "host", "site", "group") if what in words), "service")
        process = self.site.begin_failover(what, words.pop(what, ""), verb, **words)
        if wait:
            self.site.do(process)

    def act(self, command: Any, *, wait: bool = True) -> None:
        said: dict[str, Any] = command if isinstance(command, dict) else {command: None}
        ((verb, argument),) = said.items()
        site = self.site
        match verb:
            case "watch" | "look" | "look for returning primaries":
                site.watch(argument or 0)
            case "failover" | "switchover" | "failback" | "move":
                self._operator(verb, argument or {}, wait=wait)
            case "rollback" | "commit":
                word = (argument or {}).get("drop_new_writes", False)
                process = site.begin_rollback(word=word) if verb == "rollback" else site.begin_commit()
                if wait:
                    site.do(process)
            case "zabbix event":
                process = site.zabbix_event(argument or "vm")
                if wait:
                    site.do(process)
            case "set":
                self._set(argument)
            case "machine ends":
                site.say(f"world: {argument} loses its power")
                site.world.machine_ends(argument)
            case "machine is back":
                name, after = (argument, 0.0) if isinstance(argument, str) else argument.values()
                site.say(f"world: {name} has its power again")
                site.world.machine_is_back(name, after)
            case "set after":
                self._later(argument["seconds"], {"set": argument["values"]})
            case "meanwhile":
                self._later(argument["seconds"], argument["do"])
            case "at":
                # Once, when that is journalled or done.
                site.then.setdefault(argument["place"], []).append(lambda: self._all(argument["do"]))
            case "clock":
                site.scheduler.set_by += argument
                site.say(f"world: the clock jumps by {argument} s")
            case "kill controller at":
                site.kill_at = argument
            case "restart controller":
                site.say("watch is restarted")
                site.kill_watcher()
            case "wait":
                site.run(argument)
            case "stop primary" | "suspend" | "standby set":
                self._of_one(verb, self.names[0], argument)
            case _:
                for name in self._named(argument):
                    self._of_one(verb, name, argument)

    def _of_one(self, verb: str, name: str, argument: Any) -> None:
        of, site = f" of {name}" if self.several else "", self.site
        match verb:
            case "crash":
                site.say(f"world: QEMU{of} is killed")
                site.crash(name)
            case "stop primary":
                site.say(f"world: the primary{of} is off ({argument})")
                site.stop_primary(name, argument)
            case "start primary":
                site.say(f"world: the primary{of} runs")
                site.start_primary(name)
            case "serve from primary":
                site.say(f"operator: vcrecovery standby reset {name}")
                site.serve_from_primary(name)
            case "reset":
                site.say(f"operator: vcrecovery standby reset {name}")
                site.reset(name)
            case "standby set":
                site.say(f"operator: vcrecovery standby set {name} {argument}")
                site.set_mode(name, argument)
            case "acknowledge":
                site.say(f"operator: vcrecovery acknowledge {name}")
                site.acknowledge(name)
            case "suspend":
                site.say(f"operator: vcrecovery suspend {name}" + (f" --for {argument}s" if argument else ""))
                site.suspend(name, argument)
            case "resume":
                site.say(f"operator: vcrecovery resume {name}")
                site.resume(name)
            case _:
                raise AssertionError(f"no such command: {verb}")


def play(scenario: dict[str, Any], scratch: Path) -> list[str]:
    stage = Stage(scenario, scratch)
    for command in scenario["commands"]:
        try:
            stage.act(command)
        except VCRecoveryError as error:
            stage.site.say(f"operator: {error}")
    return stage.site.log


@pytest.mark.usefixtures("in_utc")
@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str, memory_path: Path) -> None:
    scenario = yaml.safe_load((index.folder_of(name) / "scenario.yml").read_text())
    log = "\n".join([f"# {scenario['title']}", *play(scenario, memory_path)]) + "\n"
    golden = index.folder_of(name) / "expect.log"
    if os.environ.get("VCRECOVERY_REWRITE"):
        golden.write_text(log)
    assert log == golden.read_text()


def test_every_promise_of_the_readme_has_a_tag() -> None:
    """One that was reworded or is new: see PROMISES in scenario_index.py."""
    for promise in index.promises_of_the_readme():
        tags = [tag for tag, words in index.PROMISES.items() if words in promise]
        assert len(tags) == 1, promise


def test_every_promise_mode_and_fault_is_covered() -> None:
    assert len(SCENARIOS) >= 40
    assert set(index.MODES) == set(Mode)
    uncovered = [tag for tag, folders in index.covered().items() if not folders]
    assert set(uncovered) == set(index.ELSEWHERE)


def test_every_chapter_is_in_the_index() -> None:
    assert {path.parent.name for path in index.FOLDER.glob("*/chapter.yml")} == set(index.CHAPTERS)
    assert {path.parent.name for path in index.FOLDER.glob("*/*") if path.is_dir()} == set(index.CHAPTERS)


def test_every_scenario_says_what_it_covers() -> None:
    said = {folder for folders in index.covered().values() for folder in folders}
    assert said == set(SCENARIOS)


def test_the_index_is_what_the_folders_say() -> None:
    if os.environ.get("VCRECOVERY_REWRITE"):
        index.INDEX.write_text(index.as_markdown())
    assert index.INDEX.read_text() == index.as_markdown()
    links = re.findall(r"\]\(([^)#]+)", index.as_markdown())
    assert [link for link in links if not (index.INDEX.parent / link).exists()] == []
