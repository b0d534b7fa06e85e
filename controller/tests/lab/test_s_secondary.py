"""What a failover of real parts comes to when the secondary or the name servers fail in the middle of it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from vcrecovery.errors import ExitCode
from vcrecovery.standby.container import EPOCH_KEY
from vcrecovery.standby.modes import RAW_KEY
from vcrecovery_lab.run import run

from .name_servers import NameServer
from .small_site import BRIDGE, SERVE, SmallSite, small_site
from .waiting import wait_for

pytestmark = pytest.mark.lab

WEB = "web"
#: For a slow machine that is busy.
PATIENCE = 120.0
#: A server that opens its port and dies again, until the file /calm is there.
FLAPPING = f"""\
while [ ! -e /calm ]; do
  {SERVE} -f & server=$!
  /bin/busybox sleep 0.5
  kill $server; wait $server
  /bin/busybox sleep 1
done
{SERVE}
"""
#: A server that comes up once the file /go is there.
LATE = f"while [ ! -e /go ]; do /bin/busybox sleep 0.1; done\n{SERVE}\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallSite]:
    with small_site(tmp_path_factory.mktemp("secondary"), [WEB]) as site:
        yield site


@pytest.fixture
def site(made: SmallSite) -> Iterator[SmallSite]:
    """The primary serves, as far as DNS and LXD know; its hypervisor has failed."""
    yield made
    made.back()


def finishes(site: SmallSite) -> None:
    """The next call brings it to its end, under the same epoch, with one copy; and one more changes nothing."""
    done = site.vcrecovery("failover", WEB)
    assert done.returncode == 0, (done.stdout, done.stderr)
    is_served_once(site)


def is_served_once(site: SmallSite) -> None:
    assert site.page(WEB) == WEB
    (episode,) = site.episodes()
    assert (episode["epoch"], episode["outcome"]) == (1, "done")
    assert len(inits(site)) == 1
    started = site.instance(WEB).started_at
    again = site.vcrecovery("failover", WEB)
    assert (again.returncode, "nothing to do" in again.stdout) == (0, True)
    assert site.instance(WEB).started_at == started


def inits(site: SmallSite) -> list[str]:
    """The processes that were started as the init of the standby."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_init = b"/sbin/init" in (folder / "cmdline").read_bytes()
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            of_this = str(site.lxd.folder).encode() in Path(f"/proc/{parent}/cmdline").read_bytes()
        except OSError:
            continue
        if is_init and of_this:
            found.append(folder.name)
    return found


def one_line(done: subprocess.CompletedProcess[str], *words: str) -> None:
    (line,) = done.stderr.splitlines()
    for word in words:
        assert word in line


@contextmanager
def failing_over(site: SmallSite) -> Iterator[subprocess.Popen[str]]:
    """A `vcrecovery failover` that runs meanwhile."""
    process = subprocess.Popen(
        site.command("failover", WEB), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    stdout, stderr = process.communicate(timeout=PATIENCE)
    return subprocess.CompletedProcess([], process.returncode, stdout, stderr)


def probing(site: SmallSite) -> bool:
    episodes = site.episodes()
    return bool(episodes) and any(step["step"] == "probe" for step in episodes[0]["steps"])


def late(site: SmallSite) -> None:
    """Its ports are waited for, for as long as the test takes."""
    site.fill(WEB, LATE)
    site.write_plan(web={"timeouts": {"ports": "10m"}})


# -- LXD is restarted ------------------------------------------------------------------------------------------


def test_lxd_goes_away_between_the_fence_and_the_start(site: SmallSite) -> None:
    site.data["hypervisors"]["hv1"]["fence"]["command"] = ["sh", "-c", f"kill -9 {site.lxd.pid}; echo off"]
    site.save_plan()
    done = site.vcrecovery("failover", WEB)
    assert done.returncode == ExitCode.EXTERNAL
    one_line(done, f"{site.lxd.software.product} on secondary sec1", "does not answer", f"`{site.lxd.client} list`")
    assert site.address_in_dns(WEB) == [site.primary(WEB)]
    assert not inits(site)
    wait_for(lambda: not site.lxd.runs, "the end of LXD")
    # It is not there yet.
    once_more = site.vcrecovery("failover", WEB)
    assert once_more.returncode == ExitCode.EXTERNAL
    one_line(once_more, f"{site.lxd.software.product} on secondary sec1", "does not answer")
    site.lxd.start()
    finishes(site)


def test_a_network_that_did_not_come_up_with_lxd_is_waited_for(
    site: SmallSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a busy machine, where one of the commands fails that LXD makes it with. It tries again after a minute."""
    fails = tmp_path / "fails"
    fails.touch()
    ip = tmp_path / "bin/ip"
    ip.parent.mkdir()
    ip.write_text(f'#!/bin/sh\n[ ! -e {fails} ] || exit 1\nexec {shutil.which("ip")} "$@"\n')
    ip.chmod(0o755)
    site.lxd.kill()
    wait_for(lambda: not site.lxd.runs, "the end of LXD")
    run(["ip", "link", "delete", BRIDGE], timeout=30)
    with monkeypatch.context() as environment:
        environment.setenv("PATH", f"{ip.parent}:{os.environ['PATH']}")
        site.lxd.start()
    assert "status: Unavailable" in site.lxd.lxc("network", "show", BRIDGE)
    words = site.command("failover", WEB)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as failover:
        try:
            wait_for(lambda: site.instance(WEB).config.get(EPOCH_KEY) == "1", "the claim of the standby")
        finally:
            fails.unlink()
        said, _ = failover.communicate(timeout=PATIENCE)
    assert failover.returncode == 0, said
    is_served_once(site)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
def test_lxd_is_restarted_in_the_middle_of_the_start(site: SmallSite, number: signal.Signals, tmp_path: Path) -> None:
    reached, go, hook = tmp_path / "reached", tmp_path / "go", tmp_path / "hook"
    hook.write_text(
        f"#!/bin/sh\necho run >> {reached}\nfor try in $(seq 1200); do [ -e {go} ] && exit 0; sleep 0.1; done\n"
    )
    hook.chmod(0o755)
    raw = site.instance(WEB).config[RAW_KEY]
    site.lxd.lxc("config", "set", WEB, f"{RAW_KEY}={raw}\nlxc.hook.pre-start = {hook}")
    try:
        with failing_over(site) as process:
            wait_for(reached.exists, "the start of the container", PATIENCE)
            site.lxd.send(number)
            if number == signal.SIGKILL:
                wait_for(lambda: not site.lxd.runs, "the end of LXD", PATIENCE)
            go.touch()
            done = ended(process)
        # Asked to end, it ends what it is at first.
        wait_for(lambda: not site.lxd.runs, "the end of LXD", PATIENCE)
        if done.returncode:
            assert done.returncode == ExitCode.EXTERNAL
            one_line(done, f"{site.lxd.software.product} on secondary sec1")
            assert site.address_in_dns(WEB) == [site.primary(WEB)]
        site.lxd.start()
        finishes(site)
    finally:
        go.touch()
        site.lxd.lxc("config", "set", WEB, f"{RAW_KEY}={raw}")


def test_lxd_is_restarted_while_the_ports_are_waited_for(site: SmallSite) -> None:
    late(site)
    with failing_over(site) as process:
        wait_for(lambda: probing(site), "the probe", PATIENCE)
        site.lxd.kill()
        (site.rootfs(WEB) / "go").touch()
        done = ended(process)
    # Ports and DNS do not need LXD.
    assert done.returncode == 0, done.stderr
    site.lxd.start()
    is_served_once(site)


def test_another_mode_is_asked_for_in_the_middle(site: SmallSite) -> None:
    late(site)
    with failing_over(site) as process:
        wait_for(lambda: probing(site), "the probe", PATIENCE)
        for mode in ("frozen", "cold"):
            said = site.vcrecovery("standby", "set", WEB, mode)
            assert "Traceback" not in said.stderr
            assert site.instance(WEB).status == "Running", said
        (site.rootfs(WEB) / "go").touch()
        done = ended(process)
    assert done.returncode == 0, done.stderr
    # Nor is one that serves stopped or frozen by it.
    said = site.vcrecovery("standby", "set", WEB, "frozen")
    assert site.instance(WEB).status == "Running", said
    is_served_once(site)


def test_lxd_goes_away_while_a_standby_is_frozen(site: SmallSite) -> None:
    site.lxd.kill()
    said = site.vcrecovery("standby", "set", WEB, "frozen")
    one_line(said, f"{site.lxd.software.product} on secondary sec1", "does not answer")
    site.lxd.start()
    again = site.vcrecovery("standby", "set", WEB, "frozen")
    assert again.returncode == 0, again.stderr
    assert site.instance(WEB).status == "Frozen"
    finishes(site)


# -- ports that open and close ---------------------------------------------------------------------------------


def test_a_service_that_opens_its_port_and_dies(site: SmallSite) -> None:
    site.fill(WEB, FLAPPING)
    site.write_plan(web={"timeouts": {"ports": "5s", "stable_for": "3s"}})
    before = site.serial()
    done = site.vcrecovery("failover", WEB)
    assert done.returncode == ExitCode.EXTERNAL
    one_line(done, "the standby of web does not answer after 5 s", "DNS was not changed")
    assert (site.serial(), site.address_in_dns(WEB)) == (before, [site.primary(WEB)])
    (episode,) = site.episodes()
    assert "DNS was not changed" in episode["steps"][-1]["evidence"]["error"]
    assert not [step for step in episode["steps"] if step["step"] == "switch"]
    (site.rootfs(WEB) / "calm").touch()
    finishes(site)


# -- name servers ----------------------------------------------------------------------------------------------


def test_the_name_server_is_down_and_comes_back(site: SmallSite) -> None:
    site.ns1.stop()
    done = site.vcrecovery("failover", WEB)
    assert done.returncode == ExitCode.EXTERNAL
    one_line(done, "DNS server ns1", "does not answer")
    # All that does not need it is done.
    assert site.instance(WEB).running
    started = site.instance(WEB).started_at
    site.ns1.start()
    finishes(site)
    assert site.instance(WEB).started_at == started


@pytest.mark.parametrize("fault", ["refuses", "is down"])
def test_one_of_two_authoritative_servers(site: SmallSite, fault: str) -> None:
    ns2, zones = site.ns2, site.ns2.zones
    site.write_plan(web={"timeouts": {"dns": "2s"}})
    ns2.stop()
    if fault == "refuses":
        refusing(ns2)
    try:
        done = site.vcrecovery("failover", WEB)
        assert done.returncode == ExitCode.EXTERNAL
        one_line(done, "DNS server ns2", "ns1 has it", "answers REFUSED" if fault == "refuses" else "does not answer")
        # Whoever asks the other is served already.
        assert site.page(WEB) == WEB
    finally:
        ns2.stop()
        ns2.zones = zones
    ns2.start()
    wait_for(lambda: ns2.dig(f"{WEB}.small.test", "A") == [site.address(WEB)], "the transfer to ns2", PATIENCE)
    finishes(site)


def refusing(server: NameServer) -> None:
    server.zones = {}
    server.start()
