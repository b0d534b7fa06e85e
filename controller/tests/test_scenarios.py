"""Scenario folders: commands in, golden log out, with a virtual clock. They read as documentation.

`scenario.yml` has a title, what it `covers` (see `scenario_index.py`), the world's settings and a list of commands;
`expect.log` is what must come out. Without `services` there is one, called web. With them, `env` holds for each, and
a command that names one (`crash: db`, `set: {of: db, ...}`) is for that one alone.
`VCRECOVERY_REWRITE=1` writes the logs and the index anew: read the difference before you commit it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

import scenario_index as index
from simulated_fleet import Fleet
from simulation import Simulation
from vcrecovery.core.power import Power
from vcrecovery.core.states import Policy
from vcrecovery.plan.modes import Mode

SCENARIOS = sorted(path.parent.name for path in index.FOLDER.glob("*/scenario.yml"))


class Stage:
    """A scenario that is being played."""

    def __init__(self, scenario: dict[str, Any], scratch: Path) -> None:
        policy = Policy(**{"max_staleness": 60.0, **scenario.get("policy", {})})
        services: dict[str, dict[str, Any]] = scenario.get("services", {})
        self.fleet: Fleet | None = None
        if services:
            needs = {name: said.pop("needs", []) for name, said in services.items()}
            self.fleet = Fleet(scratch, needs, policy, scenario.get("starts_at_once", 32))
            self.sims = self.fleet.sims
        else:
            self.sims = {"web": Simulation(scratch, policy)}
        self.groups: dict[str, list[str]] = scenario.get("groups", {})
        self.first = next(iter(self.sims.values()))
        self.clock = self.first.clock
        for name, sim in self.sims.items():
            sim.hold_returning = scenario.get("hold_returning", False)
            self._change([name], {**scenario.get("world", {}), **services.get(name, {})})

    @property
    def log(self) -> list[str]:
        return self.first.log

    def _change(self, names: Sequence[str], values: dict[str, Any]) -> None:
        for name in names:
            env = self.sims[name].env
            for key, value in values.items():
                assert hasattr(env, key), key
                setattr(env, key, Power(value) if key == "power" else value)
            if "cpu" in values:
                env.cpu_since = self.clock.time

    def _set(self, said: dict[str, Any]) -> None:
        values = dict(said)
        names = self._named(values.pop("of", None))
        self._change(names, values)
        whose = "" if len(names) == len(self.sims) else f"{', '.join(names)}: "
        nothing = {"reason": "none"}
        told = ", ".join(
            f"{key} = {nothing.get(key, 'well') if value == '' else value}" for key, value in values.items()
        )
        self.first.say(f"world: {whose}{told}")

    def _named(self, argument: Any) -> list[str]:
        if argument is None:
            return list(self.sims)
        return [argument] if isinstance(argument, str) else list(argument)

    def look(self) -> None:
        if self.fleet is None:
            self.first.watch()
        else:
            self.fleet.watch()

    def watch(self, seconds: float) -> None:
        """Looks once a second, for so long, and goes on until what was begun is over."""
        end = self.clock.time + seconds
        self.look()
        while self.clock.time < end or (self.fleet is not None and self.fleet.is_at_work):
            self.clock.sleep(1.0)
            for sim in self.sims.values():
                env = sim.env
                alive = env.power == "running" and 0 < env.cpu < 99 and not env.network_cut and env.syncs
                env.heartbeat_at = self.clock.now() if alive else env.heartbeat_at
            self.look()

    def failover(self, said: dict[str, Any]) -> None:
        words = dict(said)
        for what in ("service", "host", "site", "group"):
            if (name := words.pop(what, None)) is not None:
                break
        else:
            self.first.failover(**words)
            return
        assert self.fleet is not None
        of = {
            "service": [name],
            "host": [each for each, sim in self.sims.items() if sim.env.host == name],
            "site": [each for each, sim in self.sims.items() if sim.env.site == name],
            "group": self.groups.get(name, []),
        }
        self.fleet.failover(what, name, of[what], **words)

    def act(self, command: Any) -> None:
        said: dict[str, Any] = command if isinstance(command, dict) else {command: None}
        ((verb, argument),) = said.items()
        match verb:
            case "look":
                self.look()
            case "look for returning primaries":
                self.first.hold()
            case "watch":
                self.watch(argument or 0)
            case "failover":
                self.failover(argument or {})
            case "zabbix event":
                self.first.say("Zabbix: vcrecovery event 4711")
                self.first.zabbix_event()
            case "set":
                self._set(argument)
            case "set after":
                seconds, values = argument["seconds"], argument["values"]
                self.clock.changes.append((self.clock.time + seconds, lambda: self._set(values)))
            case "meanwhile":
                seconds, then = argument["seconds"], argument["do"]
                self.clock.changes.append((self.clock.time + seconds, lambda: self.act(then)))
            case "clock":
                self.clock.set_by += argument
                self.first.say(f"world: the clock jumps by {argument} s")
            case "kill controller at":
                where, _, name = str(argument).rpartition(" of ")
                sim, where = (self.sims[name], where) if name in self.sims else (self.first, argument)
                sim.kill_at = where
            case "restart controller":
                self.first.say("the controller is restarted")
                self.first.restart()
            case "wait":
                self.clock.sleep(argument)
            case "stop primary" | "pause" | "standby set":
                self._of_one(verb, self.first, argument)
            case _:
                for name in self._named(argument) if self.fleet else ["web"]:
                    self._of_one(verb, self.sims[name], argument)

    def _of_one(self, verb: str, sim: Simulation, argument: Any) -> None:
        of = f" of {sim.name}" if self.fleet else ""
        match verb:
            case "crash":
                sim.crash()
                sim.say(f"world: QEMU{of} is killed")
            case "stop primary":
                sim.stop_primary(argument)
                sim.say(f"world: the primary{of} is off ({argument})")
            case "start primary":
                sim.start_primary()
                sim.say(f"world: the primary{of} runs")
            case "serve from primary":
                sim.serve_from_primary()
                sim.say(f"operator: standby reset {sim.name}: the primary serves again")
            case "acknowledge":
                sim.acknowledge()
                sim.say(f"operator: acknowledge {sim.name}")
            case "pause":
                sim.pause(argument)
                sim.say(f"operator: pause {sim.name} for {argument or 'ever'}")
            case "resume":
                sim.resume()
                sim.say(f"operator: resume {sim.name}")
            case "standby set":
                sim.env.mode = argument
                sim.say(f"operator: standby set {sim.name} {argument}")
            case _:
                raise AssertionError(f"no such command: {verb}")


def play(scenario: dict[str, Any], scratch: Path) -> list[str]:
    stage = Stage(scenario, scratch)
    for command in scenario["commands"]:
        stage.act(command)
    return stage.log


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str, tmp_path: Path) -> None:
    scenario = yaml.safe_load((index.FOLDER / name / "scenario.yml").read_text())
    log = "\n".join([f"# {scenario['title']}", *play(scenario, tmp_path)]) + "\n"
    golden = index.FOLDER / name / "expect.log"
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


def test_every_scenario_says_what_it_covers() -> None:
    said = {folder for folders in index.covered().values() for folder in folders}
    assert said == set(SCENARIOS)


def test_the_index_is_what_the_folders_say() -> None:
    if os.environ.get("VCRECOVERY_REWRITE"):
        index.INDEX.write_text(index.as_markdown())
    assert index.INDEX.read_text() == index.as_markdown()
