"""A copy of the checkout, in which each function can become each of its mutants, and the tests that meet them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.progress import stderr_progress
from vcrecovery_lab.run import LabError, run

from .outcome import BY_TYPES, Mutant

#: It makes them; `generate` and `attempts` use its modules.
MUTMUT = "mutmut==3.8.1"
#: What a wrong line of can cost a service; the names are below `src/vcrecovery`.
BROKEN = (
    "core/*.py",
    "drivers/dns.py",
    "operations/host_fence.py",
    "operations/several.py",
    "operations/start_conditions.py",
    "operations/start_gate.py",
    "operations/steps/fence.py",
    "operations/unattended.py",
    "transfer/freshness.py",
    "transfer/receiver.py",
    "transfer/rsync_words.py",
)
QUICK = ("core/fencing.py",)
#: They start the program as a process of its own, which no mutant reaches, or look at other files of the checkout.
_WITHOUT = (
    "archive",
    "collection",
    "completion",
    "docs",
    "exclude_list_module",
    "grafana_dashboard",
    "interrupted",
    "jail",
    "journal_on_disk",
    "killed_verbs",
    "loaded_modules",
    "output",
    "plan_defaults",
    "reference_pages",
    "roles",
    "sign_of_life",
    "status_cli",
    "subnets_of_the_lab",
    "zabbix_templates",
)
#: It looks at what is loaded, and with the mutants come modules of mutmut.
WITHOUT_TOO = ("tests/unit/test_receiver.py::test_what_sshd_starts_loads_no_more_than_it_needs",)
#: The walks at random and the kills at each step take minutes for one mutant.
_TESTS = ("tests/unit", "tests/test_scenarios.py", "tests/test_waiting_moves.py")
#: Seconds. A run that is cut off tells nothing.
_LONGEST = 4 * 3600.0


def prepare(folder: Path, broken: Sequence[str]) -> Path:
    """The copy's `controller`, with the mutants. Raises LabError."""
    for name in broken:
        if not any((CHECKOUT / "controller/src/vcrecovery").glob(name)):
            raise LabError(f"there is no controller/src/vcrecovery/{name}: name modules as in core/fencing")
    names = run(["git", "-C", CHECKOUT, "ls-files", "-z"], timeout=60).stdout
    run(["rsync", "-a", "--from0", "--files-from=-", f"{CHECKOUT}/", f"{folder}/"], timeout=300, stdin=names)
    controller = folder / "controller"
    with (controller / "pyproject.toml").open("a") as settings:
        settings.write(_settings(broken))
    _python(controller, "-m", "mutant_bench.generate")
    return controller


def _settings(broken: Sequence[str]) -> str:
    return f"""
[tool.mutmut]
source_paths = ["src"]
only_mutate = {[f"src/vcrecovery/{name}" for name in broken]}
type_check_command = {["mypy", "src/vcrecovery", "--output", "json", "--disable-error-code", "unused-ignore"]}
"""


def meet(controller: Path) -> tuple[list[Mutant], list[str]]:
    """What became of each mutant; and the tests that failed without one. Raises LabError."""
    made = json.loads((controller / "mutants.json").read_text())
    names, found = controller / "names.json", controller / "found.jsonl"
    names.write_text(json.dumps([one["name"] for one in made if not one["typed"]]))
    _python(
        controller, "-m", "pytest", "-s", "-q", "--tb=native", "--assert=plain", "-m", "not lab",
        "-p", "mutant_bench.attempts", "-p", "no:cacheprovider",
        *(f"--ignore=tests/unit/test_{name}.py" for name in _WITHOUT),
        *(f"--deselect={name}" for name in WITHOUT_TOO), *_TESTS,
        MUTANTS=str(names), MUTANTS_RUNS=str(controller / "runs.jsonl"), MUTANTS_FOUND=str(found), VCRECOVERY_SEED="1",
    )  # fmt: skip
    first, *lines = map(json.loads, found.read_text().splitlines())
    became = {one["name"]: one["status"] for one in lines}
    return [
        Mutant(one["name"], BY_TYPES if one["typed"] else became[one["name"]], one["shown"]) for one in made
    ], first["broken"]


def _python(controller: Path, *words: str, **env: str) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env |= {"PATH": path, "PYTHONPATH": ":".join(str(controller / name) for name in ("src", "lab", "benchmarks"))}
    process = run(["env", "--chdir", controller, sys.executable, *words], timeout=_LONGEST, env=env, check=False)
    if process.returncode:
        said = (process.stdout + process.stderr).splitlines()
        raise LabError("\n".join([f"{' '.join(words[:2])} ended with {process.returncode}:", *said[-20:]]))


def install() -> None:
    with stderr_progress(f"{MUTMUT}: installing into the tests' .venv"):
        run([sys.executable, "-m", "pip", "install", "--quiet", MUTMUT], timeout=600)
