"""What users wait for: what counts as an answer to them, and what the figures say."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import yaml

from exclude_bench.target import failures
from name_answers import greeter, name_server
from recovery_bench import cold_secondary
from recovery_bench.overhead_lxd import Server
from recovery_bench.overhead_site import dns_of
from recovery_bench.rounds import Took, Way
from recovery_bench.stage_users import plan_of_vms, through, with_names
from recovery_bench.users import Results, targets, text
from vcrecovery.plan.load import load_plan

PLACES = {"web1": ("10.211.9.41", 80), "db1": ("10.211.9.42", 3306)}
SILENT = Took(None, "web1 did not answer within 900 s")


def a_round(booted: Took) -> dict[Way, Took]:
    return {Way.BOOTED: booted, Way.COLD: Took(15.0), Way.FROZEN: Took(3.0), Way.WARM: Took(2.0), Way.HOT: Took(1.0)}


def test_a_vm_that_users_never_reach_voids_all_that_is_compared_with_it() -> None:
    good = targets([a_round(Took(60.0))] * 3, needed=3)
    assert [(target.measured, target.verdict) for target in good] == [
        (0.25, "ok"),
        (0.05, "ok"),
        (1 / 30, "ok"),
        (1 / 60, "ok"),
    ]
    rounds = [a_round(Took(60.0)), a_round(SILENT), a_round(Took(60.0))]
    found = targets(rounds, needed=3)
    assert len(failures(found)) == 4
    shown = text(Results(0.1, "qemu", rounds, found))
    assert "round 2: booted VMs: web1 did not answer within 900 s" in shown
    assert "Without an answer" in shown


def test_the_boot_of_a_cold_secondary_is_told_apart() -> None:
    came = [cold_secondary.Came(whole, boot=17.0, start=6.0) for whole in (25.0, 26.0, 30.0)]
    lines = cold_secondary.text(cold_secondary.Results(0.1, "qemu", came)).splitlines()
    assert [line.rpartition("  ")[2] for line in lines[2:6]] == [
        "26.0 (25.0 to 30.0)",
        "17.0 (17.0 to 17.0)",
        "6.0 (6.0 to 6.0)",
        "3.0 (2.0 to 7.0)",
    ]


def test_the_controllers_plan_is_one_and_names_every_service(tmp_path: Path) -> None:
    file = tmp_path / "plan.yml"
    (tmp_path / "secret").touch(mode=0o600)
    before = plan_of_vms(tmp_path, tmp_path / "lxd.socket", PLACES)
    unchanged = yaml.safe_dump(before)
    file.write_text(yaml.safe_dump(with_names(before, dns_of(tmp_path, 5353))))
    plan = load_plan(file)
    assert {name: [entry.name for entry in service.dns] for name, service in plan.services.items()} == {
        "web1": ["web1.bench.test"],
        "db1": ["db1.bench.test"],
    }
    assert plan.detection.cool_down < 1
    assert {str(service.standby.address) for service in plan.services.values()} == {"10.211.9.41", "10.211.9.42"}
    assert yaml.safe_dump(before) == unchanged


@pytest.mark.parametrize(("address", "right"), [("127.0.0.1", True), ("127.0.0.2", False), (None, False)])
def test_an_answer_is_right_only_where_the_name_leads_to_the_standby(address: str | None, right: bool) -> None:
    with greeter(b"5.5.5-10.11.6-MariaDB") as port, name_server(address) as dns_port:
        assert through("db1", ("127.0.0.1", port), dns_port)() is right


def test_a_name_that_leads_to_a_standby_which_does_not_answer_is_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with name_server("127.0.0.1") as dns_port:
        assert through("db1", ("127.0.0.1", port), dns_port)() is False


def test_the_simulated_lxd_starts_what_it_is_told_to_in_place_of_a_container(tmp_path: Path) -> None:
    server = Server(["web1", "db1"], f"touch {tmp_path}/{{}}-vm")
    for name, action in (("web1", "start"), ("db1", "stop")):
        status, _, _ = server.answer("PUT", f"/1.0/instances/{name}/state", "", b'{"action": "%s"}' % action.encode())
        assert status == 202
    assert [process.wait(20) for process in server.started] == [0]
    assert [path.name for path in tmp_path.iterdir()] == ["web1-vm"]
