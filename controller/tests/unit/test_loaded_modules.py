"""What each verb loads: on the way from a failure to its end, and at every press of a key, a library costs its time.

Each verb runs as an operator calls it, in a program of its own, with a plan of which nothing outside answers.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

#: Each takes from 2 to 80 ms to load.
HEAVY = {
    "asyncio",
    "cryptography",
    "dns",
    "http.client",
    "libvirt",
    "pydantic",
    "pylxd",
    "pysnmp",
    "pyzabbix",
    "requests",
    "sqlite3",
    "urllib3",
    "vcrecovery.drivers.probe_tls",
    "vcrecovery.excludes",
    "vcrecovery.standby.restore_points",
    "yaml",
}
_RUN = """
import sys
from vcrecovery.cli.main import main
try:
    main()
finally:
    sys.stdout.flush()
    print(*sorted(set(sys.argv[-1].split(",")) & set(sys.modules)), file=sys.stderr)
"""
_PLAN = {"pydantic", "yaml"}
_JOURNAL = _PLAN | {"sqlite3"}
#: LXD's socket needs no library but Python's own.
_OUTSIDE = _JOURNAL | {"libvirt", "http.client", "vcrecovery.excludes"}


def loaded(words: list[str], plan: Path) -> set[str]:
    code = _RUN.replace("sys.argv[-1]", repr(",".join(sorted(HEAVY))))
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "VCRECOVERY_PLAN": str(plan)},
    )
    assert "internal error" not in done.stderr
    return set(done.stderr.splitlines()[-1].split())


@pytest.fixture
def without_names(plan_file: Path) -> Path:
    """No name in DNS follows the service."""
    kept = [line for line in plan_file.read_text().splitlines() if "www.example.test" not in line]
    plan_file.write_text("\n".join(kept).replace("    dns:\n", "") + "\n")
    return plan_file


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (["--help"], set()),
        (["--version"], set()),
        (["failover", "--help"], set()),
        (["plan", "check"], _JOURNAL),
        (["history"], _JOURNAL),
        (["suspend", "web"], _JOURNAL),
        (["resume", "web"], _JOURNAL),
        (["acknowledge", "web"], _JOURNAL),
        (["status"], _OUTSIDE),
        (["failover", "web"], _OUTSIDE),
        (["failover", "--host", "hv1"], _OUTSIDE),
    ],
)
def test_a_verb_loads_what_it_needs(words: list[str], needed: set[str], without_names: Path) -> None:
    assert loaded(words, without_names) <= needed


def test_names_in_dns_load_its_library(plan_file: Path) -> None:
    assert "dns" in loaded(["failover", "web"], plan_file)


def test_every_dependency_is_imported() -> None:
    """Each is fetched, kept up to date and trusted on every secondary."""
    controller = Path(__file__).parents[2]
    project = tomllib.loads((controller / "pyproject.toml").read_text())["project"]
    wanted = {re.split("[^a-z0-9-]", line.lower())[0] for line in project["dependencies"]}
    imported = set()
    for file in (controller / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported.add(node.module.split(".")[0])
    provided = {
        distribution.lower() for module, names in packages_distributions().items() if module in imported
        for distribution in names
    }  # fmt: skip
    assert wanted <= provided
    locked = {line.split("==")[0] for line in (controller / "requirements.lock").read_text().splitlines()}
    assert wanted <= locked
    assert "zabbix-utils" not in locked


def test_what_only_some_need_is_locked_apart() -> None:
    """Who tells nobody does not get Apprise, and who does gets the same requests as everybody."""
    controller = Path(__file__).parents[2]
    extras = tomllib.loads((controller / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras["notify"] == ["apprise>=1.9"]
    pinned = {
        lock: dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", (controller / f"{lock}.lock").read_text(), re.MULTILINE))
        for lock in ("requirements", "requirements-notify", "requirements-dev")
    }
    assert "apprise" in pinned["requirements-notify"]
    assert not pinned["requirements"].keys() & pinned["requirements-notify"].keys()
    assert {**pinned["requirements"], **pinned["requirements-notify"]}.items() <= pinned["requirements-dev"].items()


#: Who may load in a function, and which start that serves. Figures: what the library adds to a start, in ms.
LOADED_LATE = {
    "cli/plan.py": "`plan check` and --help need no prices",
    "cost/solver.py": "the solver is an extra: only `plan advise` needs it",
    "__main__.py": "`receive`, at every heartbeat of every VM: the command line and its library (40)",
    "cli/main.py": "every verb: only the one that is called is loaded",
    "cli/options.py": "completion and --help: the plan's schema (75)",
    "cli/complete.py": "completion: YAML (8) and SQLite (1), where an answer needs them",
    "cli/cost.py": "completion and --help: prices, the journal and the plan (130)",
    "cli/drill.py": "completion and --help: what carries it out (160)",
    "cli/failover.py": "completion and --help: what carries it out (160)",
    "cli/switchover.py": "completion and --help: the same",
    "cli/failback.py": "completion and --help: the same",
    "cli/move.py": "completion and --help: the same",
    "cli/drain.py": "completion and --help: the same",
    "cli/secondary.py": "completion and --help: the same",
    "cli/rebalance.py": "--help: the same",
    "cli/rollback.py": "completion and --help: the same",
    "cli/status.py": "completion and --help: what asks the hypervisors, secondaries and name servers (125)",
    "cli/explain.py": "completion and --help: the same",
    "cli/history.py": "completion and --help: the journal and the plan (115)",
    "cli/metrics.py": "--help: the same as status",
    "cli/report.py": "completion and --help: all of the above",
    "report/look.py": "a status of spares that have a copy needs no restore points (1)",
    "report/periodic/charts.py": "where it is not installed, a report has tables: matplotlib (400)",
    "cli/snmp_agent.py": "snmpd waits for `table`, which needs no pysnmp (170)",
    "snmp/table_program.py": "the same: libvirt's library (55) is loaded while snmpd is answered already",
    "cost/sources.py": "a plan without AWS's price list needs nothing that reads one",
    "drivers/lxd/connection.py": "a failover over LXD's socket needs no pylxd (58)",
    "drivers/lxd/lifecycle.py": "the watcher alone listens: a failover needs no websockets (95)",
    "drivers/notify.py": "the program that sends alone: Apprise (200), whose log is kept in",
    "drivers/probe.py": "a failover whose ports are plain needs no TLS",
    "drivers/process.py": "a failover that runs no program needs no ctypes (1)",
    "plan/model.py": "a plan without an exclude profile needs none (13)",
    "plan/services.py": "a plan without first and warm units needs no exclude lists (13)",
    "transfer/receiver.py": "only a VM that asks who serves, of a secondary on demand that is on, needs SQLite (1)",
    "standby/container.py": "a failover makes no standby: excludes (13), cryptography (4)",
    "standby/copies.py": "a failover makes no copy: restore points (1)",
    "standby/modes.py": "a failover makes no standby: excludes (13)",
}


def test_only_what_serves_a_start_is_loaded_in_a_function() -> None:
    """What keeps running, such as the watcher, loads all that it may need when it starts, and not in a failover."""
    package = Path(__file__).parents[2] / "src/vcrecovery"
    late = set()
    for file in package.rglob("*.py"):
        for function in ast.walk(ast.parse(file.read_bytes())):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(function)):
                late.add(file.relative_to(package).as_posix())
    assert {name for name in late if not name.startswith("operations/")} == set(LOADED_LATE)
