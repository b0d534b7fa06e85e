"""Who is told what, while the watcher runs: the shipped watcher in a simulated world."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simulated.site import Site
from vcrecovery.core.notice import GIVE_UP_AFTER
from vcrecovery.store.notices import MOST_WAITING, NoticeBook

OPS, CHAT = "/etc/vcrecovery/notify/ops", "/etc/vcrecovery/notify/chat"


def site(folder: Path, *destinations: dict[str, Any], services: dict[str, Any] | None = None, **how: Any) -> Site:
    told = list(destinations) or [{"url_file": OPS}]
    return Site(folder, services, plan={"notify": told}, **how)


def titles(site: Site, way: str = "ops") -> list[str]:
    return [title for name, title, _ in site.world.told if name == way]


def test_a_failover_is_told_when_it_begins_and_when_it_is_done(memory_path: Path) -> None:
    here = site(memory_path)
    here.watch(3)
    here.crash("web")
    here.watch(20)
    assert titles(here) == ["web: failing over", "web: failed over in 2.4 s"]
    _, _, begun = here.world.told[0]
    assert begun.splitlines() == [
        "Epoch 1: libvirt: shutoff (crashed).",
        "Next: nothing; `vcrecovery explain web` shows how far it is.",
    ]
    _, _, done = here.world.told[1]
    assert done.splitlines() == [
        "Served by its standby at 10.20.0.10, epoch 1. libvirt: shutoff (crashed).",
        "Unprotected: nothing stands in for the standby.",
        "Next: repair the VM, then `vcrecovery failback web`.",
    ]


def test_a_virtual_address_that_another_machine_has_is_told(memory_path: Path) -> None:
    """The controller's machine has restarted, and the watcher cannot take it again."""
    here = site(
        memory_path,
        {"url_file": OPS, "about": ["down"], "after": "30s"},
        services={"web": {"virtual_ip": "10.0.0.50"}},
    )
    here.watch(3)
    here.crash("web")
    here.watch(60)
    assert titles(here) == []
    web = here.world.services["web"]
    web.virtual_ip_is_here, web.virtual_ip_elsewhere = False, True
    here.watch(90)
    lost = "web: the standby serves, and this machine does not have its virtual address 10.0.0.50 on eth0"
    assert titles(here) == [lost]
    web.virtual_ip_elsewhere = False
    here.watch(900)
    assert titles(here)[1:] == ["web: served again"]


def test_a_restart_tells_nothing_twice(memory_path: Path) -> None:
    here = site(memory_path)
    here.watch(3)
    here.crash("web")
    here.watch(20)
    before = titles(here)
    for _ in range(3):
        here.kill_watcher()
        here.watch(20)
    assert titles(here) == before


@pytest.mark.parametrize("seed", range(8))
def test_of_two_controllers_one_tells(memory_path: Path, seed: int) -> None:
    here = site(memory_path, seed=seed)
    here.start_another_watcher()
    here.watch(3)
    here.crash("web")
    here.watch(60)
    found = titles(here)
    assert len(found) == len(set(found))
    assert any(title.startswith("web: failed over in") for title in found)


def test_what_happened_while_no_watcher_ran_is_told(memory_path: Path) -> None:
    here = site(memory_path)
    here.watch(3)
    here.kill_watcher()
    here.failover(force=True)
    here.run(3600)
    here.watch(10)
    assert "web: failed over in 2.0 s" in titles(here)
    assert "VCRecovery: nobody watched for 1 h" in "\n".join(titles(here))


def test_what_was_before_somebody_is_to_be_told_is_not_told(memory_path: Path) -> None:
    here = site(memory_path)
    here.failover(force=True)
    here.run(10)
    here.watch(10)
    assert titles(here) == []


@pytest.mark.parametrize("fault", ["hang", "fail"])
def test_a_destination_that_is_away_delays_nobody(memory_path: Path, fault: str) -> None:
    here = site(memory_path, {"url_file": OPS}, {"url_file": CHAT})
    (here.world.ways_that_hang if fault == "hang" else here.world.ways_that_fail).add("ops")
    here.watch(3)
    here.crash("web")
    at = here.scheduler.time
    here.watch(20)
    (done,) = [line for line in here.log if "DNS checked" in line]
    assert float(done.split()[0]) - at < 4
    assert titles(here, "chat") == ["web: failing over", "web: failed over in 2.4 s"]
    assert titles(here) == []
    # And once it is back, it is told too.
    here.world.ways_that_hang.clear()
    here.world.ways_that_fail.clear()
    here.watch(120)
    assert titles(here) == ["web: failing over", "web: failed over in 2.4 s"]


def test_one_that_is_away_for_long_is_given_up_and_others_are_told(memory_path: Path) -> None:
    here = site(memory_path, {"url_file": OPS}, {"url_file": CHAT, "about": ["watcher"]})
    here.world.ways_that_fail.add("ops")
    here.watch(3)
    here.crash("web")
    here.watch(GIVE_UP_AFTER + 1900)
    assert titles(here, "chat") == ["VCRecovery: a destination of notices cannot be reached"]
    given_up = [line for line in here.log if "given up" in line]
    assert "ERROR: notify: /etc/vcrecovery/notify/ops (URL 1): 3 notice(s) given up, the first: web: f" in given_up[0]
    (left,) = NoticeBook(here.journal).unreached([OPS, CHAT], here.scheduler.wall, 86400)
    assert (left.way.destination, left.waiting, left.reason) == (OPS, 0, "it answered with status 503")
    assert left.given_up >= 2
    assert [line for line in here.log if "status 503; tried again" in line][1:] == []


def test_a_controller_that_is_killed_in_the_middle_of_telling(memory_path: Path) -> None:
    """At least once."""
    here = site(memory_path)
    here.world.ways_that_hang.add("ops")
    here.watch(3)
    here.crash("web")
    here.watch(10)
    here.kill_watcher()
    here.world.ways_that_hang.clear()
    here.watch(90)
    assert titles(here) == ["web: failing over", "web: failed over in 2.4 s"]


def test_many_at_once_are_one_message(memory_path: Path) -> None:
    services = {f"s{number}": {"host": "hv1"} for number in range(12)}
    here = site(memory_path, services=services)
    here.watch(3)
    for name in services:
        here.crash(name)
    here.watch(60)
    found = titles(here)
    assert len(found) < 8
    bodies = "\n".join(body for _, _, body in here.world.told)
    for name in services:
        assert f"{name}: failed over in" in "\n".join([*found, bodies])


def test_no_more_than_so_many_in_an_hour(memory_path: Path) -> None:
    here = site(memory_path, {"url_file": OPS, "most_per_hour": 4, "about": ["watcher"]})
    here.watch(3)
    for _ in range(12):
        here.kill_watcher()
        here.run(200)
        here.watch(5)
    assert len(titles(here)) == 4
    assert "further ones are gathered" in here.world.told[3][2]
    here.watch(3600)
    assert len(titles(here)) == 5
    assert titles(here)[4].startswith("VCRecovery: 8 events")


def test_a_queue_has_an_end(memory_path: Path) -> None:
    from vcrecovery.core.notice import Notice, Topic
    from vcrecovery.store.notices import Way

    book, way = NoticeBook(site(memory_path).journal), Way(OPS, 1)
    book.know([way], 0.0)
    book.add((way, Notice(f"{n}", Topic.DOWN, "web", 1.0, f"{n}", "")) for n in range(MOST_WAITING + 7))
    claimed = book.claim(way, "me", 2.0)
    assert claimed is not None
    assert [one.title for one in claimed.waiting] == [f"{n}" for n in range(7, MOST_WAITING + 7)]


def test_only_what_and_whom_somebody_asks_for(memory_path: Path) -> None:
    ways = [
        {"url_file": OPS, "about": ["refused"]},
        {"url_file": CHAT, "services": ["db"]},
        {"url_file": "/etc/vcrecovery/notify/web", "services": ["web"]},
    ]
    here = site(memory_path, *ways, services={"web": {}, "db": {"host": "hv2"}})
    here.watch(3)
    here.crash("web")
    here.watch(20)
    assert titles(here) == titles(here, "chat") == []
    assert len(titles(here, "web")) == 2


def test_a_refusal_is_told_once(memory_path: Path) -> None:
    here = site(memory_path, services={"web": {"heartbeat_at": -3600.0}})
    here.watch(3)
    here.crash("web")
    here.watch(900)
    refused = [title for title in titles(here) if "refused" in title]
    assert refused == ["web: failover refused"]
    (body,) = [body for _, title, body in here.world.told if "refused" in title]
    assert "`vcrecovery explain web` says what to do" in body


def test_one_that_is_stuck(memory_path: Path) -> None:
    here = site(memory_path)
    here.watch(3)
    here.change(["web"], {"lxd_answers": False})
    here.crash("web")
    here.watch(120, to_the_end=False)
    assert "web: failover is stuck at step confirm" in titles(here)
    here.change(["web"], {"lxd_answers": True})
    here.watch(120)
    assert titles(here)[-1].startswith("web: failed over in")


def test_unprotected_for_long_and_well_again(memory_path: Path) -> None:
    here = site(memory_path, {"url_file": OPS, "about": ["unprotected"], "after": "5m"})
    here.watch(60)
    here.change(["web"], {"lxd_answers": False})
    here.watch(200)
    assert titles(here) == []
    here.watch(300)
    (title,) = titles(here)
    assert title.startswith("web: LXD on secondary sec1")
    body = here.world.told[0][2]
    assert "it needs attention now" in body
    assert "Next: start it, and try `lxc list` there; until then nothing can take over." in body
    here.kill_watcher()
    here.watch(300)
    assert len(titles(here)) == 1
    here.change(["web"], {"lxd_answers": True})
    here.watch(300)
    assert titles(here)[1:] == ["web: protected again"]


def test_what_is_over_soon_is_not_told(memory_path: Path) -> None:
    here = site(memory_path, {"url_file": OPS, "about": ["unprotected"], "after": "5m"})
    for _ in range(4):
        here.change(["web"], {"lxd_answers": False})
        here.watch(150)
        here.change(["web"], {"lxd_answers": True})
        here.watch(200)
    assert titles(here) == []


def test_a_pool_that_is_nearly_full(memory_path: Path) -> None:
    here = site(memory_path, {"url_file": OPS, "about": ["pool"]}, services={"web": {}, "db": {"host": "hv2"}})
    here.change(["web"], {"pool_free": 7e9})
    here.watch(500)
    assert titles(here) == ["sec1: pool default is 93 % full, 7.0 GB are free"]
    here.change(["web"], {"pool_free": 2e9})
    here.watch(200)
    assert titles(here)[1:] == ["sec1: pool default is 98 % full, 2.0 GB are free"]
    here.change(["web"], {"pool_free": 50e9})
    here.watch(200)
    assert titles(here)[2:] == ["sec1: its pool has room again"]
