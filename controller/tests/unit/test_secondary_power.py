"""A secondary on demand: what is decided, what its note answers, what the receiver takes, what a plan may not have."""

from __future__ import annotations

import contextlib
import json
import logging
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from set_clock import SetClock

from vcrecovery.core.power import Power
from vcrecovery.core.secondary_power import PowerAct, SeenSecondary, decide_power
from vcrecovery.drivers.lxd import OnDemandServer, OverHttps, on_demand
from vcrecovery.drivers.lxd.on_demand import Place
from vcrecovery.errors import ExternalError, RefusedError
from vcrecovery.keeping import SayOnce, keep, take_turns
from vcrecovery.plan.load import load_plan
from vcrecovery.plan.problems import PlanError
from vcrecovery.store.journal import Journal
from vcrecovery.store.powered import Powered, PoweredBook
from vcrecovery.transfer import receiver
from vcrecovery.transfer.freshness import read_freshness

OFF = SeenSecondary("sec1", Power.SHUTOFF, "shutdown", mounted=True)
ON = SeenSecondary("sec1", Power.RUNNING)


@pytest.mark.parametrize(
    ("seen", "unused_for", "act", "wrong"),
    [
        (OFF, 0, None, False),
        (replace(OFF, mounted=False), 0, PowerAct.MOUNT, False),
        # The operation boots it; while it does not, files may arrive.
        (replace(OFF, mounted=False, at_work=("web",)), 0, PowerAct.MOUNT, False),
        (replace(OFF, mounted=False, saved=True), 0, None, True),
        (replace(OFF, mounted=False, serving=("web",), saved=True, reason=""), 0, None, True),
        (replace(OFF, mounted=False, serving=("web",), reason=""), 0, PowerAct.POWER_ON, False),
        (replace(OFF, mounted=False, serving=("web",), reason="crashed"), 0, PowerAct.POWER_ON, False),
        (replace(OFF, mounted=False, serving=("web",), reason="destroyed"), 0, None, True),
        (replace(OFF, mounted=False, serving=("web",), reason="shutdown"), 0, None, True),
        # We have asked for that, before web needed it.
        (replace(OFF, mounted=False, serving=("web",), reason="shutdown", asked_off=True), 0, PowerAct.POWER_ON, False),
        (replace(OFF, mounted=False, serving=("web",), reason="destroyed", asked_off=True), 0, None, True),
        (replace(OFF, mounted=False, asked_off=True), 0, PowerAct.MOUNT, False),
        (ON, 599, None, False),
        (ON, 600, PowerAct.POWER_OFF, False),
        (replace(ON, serving=("web",)), 9999, None, False),
        (replace(ON, at_work=("web",)), 9999, None, False),
        (replace(ON, kept_on=True), 9999, None, False),
        (replace(ON, power=Power.PAUSED), 9999, None, True),
        (replace(ON, power=Power.ABSENT), 9999, None, True),
        (replace(ON, power=Power.UNREACHABLE), 9999, None, True),
    ],
)
def test_what_is_done_with_it(seen: SeenSecondary, unused_for: float, act: PowerAct | None, wrong: bool) -> None:
    decision = decide_power(seen, unused_for, 600.0)
    assert (decision.act, decision.wrong) == (act, wrong)


@pytest.mark.parametrize(
    ("seen", "unused_for", "said"),
    [
        (OFF, 0, "it is off, and takes files"),
        (replace(OFF, mounted=False), 0, "it is off: mounting its disk, so that files arrive"),
        (ON, 600, "it is on, and nothing has needed it: powering it off"),
        (
            replace(OFF, mounted=False, serving=("web", "db"), reason="destroyed"),
            0,
            (
                "it is to serve web and db, and was ended by somebody (destroyed): left alone; "
                "`vcrecovery secondary on sec1` boots it"
            ),
        ),
        (
            replace(OFF, mounted=False, saved=True),
            0,
            (
                "its memory was saved, and would go on with its disk as it was then: "
                "`virsh managedsave-remove sec1` drops that"
            ),
        ),
        (replace(ON, power=Power.PAUSED), 0, "its VM is paused; `virsh resume sec1`"),
        (replace(ON, power=Power.ABSENT), 0, "its VM is absent"),
        (replace(ON, power=Power.UNREACHABLE, detail="hv2 does not answer"), 0, "hv2 does not answer"),
    ],
)
def test_what_is_read_of_it(seen: SeenSecondary, unused_for: float, said: str) -> None:
    assert decide_power(seen, unused_for, 600.0).sentence == said


def test_a_request_to_shut_down_is_one_of_the_boot_that_it_ends(tmp_path: Path) -> None:
    book = PoweredBook(Journal(tmp_path / "journal.db"))
    assert book.now("sec1") is None
    book.is_on("sec1", 100.0, "web")
    book.is_asked_off("sec1", 200.0)
    book.is_asked_off("sec1", 230.0)
    assert book.now("sec1") == Powered(100.0, None, "web", 230.0)
    book.is_off("sec1", 240.0)
    book.is_on("sec1", 300.0, "db")
    assert book.of("sec1") == [Powered(100.0, 240.0, "web", 230.0), Powered(300.0, None, "db")]
    # One that somebody started, and nobody has seen.
    book.is_asked_off("sec2", 400.0)
    assert book.now("sec2") == Powered(400.0, None, "", 400.0)
    book.has_overlooked_it("sec2")
    assert book.now("sec2") == Powered(400.0, None)
    assert book.of("sec1")[0].asked_off_at == 230.0


def test_a_journal_of_before_takes_a_request_to_shut_down(tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.execute(
            "CREATE TABLE powered (id INTEGER PRIMARY KEY AUTOINCREMENT, secondary TEXT NOT NULL, "
            "on_at REAL NOT NULL, off_at REAL, why TEXT NOT NULL DEFAULT '') STRICT"
        )
        db.execute("INSERT INTO powered (secondary, on_at, why) VALUES ('sec1', 100.0, 'web')")
        db.commit()
    book = PoweredBook(Journal(file))
    book.is_asked_off("sec1", 200.0)
    assert book.now("sec1") == Powered(100.0, None, "web", 200.0)


@pytest.mark.parametrize(("now", "within"), [(199.9, False), (200.0, True), (229.9, True), (230.0, False)])
def test_how_long_ago_it_was_asked_to_shut_down(now: float, within: bool) -> None:
    assert Powered(100.0, None, "web", 200.0).asked_off_within(30.0, now) is within
    assert not Powered(100.0, None, "web").asked_off_within(30.0, now)


CONFIG = {"user.vcrecovery.role": "standby", "user.vcrecovery.ready": "true", "volatile.last_state.idmap": "[]"}
NOTE = {
    "instances": {
        "web": {"name": "web", "status": "Stopped", "config": CONFIG, "expanded_config": CONFIG, "devices": {}}
    },
    "pools": {"standbys": "dir"},
    "resources": {"cpu": {"total": 2}, "memory": {"total": 1 << 30, "used": 0}},
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Of one that is off."""
    made = Place(tmp_path / "secondaries" / "sec1")
    made.rootfs("web").mkdir(parents=True)
    made.write(NOTE)
    made.takes_files.touch()
    monkeypatch.setattr(on_demand, "is_mounted", lambda found: found == made.disk)
    monkeypatch.setattr("vcrecovery.transfer.receiver.os.path.ismount", lambda found: Path(found) == made.disk)
    return made


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def server(place: Place, tmp_path: Path, clock: SetClock) -> OnDemandServer:
    address = OverHttps("https://192.0.2.1:8443", *(tmp_path / name for name in ("crt", "key", "server.crt")))
    return OnDemandServer("sec1", address, clock, place, boots_within=300.0)


def test_one_that_is_off_answers_from_its_note(server: OnDemandServer, place: Place) -> None:
    found = server.get("web")
    assert found is not None
    assert (found.status, found.running, found.config) == ("Stopped", False, CONFIG)
    assert server.get("db") is None
    assert server.snapshots("web") == []
    assert (server.pool_driver("standbys"), server.pool_driver("default")) == ("dir", None)
    assert server.pool_space("standbys")[1] > 0
    assert server.size().cores == 2
    assert server.reading("standbys").containers == {}
    assert server.is_here
    assert server.rootfs("standbys", "web") == place.disk / "pool/containers/web/rootfs"


def test_while_it_boots_its_silence_is_no_fault(
    server: OnDemandServer, clock: SetClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In the middle of a failover nobody is told to start what is being started. After a while it is a fault."""

    def away() -> None:
        raise OSError("no route to host")

    def said() -> str:
        caplog.clear()
        log, stop = logging.getLogger("vcrecovery.watch"), threading.Event()

        def look() -> None:
            stop.set()
            server.get("web")

        take_turns(look, every=0.0, stop=stop, log=log, about="sec1", trouble="trouble: {}")
        stop.clear()
        keep(["web"], lambda _name: look(), every=0.0, stop=stop, say=SayOnce(log), trouble="trouble")
        return caplog.text

    assert said() == ""
    monkeypatch.setattr(on_demand, "is_mounted", lambda _disk: False)
    monkeypatch.setattr(server, "_connect", away)
    clock.sleep(299)
    assert said() == ""
    clock.sleep(2)
    assert said().count("trouble: ") == 2


def test_its_files_are_those_of_now(server: OnDemandServer, place: Place) -> None:
    file = place.rootfs("web") / "var/lib/vcrecovery/heartbeat.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"at": 1_700_000_000.0}))
    from vcrecovery.primary.marker import NAME

    file.rename(file.with_name(NAME))
    secondary: Any = type("Of", (), {"storage_pool": "standbys"})
    assert read_freshness(server, "web", secondary).synced_through == 1_700_000_000.0


def test_what_needs_lxd_is_refused_in_one_line(server: OnDemandServer) -> None:
    found = server.must_get("web")
    acts: list[Callable[[], object]] = [
        lambda: server.start("web", 5),
        lambda: server.configure(found, {"x": "y"}),
        lambda: server.take_snapshot("web", "now", 5),
        lambda: server.delete("web"),
        lambda: server.execute("web", ["true"], 5),
    ]
    for act in acts:
        with pytest.raises(ExternalError, match=r"^secondary sec1 is off \(power: on-demand\); [^\n]*$"):
            act()


def test_one_that_was_never_noted_says_so(server: OnDemandServer, place: Place) -> None:
    place.note.unlink()
    with pytest.raises(ExternalError, match="never noted"):
        server.get("web")


@pytest.fixture
def state_dir(place: Place, tmp_path: Path) -> Path:
    (tmp_path / "standbys").mkdir()
    entry = {
        "container": "web",
        "rootfs": str(place.rootfs("web")),
        "disk": str(place.disk),
        "note": str(place.note),
        "takes_files": str(place.takes_files),
    }
    (tmp_path / "standbys/web.json").write_text(json.dumps(entry))
    return tmp_path


def test_the_receiver_takes_files_while_it_is_off_and_not_otherwise(state_dir: Path, place: Place) -> None:
    assert receiver.find_target(state_dir, "web").rootfs == place.rootfs("web")
    assert receiver.who_serves(state_dir, "web").words == "primary"
    place.takes_files.unlink()
    with pytest.raises(ExternalError, match="is on, or about to be"):
        receiver.find_target(state_dir, "web")


def test_the_receiver_takes_none_where_nothing_is_mounted(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when its hypervisor has just booted: they would fill the hypervisor's own disk."""
    monkeypatch.setattr("vcrecovery.transfer.receiver.os.path.ismount", lambda _place: False)
    with pytest.raises(ExternalError, match="is on, or about to be"):
        receiver.find_target(state_dir, "web")


def test_the_receiver_takes_none_for_one_that_served_when_it_went_down(state_dir: Path, place: Place) -> None:
    config = {**CONFIG, "user.vcrecovery.role": "active"}
    place.write({**NOTE, "instances": {"web": {"expanded_config": config}}})
    with pytest.raises(RefusedError, match="is served by its standby"):
        receiver.find_target(state_dir, "web")


def test_a_vm_that_boots_while_it_is_on_is_told_by_the_journal_who_serves(state_dir: Path, place: Place) -> None:
    journal = Journal(state_dir / "journal.db")
    place.takes_files.unlink()
    assert receiver.who_serves(state_dir, "web").words == "primary"
    with journal.transaction() as db:
        db.execute("INSERT INTO service (name, epoch, side) VALUES ('web', 1, 'standby')")
    assert receiver.who_serves(state_dir, "web").words == "standby"


FILES = {"certificate": "/c", "key": "/k", "server_certificate": "/s"}
VM = {
    "hypervisor": "hv2",
    "standbys_disk": "10GiB",
    "image": "/debian.img",
    "network": "br0",
    "address": "192.0.2.20/24",
}


def plan_with(folder: Path, secondary: dict[str, Any], service: dict[str, Any] | None = None) -> Path:
    given = {
        "lxd": {"url": "https://192.0.2.20:8443", **FILES},
        "network": {"bridge": "vcr0", "address": "10.20.0.1/24"},
        "receiver": {"address": "192.0.2.2"},
        "power": "on-demand",
        "vm": VM,
        **secondary,
    }
    text = {
        "version": 1,
        "hypervisors": {"hv1": {"uri": "qemu+ssh://vcrecovery@hv1/system"}, "hv2": {}},
        "secondaries": {
            "sec1": given,
            "sec2": {**given, "power": "always", "lxd": "/var/lib/lxd/unix.socket", "vm": None},
        },
        "services": {
            "web": {
                "primary": {
                    "hypervisor": "hv1",
                    "uuid": "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0001",
                    "address": "10.10.0.10",
                },
                "standby": {"secondary": "sec1", "address": "10.20.0.10"},
                "ports": [80],
                **(service or {}),
            }
        },
    }
    file = folder / "plan.yml"
    file.write_text(yaml.safe_dump(text))
    return file


def test_a_plan_may_have_one(tmp_path: Path) -> None:
    assert load_plan(plan_with(tmp_path, {})).secondaries["sec1"].power_off_after == 600.0


SPARE = {
    "standby": {"secondary": "sec1", "address": "10.20.0.10", "spare": {"secondary": "sec2", "address": "10.20.0.11"}}
}


@pytest.mark.parametrize(
    ("secondary", "service", "said"),
    [
        ({"vm": None}, {}, "needs `vm`, with a `standbys_disk`"),
        ({"vm": {**VM, "standbys_disk": None}}, {}, "needs `vm`, with a `standbys_disk`"),
        ({"vm": {**VM, "hypervisor": "hv1"}}, {}, "have the controller run there"),
        ({"lxd": "/var/lib/lxd/unix.socket"}, {}, "name its URL"),
        ({"receiver": {"address": "192.0.2.20"}}, {}, "is the VM's, which is off"),
        ({"fence": {"command": ["off"]}}, {}, "for a secondary that has a spare"),
        ({}, {"mode": "frozen"}, "its standbys are cold"),
        ({}, {"restore_points": {"keep": 2}}, "makes no snapshots"),
        ({}, {"drill": {"every": "7d"}}, "no drill is possible there; a switchover"),
        ({}, SPARE, "is refused with a secondary on demand"),
    ],
)
def test_what_a_plan_may_not_have_with_one(
    secondary: dict[str, Any], service: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(PlanError) as error:
        load_plan(plan_with(tmp_path, secondary, service))
    assert any(said in str(problem) for problem in error.value.problems), error.value.problems
