"""Stage 1: the first sync of a whole tree, and one that finds nothing changed, against plain `rsync -a`."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from exclude_bench.measure import Spread, Usage, measured, spread
from vcrecovery.errors import ExternalError
from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.pair import process
from vcrecovery_lab.pair.pair import Pair
from vcrecovery_lab.pair.primary import PYTHON
from vcrecovery_lab.progress import stderr_progress

from .processes import Memory, Peak
from .scale import Scale

OURS, PLAIN = "reconcile", "rsync -a"
FIRST, UNCHANGED = "first sync", "nothing changed"
_TIMEOUT_SECONDS = 600


@dataclass(frozen=True)
class PassCost:
    """Seconds; CPU time is that of the primary's side."""

    scenario: str
    kind: str
    wall: Spread
    cpu: Spread


@dataclass(frozen=True)
class PassCosts:
    """`ratios`: our time over plain rsync's in the same round, by scenario."""

    costs: list[PassCost]
    ratios: dict[str, Spread]
    peak: Memory


def measure_passes(pair: Pair, scale: Scale, grow: Callable[[], None]) -> PassCosts:
    """Both ways in turns; `grow` makes the tree that is compared unchanged. The standby has everything at the end."""
    usages: dict[tuple[str, str], list[Usage]] = {}
    pair.primary.run_dir.mkdir(exist_ok=True)
    _rounds(pair, scale, FIRST, usages)
    grow()
    _empty(pair)
    with stderr_progress(f"passes: memory, first sync of {scale.files:,} files"):
        peak = _peak(pair)
    _rounds(pair, scale, UNCHANGED, usages)
    costs = [
        PassCost(scenario, kind, spread([u.wall for u in runs]), spread([u.cpu for u in runs]))
        for (scenario, kind), runs in sorted(usages.items())
    ]
    ratios = {
        scenario: spread(
            [o.wall / p.wall for o, p in zip(usages[scenario, OURS], usages[scenario, PLAIN], strict=True)]
        )
        for scenario in (FIRST, UNCHANGED)
    }
    return PassCosts(costs, ratios, peak)


def _rounds(pair: Pair, scale: Scale, scenario: str, usages: dict[tuple[str, str], list[Usage]]) -> None:
    commands = {PLAIN: _plain(pair), OURS: _ours(pair)}
    for turn in range(scale.runs):
        for kind in (PLAIN, OURS) if turn % 2 == 0 else (OURS, PLAIN):
            if scenario == FIRST:
                _empty(pair)
            with stderr_progress(f"passes: round {turn + 1} of {scale.runs}, {scenario}, {kind}"):
                usages.setdefault((scenario, kind), []).append(measured(commands[kind], timeout=_TIMEOUT_SECONDS))


def _plain(pair: Pair) -> list[str]:
    shell = f"ssh -F {pair.primary.ssh_config} -o ControlPath=none"
    return ["rsync", "-a", "-e", shell, f"{pair.primary.tree}/", "receiver:/"]


def _ours(pair: Pair) -> list[str]:
    settings = str(pair.primary.folder / "sync.json")
    env = [f"PYTHONPATH={CHECKOUT}/controller/src", "PYTHONDONTWRITEBYTECODE=1"]
    return ["env", *env, PYTHON, "-m", "vcrecovery.primary", "reconcile", "--settings", settings]


def _empty(pair: Pair) -> None:
    shutil.rmtree(pair.standby.rootfs / "srv", ignore_errors=True)


def _peak(pair: Pair) -> Memory:
    child = process.start(_ours(pair), pair.primary.log)
    peak = Peak("reconcile, rsync and ssh at their peak", child.pid)
    try:
        status = child.wait(timeout=_TIMEOUT_SECONDS)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill([child.pid, *process.below(child.pid)])
        raise
    finally:
        found = peak.stop()
    if status:
        raise ExternalError(f"reconcile failed: {pair.primary.log.read_text()[-300:]}")
    return found
