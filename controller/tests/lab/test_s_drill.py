"""Rehearsals on clones of real standbys: production never notices, and nothing is left of them, whatever happens."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from vcrecovery.core.drill import clone_name
from vcrecovery.standby.container import ACTIVE, READY_KEY, ROLE_KEY
from vcrecovery.transfer.sessions import lock_file
from vcrecovery_lab.run import run

from .confined import words as words_of_unit
from .conftest import PROGRAM
from .controllers import Controllers
from .small_site import BRIDGE, PORT, SERVE, SmallSite, page_at, small_site
from .waiting import wait_for
from .waiting_standby import NAME as WAITING

pytestmark = pytest.mark.lab

#: Nobody has it; a packet to it would leave through the gateway.
OUTSIDE = "192.0.2.1"
#: A system that tries to get out all the time: to the outside, and to this machine, whose address is its gateway's.
TALKS = f"""\
(while :; do
    /bin/busybox ping -c 1 -W 1 {OUTSIDE}; /bin/busybox wget -T 1 -O /dev/null http://10.211.8.1:{PORT}/
    echo tried > /tried
    /bin/busybox sleep 0.1
done) >/dev/null 2>&1 &
{SERVE}
"""
_ALL_PROTOCOLS = 0x0003
#: How names of links and namespaces of the other lanes' tests begin; one's own bridge begins so, too.
OF_OTHERS = (WAITING, "vcrlab-", "vcrp", "vcrt", "vnet")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallSite]:
    with small_site(tmp_path_factory.mktemp("drill"), ("db", "web")) as site:
        yield site


@pytest.fixture(autouse=True)
def clean(site: SmallSite) -> Iterator[None]:
    """Each test begins with standbys that wait, and leaves this machine as it was."""
    if site.state.exists():
        site.back()
    for name in site.names:
        site.stamp(name)
    site.write_plan()
    before = all_there_is(site)
    yield
    site.lxd.stop_all()
    wait_for(lambda: all_there_is(site) == before, f"what there was before, {before},", 20)


def all_there_is(site: SmallSite) -> dict[str, set[str]]:
    """What a drill could leave on this machine."""
    links = json.loads(run(["ip", "-j", "link"], timeout=10).stdout)
    mounts = (line.split()[1] for line in Path("/proc/mounts").read_text().splitlines())
    spaces = run(["ip", "netns"], timeout=10).stdout.split()
    pool = site.lxd.folder / "storage-pools" / BRIDGE
    return {
        "containers": set(containers(site)),
        "files": {str(path) for part in ("containers", "containers-snapshots") for path in (pool / part).glob("*")},
        "links": {link["ifname"] for link in links if not is_of_others(link)},
        "namespaces": {name for name in spaces if not name.startswith(OF_OTHERS)},
        "mounts": {place for place in mounts if "drill" in place or is_a_namespace_of_ours(place)},
    }


def is_of_others(link: dict[str, Any]) -> bool:
    """Other tests run meanwhile, with bridges, and VMs and containers on them."""
    names = (link["ifname"], link.get("master", ""))
    # A card of a container is on no bridge for a moment, while it is made and when it goes.
    is_a_card = names[0].startswith("veth") and not names[1]
    return is_a_card or (BRIDGE not in names and any(name.startswith(OF_OTHERS) for name in names))


def is_a_namespace_of_ours(place: str) -> bool:
    """What holds all of them is mounted with the first one, whosever that is."""
    return place.startswith("/run/netns/") and not place.removeprefix("/run/netns/").startswith(OF_OTHERS)


def drills(site: SmallSite) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(site.vcrecovery("history", "--json").stdout)["drills"]
    return found


def view_of(site: SmallSite, name: str) -> dict[str, Any]:
    services = json.loads(site.vcrecovery("status", "--json").stdout)["services"]
    (found,) = [service for service in services if service["service"] == name]
    return dict(found)


def warnings(view: dict[str, Any]) -> list[str]:
    return [finding["sentence"] for finding in view["findings"] if finding["level"] == "warning"]


@contextmanager
def sniffed(*addresses: str) -> Iterator[list[bytes]]:
    """The frames on any of this machine's interfaces that these addresses sent: IPv4, and ARP."""
    wanted = [socket.inet_aton(address) for address in addresses]
    seen: list[bytes] = []
    stop = threading.Event()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS)) as sock:
        sock.settimeout(0.1)

        def listen() -> None:
            while not stop.is_set():
                try:
                    frame = sock.recv(2048)
                except TimeoutError:
                    continue
                if frame[26:30] in wanted or frame[28:32] in wanted:
                    seen.append(frame)

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield seen
        finally:
            stop.set()
            thread.join()


def with_the_rights_of_its_unit(site: SmallSite, *words: str) -> subprocess.CompletedProcess[str]:
    """The program as systemd would run it, as far as its capabilities go."""
    kept = words_of_unit("vcrecovery-drill", "CapabilityBoundingSet")
    bounds = ",".join(["-all", *(f"+{name.lower().removeprefix('cap_')}" for name in kept)])
    confined = ["setpriv", "--no-new-privs", "--inh-caps=-all", f"--bounding-set={bounds}"]
    return run([*confined, *site.command(*words)], timeout=120, check=False)


def test_two_that_need_each_other_and_no_packet_outside(site: SmallSite) -> None:
    page = ["/bin/busybox", "wget", "-q", "-O", "-", f"http://{site.address('db')}:{PORT}/"]
    talked = "for n in 1 2 3 4 5 6 7 8 9; do [ -e /tried ] && exec cat /tried; /bin/busybox sleep 1; done; exit 1"
    site.write_plan(
        web={"needs": ["db"], "drill": {"command": page, "every": "7d"}},
        db={"drill": {"command": ["/bin/busybox", "sh", "-c", talked.replace("cat", "/bin/busybox cat")]}},
    )
    site.fill("db", TALKS)
    site.fill("web", TALKS)
    assert "no drill has ever passed; one is due every 7 d" in warnings(view_of(site, "web"))
    would = site.vcrecovery("drill", "web", "--dry-run")
    assert would.returncode == 0, would.stderr
    assert [line.partition(":")[0] for line in would.stdout.splitlines()] == ["db", "web"]
    assert f"start that at {site.address('web')}, wait for {site.address('web')}:{PORT}, run `{' '.join(page)}`" in (
        would.stdout
    )
    assert drills(site) == []
    # A sync goes on meanwhile: its session is neither waited for nor ended.
    lock = lock_file(site.state, "web")
    lock.parent.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(["flock", "--shared", lock, "cat"], stdin=subprocess.PIPE) as session:
        with sniffed(site.address("db"), site.address("web")) as seen:
            done = with_the_rights_of_its_unit(site, "drill", "web")
        assert session.poll() is None
    assert done.returncode == 0, done.stdout + done.stderr
    assert seen == []
    steps = re.findall(r"(?m)^(db|web) .*\+.* s  (cloned|started|ports open|command passed|removed) ", done.stdout)
    booted = ["started", "ports open", "command passed"]
    assert [step for name, step in steps if name == "db"] == ["cloned", *booted, "removed"]
    assert [step for name, step in steps if name == "web"] == ["cloned", *booted, "removed"]
    assert steps.index(("db", "command passed")) < steps.index(("web", "started"))
    assert "command passed  in" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("web: drill passed: up ")
    assert [(one["service"], one["outcome"]) for one in drills(site)] == [("db", "passed"), ("web", "passed")]
    assert site.episodes() == []
    view = view_of(site, "web")
    assert view["drill"]["last_good"]["outcome"] == "passed"
    assert not view["drill"]["overdue"]
    assert not any("drill" in sentence for sentence in warnings(view))
    assert 'vcrecovery_drill_overdue{service="web"} 0' in site.vcrecovery("metrics").stdout


def test_what_fails_is_named_and_removed(site: SmallSite) -> None:
    command = ["/bin/busybox", "sh", "-c", "echo counting; echo no table shop >&2; exit 3"]
    site.write_plan(web={"needs": ["db"]}, db={"drill": {"command": command}})
    done = site.vcrecovery("drill", "--all")
    assert done.returncode == 4
    assert "failed with status 3: no table shop" in done.stdout
    assert "web: drill failed: not started: it needs db, which did not come up" in done.stdout
    assert "the drill did not pass: db, web" in done.stderr
    (said,) = [sentence for sentence in warnings(view_of(site, "db")) if "its last drill failed" in sentence]
    assert said.endswith("failed with status 3: no table shop")
    # Its ports do not open: the container ends.
    site.fill("db", "echo no disk > /dev/console; /bin/busybox sleep 0.5; exit 1")
    done = site.vcrecovery("drill", "db", "--json")
    assert done.returncode == 4
    (one,) = json.loads(done.stdout)["drills"]
    assert (one["outcome"], one["exit_code"]) == ("failed", 4)
    assert one["reason"] == "its container has ended before its ports opened; its last words: no disk"


def test_refused_for_all_reasons_at_once(site: SmallSite) -> None:
    (site.rootfs("db") / "var/lib/vcrecovery/heartbeat").write_text(json.dumps({"at": time.time() - 7200}))
    site.lxd.server.configure(site.instance("web"), {READY_KEY: ""})
    try:
        done = site.vcrecovery("drill", "--all")
    finally:
        site.lxd.server.configure(site.instance("web"), {READY_KEY: "true"})
    assert done.returncode == 3
    assert "db: its standby is 2 h old, more than its max_staleness of 15 min" in done.stderr
    assert "web: its standby was never made ready" in done.stderr
    assert drills(site) == []


def test_a_pool_that_is_nearly_full(site: SmallSite, tmp_path: Path) -> None:
    run(["mount", "-t", "tmpfs", "-o", "size=100m", "drill-test", str(tmp_path)], timeout=10)
    try:
        site.lxd.lxc("storage", "create", "vcrt-full", "dir", f"source={tmp_path}")
        site.lxd.lxc("copy", "db", "full", "--storage", "vcrt-full")
        site.write_plan()
        other = {**site.data["secondaries"]["sec1"], "storage_pool": "vcrt-full"}
        site.data["secondaries"]["sec2"] = {**other, "receiver": {"address": "127.0.0.2"}}
        full = json.loads(json.dumps(site.data["services"]["db"]))
        full["primary"] |= {"uuid": "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e5999", "address": "127.0.5.99"}
        full["standby"] = {"secondary": "sec2", "address": "10.211.8.99"}
        site.data["services"]["full"] = {**full, "dns": []}
        site.save_plan()
        site.lxd.server.configure(site.instance("full"), {ROLE_KEY: "standby", READY_KEY: "true"})
        refused = site.vcrecovery("drill", "full")
        assert refused.returncode == 3, refused.stdout + refused.stderr
        figures = r"the drill needs 2\.\d MB for copies and 268\.4 MB to spare, and 10\d\.\d MB are free"
        assert re.search(rf"no drill: pool vcrt-full: {figures}", refused.stderr), refused.stderr
    finally:
        if site.lxd.server.get("full") is not None:
            site.lxd.server.delete("full")
        site.lxd.lxc("storage", "delete", "vcrt-full")
        run(["umount", str(tmp_path)], timeout=10)


@pytest.mark.parametrize("state", ["Running", "Frozen"])
def test_a_standby_that_runs_is_copied_and_goes_on(site: SmallSite, state: str) -> None:
    site.lxd.server.start("db", 30)
    if state == "Frozen":
        site.lxd.server.freeze("db", 30)
    began = site.instance("db").started_at
    done = site.vcrecovery("drill", "db")
    assert done.returncode == 0, done.stdout + done.stderr
    found = site.instance("db")
    assert (found.status, found.started_at) == (state, began)


def test_a_failover_in_the_middle(site: SmallSite) -> None:
    """It is not held up by the drill, which gives way."""
    # The clone never answers, and its original does.
    waits = f"while ! [ -e /go ]; do /bin/busybox sleep 0.1; done\n{SERVE}"
    site.fill("web", waits)
    clone = clone_name("web")
    with subprocess.Popen(
        site.command("drill", "web"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as drill:
        try:
            wait_for(lambda: (found := site.lxd.server.get(clone)) is not None and found.running, "the clone")
            (site.rootfs("web") / "go").touch()
            with sniffed(site.address("web")) as seen:
                done = site.vcrecovery("failover", "web", "--primary-is-down", "web")
            assert done.returncode == 0, done.stdout + done.stderr
            # What shows that the other test would see a packet.
            assert seen
            assert site.page("web") == "web"
            assert site.instance("web").config[ROLE_KEY] == ACTIVE
            said, _ = drill.communicate(timeout=60)
        finally:
            drill.kill()
    assert drill.returncode == 5, said
    assert "web: drill gave way: a failover of web has begun" in said
    assert page_at(site.address("web")) == "web"
    assert [one["outcome"] for one in drills(site)] == ["gave way"]
    refused = site.vcrecovery("drill", "web")
    assert refused.returncode == 3
    assert "its standby serves" in refused.stderr


@pytest.fixture
def controllers() -> Iterator[Controllers]:
    found = Controllers({})
    yield found
    found.close()


def containers(site: SmallSite) -> list[str]:
    return site.lxd.lxc("list", "--format", "csv", "--columns", "n").split()


def nothing_of_a_drill(site: SmallSite) -> bool:
    links = json.loads(run(["ip", "-j", "link"], timeout=10).stdout)
    return sorted(containers(site)) == sorted(site.names) and not any(
        link["ifname"].startswith("vcrd") for link in links
    )


def test_killed_at_any_step(site: SmallSite, controllers: Controllers, tmp_path: Path) -> None:
    """Before each request to LXD and while LXD carries it out, and while the network is laid out."""
    site.write_plan(db={"drill": {"command": ["/bin/busybox", "true"]}})
    words = ["--plan", str(site.plan)]
    out, err = tmp_path / "out", tmp_path / "err"
    left = 0

    def killed_before(boundary: str) -> int:
        return controllers.wait(controllers.start(boundary, ["drill", "db", *words], out, err))

    def next_call_cleans_up() -> None:
        cleaned = site.vcrecovery("drill", "--due")
        assert cleaned.returncode == 0, cleaned.stderr
        assert sorted(containers(site)) == sorted(site.names)
        # That went with its process, as soon as the kernel comes to it.
        wait_for(lambda: nothing_of_a_drill(site), "the end of the network", 30)

    for number in (3, 7, 8):
        assert killed_before(f"{number}@commands") == -signal.SIGKILL, out.read_text() + err.read_text()
        next_call_cleans_up()
    for number in range(1, 50):
        if (status := killed_before(f"{number}@lxd")) == 0:
            break
        assert status == -signal.SIGKILL, err.read_text()
        left += site.lxd.server.get(clone_name("db")) is not None
        next_call_cleans_up()
    assert left >= 4
    assert {one["outcome"] for one in drills(site)} == {"interrupted", "passed"}


def test_ended_by_a_signal(site: SmallSite) -> None:
    """As by Ctrl-C, or when systemd stops its unit: it still removes what it has made."""
    site.fill("web", "while :; do /bin/busybox sleep 0.1; done")
    with subprocess.Popen(site.command("drill", "web"), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as drill:
        try:
            clone = clone_name("web")
            wait_for(lambda: (found := site.lxd.server.get(clone)) is not None and found.running, "the clone")
            drill.terminate()
            _, said = drill.communicate(timeout=60)
        finally:
            drill.kill()
    assert drill.returncode == 130, said
    assert b"interrupted; run the same command" in said
    wait_for(lambda: nothing_of_a_drill(site), "the end of its network", 30)
    assert [one["outcome"] for one in drills(site)] == ["interrupted"]


def test_the_watcher_cleans_up_and_rehearses(site: SmallSite, controllers: Controllers, tmp_path: Path) -> None:
    site.write_plan(db={"drill": {"every": "1h"}})
    out, err = tmp_path / "out", tmp_path / "err"
    # LXD has been told to start the clone.
    killed = controllers.start("4@lxd", ["drill", "web", "--plan", str(site.plan)], out, err)
    assert controllers.wait(killed) == -signal.SIGKILL
    assert not nothing_of_a_drill(site)
    assert PROGRAM.exists()
    with site.watched() as said:
        wait_for(lambda: [o for o in drills(site) if o["outcome"] == "passed"], "a drill by the watcher", 60)
        wait_for(lambda: "drill: done" in said(), "the watcher's word", 60)
        assert "drill: drill-web of an interrupted drill will be removed" in said()
        wait_for(lambda: nothing_of_a_drill(site), "the end of its network", 30)
        assert "drill: error" not in said()
    outcomes = [(one["service"], one["asked_by"], one["outcome"]) for one in drills(site)]
    assert outcomes == [("web", os.environ.get("USER", "root"), "interrupted"), ("db", "the watcher", "passed")]
    assert site.vcrecovery("drill", "--due").stdout == "no drill is due\n"
