"""The real `vcrecovery` of a controller whose only VM is a process. `python elsewhere_program.py FOLDER SEEN WORDS...`

FOLDER is the VM's. It is killed at the first place that is not in the file SEEN yet, which has it then: after a step
was journalled, before it is journalled that it is done, and before each write to LXD. SEEN may be `-`: it lives.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    tests = Path(__file__).parent.parent
    sys.path[:0] = [str(tests), str(tests.parent / "lab")]

from lab.killed_controller import Unseen
from lab.process_vm import ProcessVm
from vcrecovery.cli.main import main
from vcrecovery.drivers.libvirt import LibvirtHost
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.steps import restore
from vcrecovery.store.journal import Journal


def have_it_killed(places: Unseen) -> None:
    begin, end, configure, change = Journal.begin, Journal.end, LxdServer.configure, LxdServer._change
    steps: list[str] = []

    def begins(self: Journal, episode: Any, step: Any, *words: Any, **more: Any) -> int:
        row = begin(self, episode, step, *words, **more)
        steps.append(str(step))
        places.pass_one(f"begun: {step}")
        return row

    def ends(self: Journal, *words: Any, **more: Any) -> None:
        places.pass_one(f"done: {steps[-1]}")
        end(self, *words, **more)

    def writes(self: LxdServer, instance: Any, config: Mapping[str, str], *words: Any) -> None:
        said = {key.rpartition(".")[2]: value.rpartition(" ")[0] or value for key, value in sorted(config.items())}
        places.pass_one(f"before writing {said}")
        configure(self, instance, config, *words)

    def changes(self: LxdServer, begun: Any, timeout: float, doing: str) -> Any:
        places.pass_one(f"before {doing}")
        return change(self, begun, timeout, doing)

    # A test would wait for it each time.
    setattr(restore, "ENDED_BY_THEMSELVES", 0.5)  # noqa: B010
    setattr(Journal, "begin", begins)  # noqa: B010
    setattr(Journal, "end", ends)  # noqa: B010
    setattr(LxdServer, "configure", writes)  # noqa: B010
    setattr(LxdServer, "_change", changes)  # noqa: B010


def become(folder: Path, seen: str, words: list[str]) -> None:
    def hosts(_self: Environment) -> dict[str, LibvirtHost]:
        return {"hv1": ProcessVm(folder)}

    there = cached_property(hosts)
    there.__set_name__(Environment, "hosts")
    setattr(Environment, "hosts", there)  # noqa: B010
    if seen != "-":
        have_it_killed(Unseen(Path(seen)))
    sys.argv = ["vcrecovery", *words]
    main()


if __name__ == "__main__":
    become(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
