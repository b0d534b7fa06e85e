"""A service that does not answer in a VM that runs: what the VM says of it, and what speaks for the network instead."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import ValidationError

from simulated.site import Site
from vcrecovery.core.service_down import TOGETHER, FromTheVm, same_reason
from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.probe import Probes
from vcrecovery.operations.policy import no_heartbeat_for
from vcrecovery.plan.monitoring import Detection
from vcrecovery.primary.programs import ProgramError
from vcrecovery.primary.unit_states import unit_states
from vcrecovery.transfer.freshness import freshness_of
from vcrecovery.transfer.sessions import are_files_arriving, set_aside

AFTER = 60.0


@pytest.mark.parametrize(
    ("vm", "said"),
    [
        (FromTheVm(None), "its heartbeat cannot be read"),
        (FromTheVm(5.0), "its heartbeats come"),
        (FromTheVm(5.0, {"php.service": "inactive"}), "its heartbeats come; php.service is inactive"),
        (FromTheVm(5.0, {"php.service": "failed"}), "its heartbeats come"),
        (FromTheVm(500.0, {"php.service": "inactive"}, sends=True), "its files arrive"),
    ],
)
def test_what_speaks_for_the_vm(vm: FromTheVm, said: str) -> None:
    assert vm.well() == said


@pytest.mark.parametrize(
    ("heard", "units", "expected"),
    [
        (5.0, {"nginx.service": "failed"}, "nginx.service is failed"),
        (5.0, {"nginx.service": "activating"}, "nginx.service is activating"),
        # Somebody has stopped it, or it is on its way down.
        (5.0, {"nginx.service": "inactive", "php.service": "deactivating"}, ""),
        (5.0, {}, ""),
        (5.0, None, ""),
        (59.9, {}, ""),
        (60.0, {}, "it has sent nothing for 1 min"),
        (60.0, None, "it has sent nothing for 1 min"),
        # From the future, or not there: nobody knows.
        (None, {"nginx.service": "failed"}, ""),
    ],
)
def test_what_makes_a_vm_unwell(heard: float | None, units: dict[str, str] | None, expected: str) -> None:
    assert FromTheVm(heard, units).unwell(AFTER) == expected


def test_a_vm_whose_files_arrive_or_may_arrive_is_not_silent() -> None:
    assert FromTheVm(600.0, None, sends=True).unwell(AFTER) == ""
    assert FromTheVm(600.0, None, sends=None).unwell(AFTER) == ""
    assert FromTheVm(5.0, {"nginx.service": "failed"}, sends=None).unwell(AFTER)


@pytest.mark.parametrize(
    ("sync", "expected"),
    [({}, 60.0), ({"heartbeat": "1m"}, 180.0), ({"engine": "periodic", "reconcile": "5m"}, 600.0)],
)
def test_no_heartbeat_means_something_after_several(tmp_path: Path, sync: dict[str, str], expected: float) -> None:
    site = Site(tmp_path, plan={"service": {"sync": sync, "max_staleness": "1h"}})
    site.close()
    assert no_heartbeat_for(site.plan.services["web"]) == expected


def test_sessions_are_seen(tmp_path: Path) -> None:
    assert not are_files_arriving(tmp_path, "web")
    with set_aside(tmp_path, "web", 1.0):
        assert are_files_arriving(tmp_path, "web")
    assert not are_files_arriving(tmp_path, "web")


def test_what_speaks_for_it_is_said_once() -> None:
    assert FromTheVm(5.0, {"nginx.service": "inactive"}).well() == FromTheVm(6.0, {"nginx.service": "inactive"}).well()
    assert "nginx.service is inactive" in FromTheVm(5.0, {"nginx.service": "inactive"}).well()


@pytest.mark.parametrize(
    ("since", "site", "expected"),
    [
        ({"web": 10.0}, ["web"], []),
        ({"web": 10.0}, ["web", "db", "mail"], []),
        ({"web": 10.0, "db": 10.0 + TOGETHER}, ["web", "db", "mail"], ["db"]),
        ({"web": 10.0, "db": 11.0 + TOGETHER}, ["web", "db", "mail"], []),
        # Half of them are no majority.
        ({"web": 10.0, "db": 11.0}, ["web", "db", "mail", "shop"], []),
        ({"web": 10.0, "db": 11.0, "mail": 9.0}, ["web", "db", "mail", "shop"], ["db", "mail"]),
        ({"web": 10.0, "elsewhere": 11.0}, ["web"], []),
        ({"web": None, "db": None}, ["web", "db"], []),
    ],
)
def test_many_at_one_site_have_one_reason(since: dict[str, float | None], site: list[str], expected: list[str]) -> None:
    assert same_reason("web", since, site) == expected


# -- the VM's word ---------------------------------------------------------------------------------------------

SHOWN = """\
Id=nginx.service
ActiveState=failed

ActiveState=active
Id=php.service
"""


def test_units_that_are_not_active_are_told() -> None:
    asked: list[Sequence[str]] = []

    def show(command: Sequence[str], timeout: float) -> str:
        asked.append(command)
        assert timeout < 10
        return SHOWN

    assert unit_states(["nginx.service", "php.service"], show) == {"nginx.service": "failed"}
    assert asked == [["systemctl", "show", "--property=Id,ActiveState", "--", "nginx.service", "php.service"]]
    assert unit_states([], show) is None


def test_a_systemd_that_hangs_says_nothing_of_them() -> None:
    def show(_command: Sequence[str], _timeout: float) -> str:
        raise ProgramError("systemctl has not ended within 5 s")

    assert unit_states(["nginx.service"], show) is None


@pytest.mark.parametrize(
    ("units", "expected"),
    [
        ({"nginx.service": "failed"}, {"nginx.service": "failed"}),
        ({}, {}),
        (None, None),
        # The primary writes what it likes.
        ("failed", None),
        ({"nginx.service": 7, "": "failed", "php.service": "failed"}, {"php.service": "failed"}),
        ({"a\x1b[2Jb": "fai\nled"}, {"a?[2Jb": "fai?led"}),
    ],
)
def test_the_units_of_a_heartbeat(units: object, expected: dict[str, str] | None) -> None:
    assert freshness_of("web", json.dumps({"at": 10.0, "units": units}).encode(), None).units == expected


def test_no_more_units_than_a_service_has_are_taken() -> None:
    many = {f"{number}.service": "failed" for number in range(1000)}
    found = freshness_of("web", json.dumps({"at": 10.0, "units": many}).encode(), None).units
    assert found is not None
    assert len(found) == 20


# -- the network -----------------------------------------------------------------------------------------------


def test_a_machine_that_refuses_is_there() -> None:
    probes = Probes(SystemClock())
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert probes.is_there("127.0.0.1", port, 2.0)
    assert probes.is_there("127.0.0.1", port, 2.0)


def test_a_machine_that_says_nothing_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, contextlib.ExitStack() as waiting:
        # Nobody takes these, so that nobody is answered after them.
        for _ in range(4):
            sock = waiting.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(full.getsockname())
        assert not Probes(SystemClock()).is_there("127.0.0.1", full.getsockname()[1], 0.3)


@pytest.mark.parametrize("reference", ["192.0.2.1", "gateway:22", "192.0.2.1:0", "192.0.2.1:ssh", "[fd00::1]:70000"])
def test_a_reference_that_is_none_is_a_mistake_of_the_plan(reference: str) -> None:
    assert Detection(reference=["192.0.2.1:22", "[fd00::1]:22"]).reference == ["192.0.2.1:22", "[fd00::1]:22"]
    with pytest.raises(ValidationError, match="is no ADDRESS:PORT"):
        Detection(reference=[reference])
