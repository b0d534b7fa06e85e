"""A copy of the sources in which mutmut may work, and what it is told there."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.progress import stderr_progress
from vcrecovery_lab.run import LabError, run

MUTMUT = "mutmut==3.8.1"
#: What a wrong line of can cost a service; the names are below `src/vcrecovery`.
BROKEN = (
    "core/*.py",
    "drivers/dns.py",
    "operations/host_fence.py",
    "operations/several.py",
    "operations/start_conditions.py",
    "operations/start_gate.py",
    "operations/unattended.py",
    "transfer/freshness.py",
    "transfer/receiver.py",
)
QUICK = ("core/fencing.py",)
#: They start the program as a process of its own, which no mutant reaches, or look at the checkout's other files.
_WITHOUT = (
    "completion",
    "docs",
    "exclude_list_module",
    "interrupted",
    "jail",
    "journal_on_disk",
    "killed_verbs",
    "loaded_modules",
    "output",
    "sign_of_life",
    "status_cli",
)
#: Whatever the tests of one mutant take: by so many times more than without it, and seconds on top, it hangs.
_HANGS_AFTER, _AND = 15.0, 20.0
#: A run that is cut off tells nothing.
_LONGEST = 4 * 3600.0


def prepare(folder: Path, broken: Sequence[str]) -> Path:
    """Where mutmut is called. A test there finds the checkout's files one folder nearer than here."""
    names = run(["git", "-C", CHECKOUT, "ls-files", "-z"], timeout=60).stdout
    run(["rsync", "-a", "--from0", "--files-from=-", f"{CHECKOUT}/", f"{folder}/"], timeout=300, stdin=names)
    controller = folder / "controller"
    # The package's own, where a test looks for the checkout's.
    (controller / "README.md").unlink()
    for path in folder.iterdir():
        if path != controller and not (controller / path.name).exists():
            (controller / path.name).symlink_to(path)
    with (controller / "pyproject.toml").open("a") as settings:
        settings.write(_settings(broken))
    return controller


def _settings(broken: Sequence[str]) -> str:
    ignored = [f"--ignore=tests/unit/test_{name}.py" for name in _WITHOUT]
    return f"""
[tool.mutmut]
source_paths = ["src"]
only_mutate = {[f"src/vcrecovery/{name}" for name in broken]}
also_copy = ["lab", "benchmarks"]
pytest_add_cli_args_test_selection = ["tests/unit", "tests/test_scenarios.py"]
pytest_add_cli_args = {["-m", "not lab", "-p", "no:cacheprovider", *ignored]}
timeout_multiplier = {_HANGS_AFTER}
timeout_constant = {_AND}
type_check_command = {["mypy", "src/vcrecovery", "--output", "json", "--disable-error-code", "unused-ignore"]}
"""


def mutmut(controller: Path, *words: str) -> str:
    """What it prints. Raises LabError."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    call: list[str | Path] = ["env", "--chdir", controller, "mutmut", *words]
    process = run(call, timeout=_LONGEST, env={"PATH": path}, check=False)
    if process.returncode:
        said = (process.stdout + process.stderr).replace("\r", "\n").splitlines()
        raise LabError("\n".join([f"mutmut {' '.join(words)} ended with {process.returncode}:", *said[-20:]]))
    return process.stdout


def install() -> None:
    with stderr_progress(f"{MUTMUT}: installing into the tests' .venv"):
        run([sys.executable, "-m", "pip", "install", "--quiet", MUTMUT], timeout=600)
