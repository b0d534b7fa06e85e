"""Scenario folders: commands in, golden log out, with a virtual clock. They read as documentation.

`scenario.yml` has a title, the world's settings and a list of commands; `expect.log` is what must come out.
`VCRECOVERY_REWRITE=1` writes the logs anew: read the difference before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from simulation import Simulation
from vcrecovery.recover.states import Policy

FOLDER = Path(__file__).parent / "scenarios"
SCENARIOS = sorted(path.parent.name for path in FOLDER.glob("*/scenario.yml"))


def run(scenario: dict[str, Any], scratch: Path) -> list[str]:
    simulation = Simulation(scratch, Policy(**{"max_staleness": 60.0, **scenario.get("policy", {})}))
    for key, value in scenario.get("world", {}).items():
        assert hasattr(simulation.world, key), key
        setattr(simulation.world, key, value)
    for command in scenario["commands"]:
        verb, argument = next(iter(command.items())) if isinstance(command, dict) else (command, None)
        act(simulation, verb, argument)
    return simulation.log


def act(simulation: Simulation, verb: str, argument: Any) -> None:
    match verb:
        case "watch":  # look once a second, for so many seconds
            end = simulation.clock.now() + (argument or 0)
            simulation.watch()
            while simulation.clock.now() < end:
                simulation.clock.sleep(1.0)
                alive = simulation.world.power == "running" and 0 < simulation.world.cpu < 99
                simulation.world.heartbeat_at = simulation.clock.now() if alive else simulation.world.heartbeat_at
                simulation.watch()
        case "failover":
            simulation.failover(**(argument or {}))
        case "set":
            for key, value in argument.items():
                assert hasattr(simulation.world, key), key
                setattr(simulation.world, key, value)
            if "cpu" in argument:
                simulation.world.cpu_since = simulation.clock.now()
            simulation.say("world: " + ", ".join(f"{key} = {value}" for key, value in argument.items()))
        case "set after":
            seconds, values = argument["seconds"], argument["values"]
            at = simulation.clock.now() + seconds
            simulation.clock.changes.append((at, lambda: act(simulation, "set", values)))
        case "crash":
            simulation.crash()
            simulation.say("world: QEMU is killed")
        case "stop primary":
            simulation.stop_primary(argument)
            simulation.say(f"world: the primary is off ({argument})")
        case "start primary":
            simulation.start_primary()
            simulation.say("world: the primary runs")
        case "serve from primary":
            simulation.serve_from_primary()
            simulation.say("operator: the primary serves again")
        case "acknowledge":
            simulation.acknowledge()
            simulation.say("operator: acknowledge web")
        case "pause":
            simulation.pause(argument)
            simulation.say(f"operator: pause web for {argument or 'ever'}")
        case "resume":
            simulation.resume()
            simulation.say("operator: resume web")
        case "kill controller at":
            simulation.kill_at = argument
        case "wait":
            simulation.clock.sleep(argument)
        case _:
            raise AssertionError(f"no such command: {verb}")


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str, tmp_path: Path) -> None:
    scenario = yaml.safe_load((FOLDER / name / "scenario.yml").read_text())
    log = "\n".join([f"# {scenario['title']}", *run(scenario, tmp_path)]) + "\n"
    golden = FOLDER / name / "expect.log"
    if os.environ.get("VCRECOVERY_REWRITE"):
        golden.write_text(log)
    assert log == golden.read_text()


def test_there_are_scenarios() -> None:
    assert len(SCENARIOS) >= 15
