"""`python -m relay_bench`: measures everything and prints it; see --help."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from exclude_bench.command import Benchmark
from vcrecovery_lab.ports import free_port

from .agents import agents
from .program import Program, plan_of
from .recorder import Recorder
from .results import Results, targets, text
from .scale import FULL, QUICK
from .stage_notifications import FLOOD_RATE, STRANGER, make_traps, measure_latency, sniffed_and_forged, storm
from .stage_polling import fill, measure_polling, wait_until_settled

_ZABBIX = "127.0.1.8"


def _measured(folder: Path, quick: bool, _seed: int) -> Results:
    scale = QUICK if quick else FULL
    load = os.getloadavg()[0]
    recorder = Recorder(_ZABBIX, free_port(_ZABBIX))
    recorder.start()
    with agents(folder / "agents", scale.hypervisors) as made:
        fill(made, scale)
        program = Program(folder, plan_of(folder, made, recorder, scale.poll, v2c=False))
        program.start()
        try:
            wait_until_settled(recorder, scale)
            polling = measure_polling(program, made, recorder, scale)
            crashes = make_traps(folder, made, scale, 5, "crashed", 10**6)
            latencies = [measure_latency("alone", crashes, "shutoff (crashed)", program, recorder, scale.storm_seconds)]
            starts = make_traps(folder, made, scale, 5, "destroyed", 10**6 + 100)
            with storm(STRANGER, program.port, 600, [crashes[0].data]):
                time.sleep(1)
                what = "while strangers send 10,000/s"
                latencies.append(
                    measure_latency(what, starts, "shutoff (destroyed)", program, recorder, scale.storm_seconds)
                )
            # In the name of the first one. Its own notifications get lost among them, those of others do not.
            flood = sniffed_and_forged(folder, made[0], program)
            ends = make_traps(folder, made[1:], scale, 5, "failed", 10**6 + 200)
            with storm(made[0].address, program.port, 600, flood, FLOOD_RATE):
                time.sleep(1)
                what = "while 20,000/s are replayed and forged"
                latencies.append(
                    measure_latency(what, ends, "shutoff (failed)", program, recorder, scale.storm_seconds)
                )
        finally:
            program.stop()
            recorder.stop()
    return Results(scale, load, polling, latencies, targets(scale, polling, latencies))


def main() -> int:
    return Benchmark(
        name="relay_bench",
        about="What the relay costs, and how soon Zabbix has a notification.",
        seed_of="nothing: nothing is drawn by lot here",
        measure=_measured,
        text=text,
        work_help="for the agents' files",
    ).main()


if __name__ == "__main__":
    sys.exit(main())
