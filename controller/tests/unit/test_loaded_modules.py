"""What each verb loads: on the way from a failure to its end, and at every press of a key, a library costs its time.

Each verb runs as an operator calls it, in a program of its own, with a plan of which nothing outside answers.
"""

from __future__ import annotations

import os
import subprocess
import sys
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
    "zabbix_utils",
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
