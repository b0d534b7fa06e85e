"""nginx ends in a VM that works, beside the lab's own watcher: seen from outside, by an operator and by what polls."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from vcrecovery.errors import ExitCode

from .conftest import Lab
from .waiting import wait_for

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]


def status(lab: Lab) -> dict[str, Any]:
    (entry,) = json.loads(lab.vcrecovery("status", "--json").stdout)["services"]
    assert isinstance(entry, dict)
    return entry


def outages(lab: Lab) -> list[dict[str, Any]]:
    found = json.loads(lab.vcrecovery("history", "--json").stdout)["outages"]
    assert isinstance(found, list)
    return found


def test_a_service_that_does_not_answer_is_down_and_nothing_is_done_about_it(lab: Lab) -> None:
    wait_for(lambda: (status(lab)["verdict"], status(lab)["health"]) == ("healthy", "answers"), "a healthy service")
    before = len(outages(lab))
    stopped = time.time()
    lab.primary("systemctl stop nginx")
    try:
        wait_for(lambda: len(outages(lab)) > before, "the watcher's word")
        entry = status(lab)
        assert (entry["verdict"], entry["health"]) == ("service down", "down")
        assert abs(entry["down_since"] - stopped) < 60
        assert "connection refused" in entry["sentence"]
        shown = lab.vcrecovery("status").stdout
        assert "down since " in shown
        assert "service down" in shown
        check = lab.vcrecovery("status", "--check")
        assert check.returncode == ExitCode.ATTENTION
        assert "attention: web: down since " in check.stdout
        assert lab.vcrecovery("status", "--nagios").returncode == 2
        # The VM says so itself.
        heartbeat = lab.rootfs / "var/lib/vcrecovery/heartbeat"
        wait_for(lambda: json.loads(heartbeat.read_text())["units"] == {"nginx.service": "inactive"}, "its heartbeat")
        figures = lab.vcrecovery("metrics").stdout
        assert 'vcrecovery_service_up{service="web"} 0' in figures
        assert 'vcrecovery_service_verdict{service="web",verdict="service down"} 1' in figures
    finally:
        lab.primary("systemctl start nginx")
    wait_for(lambda: status(lab)["health"] == "answers", "the service")
    wait_for(lambda: json.loads(heartbeat.read_text())["units"] == {}, "a good heartbeat")
    # The VM's kernel counts what its sync sends; it is looked at once a minute.
    wait_for(lambda: (json.loads(heartbeat.read_text())["sent"] or 0) > 10_000, "bytes that were counted", 180)
    wait_for(lambda: outages(lab)[-1]["ended_at"] is not None, "the end of the outage")
    assert outages(lab)[-1]["began_at"] < outages(lab)[-1]["ended_at"]
    assert status(lab)["verdict"] == "healthy"
    assert status(lab)["epoch"] == 0
    assert "web: down from " in lab.vcrecovery("history").stdout
