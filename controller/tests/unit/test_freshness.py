"""What a standby's age is told from: two files that its primary writes, which may be hostile by now."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from test_lxd_over_socket import serving, world_of
from view_cases import NOW, standby, view

from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.errors import ExitCode
from vcrecovery.plan.load import load_plan
from vcrecovery.report.status import detail
from vcrecovery.transfer.freshness import RECONCILE, freshness_of, read_age, read_freshness_quietly
from vcrecovery.transfer.heartbeat_copy import HEARTBEAT

HUGE = 10**400
HOSTILE = [
    b"[" * 4000,
    b'{"at": ' + b"[" * 4000,
    b'{"at": 1e999}',
    b'{"at": NaN}',
    b'{"at": %d}' % HUGE,
    b'{"at": 5, "good_until": %d}' % HUGE,
    b'{"at": 1' + b"0" * 5000 + b"}",
    b"\xff\xfe",
    b"",
    b"5",
]


@pytest.mark.parametrize("heartbeat", HOSTILE)
def test_a_hostile_heartbeat_is_one_that_cannot_be_read(heartbeat: bytes) -> None:
    fresh = freshness_of("web", heartbeat, None)
    assert (fresh.synced_through, fresh.detail) == (None, "the heartbeat in web cannot be read")


@pytest.mark.parametrize(
    "report", [*HOSTILE, b'{"began": 1, "ended": %d}' % HUGE, b'{"began": 1, "progress": {"remaining": %d}}' % HUGE]
)
def test_a_hostile_report_is_none(report: bytes) -> None:
    assert freshness_of("web", b'{"at": 5, "good_until": 4}', report).reconcile is None


@pytest.mark.parametrize(
    "changes",
    [
        {"bytes": HUGE},
        {"files": HUGE},
        {"ended": 1e300},
        {"ended": -1e300},
        {"ended": None, "progress": {"bytes": HUGE, "files": HUGE, "percent": HUGE, "remaining": 1e300}},
    ],
)
def test_figures_that_cannot_be_are_shown_all_the_same(changes: dict[str, Any]) -> None:
    report = json.dumps({"began": 1.0, "ended": 2.0, "bytes": 3, "files": 4, **changes}).encode()
    fresh = freshness_of("web", json.dumps({"at": NOW, "queue": HUGE}).encode(), report)
    seen = standby()
    shown = detail(view(standby=type(seen)(seen.state, seen.detail, 5.0, fresh)))
    assert any(line.startswith("  sync") for line in shown), shown
    assert all(len(line) < 400 for line in shown)


@pytest.mark.parametrize(("path", "what"), [(HEARTBEAT, "heartbeat"), (RECONCILE, "report")])
def test_a_file_that_is_too_large_is_not_read(plan_file: Path, tmp_path: Path, path: str, what: str) -> None:
    for name in (HEARTBEAT, RECONCILE):
        file = Path(f"{tmp_path}/rootfs{name}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('{"at": 5, "good_until": 4, "began": 1, "ended": 2}')
    with Path(f"{tmp_path}/rootfs{path}").open("r+b") as large:
        large.truncate(1 << 38)  # more than any memory
    lxd = cast("LxdServer", SimpleNamespace(is_here=True, rootfs=lambda _pool, _service: tmp_path / "rootfs"))
    secondary = load_plan(plan_file).secondaries["sec1"]
    for read in (read_freshness_quietly, read_age):
        fresh = read(lxd, "web", secondary)
        assert fresh.synced_through == (None if what == "heartbeat" else 4)
        assert fresh.detail == f"the {what} in web is too large to be one: its primary has not written it well"


def test_one_whole_sync_at_any_time_is_waited_for(tmp_path: Path) -> None:
    place = tmp_path / "lxd"
    world_of(place, 1)
    marker = place.parent / f"storage-pools/default/containers/s1/rootfs{HEARTBEAT}"
    marker.parent.mkdir(parents=True)
    marker.write_text(json.dumps({"at": time.time() - 5}))

    def wait(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "vcrecovery", "standby", "wait", "s1", *words]
        plan = ["--plan", str(place.parent / "plan.yml")]
        return subprocess.run([*command, *plan], capture_output=True, text=True, timeout=120, check=False)

    with serving(place):
        newer = wait("--timeout", "1s")
        assert (newer.returncode, newer.stdout) == (ExitCode.EXTERNAL, ""), newer.stderr
        whole = wait("--timeout", "60s", "--any")
        assert (whole.returncode, whole.stderr) == (0, "")
        assert whole.stdout.startswith("s1: in sync, files ")
