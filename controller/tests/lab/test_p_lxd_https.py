"""LXD over HTTPS, with a certificate that it restricts to one project: the real server, on loopback."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd import LxdServer, OverHttps, TryAgainError
from vcrecovery.errors import ExternalError
from vcrecovery.standby.container import ROLE_KEY
from vcrecovery.transfer.heartbeat_copy import TEMPLATE
from vcrecovery_lab.ports import free_port
from vcrecovery_lab.run import run
from vcrecovery_lab.secondary_vm.certificate import make_certificate

from .conftest import Lab
from .own_standby import OwnStandby, own_standby
from .waiting import wait_for

pytestmark = pytest.mark.lab

NAME = "vcrt-https"


@dataclass(frozen=True)
class Remote:
    """The lab's LXD, as a controller on another machine has it."""

    standby: OwnStandby
    place: OverHttps
    plan: Path

    def server(self, place: OverHttps | None = None) -> LxdServer:
        return LxdServer("sec1", place or self.place, SystemClock())


@pytest.fixture(scope="module")
def remote(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    folder = tmp_path_factory.mktemp("https")
    certificate, key = make_certificate(folder, NAME)
    port = free_port()
    server_certificate = folder / "server.crt"
    server_certificate.write_bytes((lab.layout.lxd_socket.parent / "server.crt").read_bytes())
    place = OverHttps(f"https://127.0.0.1:{port}", certificate, key, server_certificate)
    with own_standby(lab, NAME, lab.layout.pool, folder) as standby:
        standby.make_source()
        standby.apply()
        assert standby.sync().returncode == 0
        run(["lxc", "config", "set", "core.https_address", f"127.0.0.1:{port}"], timeout=30)
        try:
            words = ["--name", NAME, "--type", "client", "--restricted", "--projects", "default"]
            run(["lxc", "config", "trust", "add", certificate, *words], timeout=30)
            standby.data["secondaries"]["sec1"]["lxd"] = {
                "url": place.url,
                "certificate": str(certificate),
                "key": str(key),
                "server_certificate": str(server_certificate),
            }
            standby.write_plan()
            yield Remote(standby, place, standby.plan)
        finally:
            listed = run(["lxc", "config", "trust", "list", "--format", "csv"], timeout=30).stdout
            for line in listed.splitlines():
                kind, name, _, fingerprint, *_ = line.split(",")
                if (kind, name) == ("client", NAME):
                    run(["lxc", "config", "trust", "remove", fingerprint], timeout=30)
            run(["lxc", "config", "unset", "core.https_address"], timeout=30)


def test_all_that_a_controller_needs(remote: Remote) -> None:
    lxd, name = remote.server(), remote.standby.name
    assert not lxd.is_here
    found = lxd.get(name)
    assert found is not None
    assert lxd.get("no-such") is None
    assert lxd.file(name, "/etc/hostname") == f"{name}\n".encode()
    assert lxd.file(name, "/no/such") is None
    lxd.start(name, 30)
    running = lxd.get(name)
    assert running is not None
    assert running.running
    lxd.configure(running, {"user.vcrecovery.note": "x"})
    with pytest.raises(TryAgainError):
        lxd.configure(running, {"user.vcrecovery.note": "y"})
    lxd.freeze(name, 30)
    frozen = lxd.get(name)
    assert frozen is not None
    assert (frozen.status, frozen.running) == ("Frozen", False)
    lxd.start(name, 30)
    assert lxd.ask(name, ["/bin/sh", "-c", "echo here; exit 3"], 30) == (3, "here\n")
    lxd.restart(name, 20)
    lxd.shut_down(name, 20)
    assert remote.standby.instance.status == "Stopped"


def test_it_tells_what_happens_and_who_asked(remote: Remote) -> None:
    lxd, name = remote.server(), remote.standby.name
    with lxd.lifecycle() as happenings:
        lxd.start(name, 60)
        run(["lxc", "stop", "--force", name], timeout=60)
        found = [happening for _ in range(10) if (happening := happenings.next(1.0)) is not None]
    told = [(happening.what, happening.asked_by) for happening in found if happening.instance == name]
    assert [what for what, _ in told] == ["started", "ended"]
    assert told[0][1].endswith(" over tls")
    assert told[1][1] == "root over unix"
    assert isinstance(lxd.last_words(name), str)


def test_a_restricted_certificate_may_no_more(remote: Remote) -> None:
    with pytest.raises(ExternalError):
        remote.server().create_pool("vcrt-none")
    with pytest.raises(
        ExternalError, match=r"is another machine .* its files are not here; call this on the secondary"
    ):
        remote.server().rootfs("pool", remote.standby.name)
    done = remote.standby.vcrecovery("standby", "apply")
    assert done.returncode == 4
    assert "is another machine" in done.stderr


def test_modes_and_a_failover(remote: Remote) -> None:
    standby = remote.standby
    for mode, status in (("hot", "Running"), ("frozen", "Frozen"), ("cold", "Stopped"), ("frozen", "Frozen")):
        done = standby.vcrecovery("standby", "set", standby.name, mode)
        assert done.returncode == 0, done.stderr
        assert standby.instance.status == status
    (shown,) = json.loads(standby.vcrecovery("status", "--json", "--within", "60").stdout)["services"]
    assert (shown["standby"]["state"], shown["mode"]) == ("frozen", "frozen")
    assert shown["standby"]["age"] is not None
    refused = standby.fail_over("--restore-point", "latest")
    assert refused.returncode == 3
    assert "only there can its standbys be put back" in refused.stderr
    done = standby.fail_over()
    assert done.returncode == 0, done.stderr
    assert standby.instance.config[ROLE_KEY] == "active"
    assert "thawed" in standby.steps()["start"]["summary"]


def test_the_age_is_read_where_lxd_starts_no_program(remote: Remote) -> None:
    standby, lxd = remote.standby, remote.server()
    heartbeat = standby.source / "var/lib/vcrecovery/heartbeat"
    sent = [heartbeat.read_bytes()]
    standby.stand_by_again()
    standby.stamp()
    sent.append(heartbeat.read_bytes())
    # A session leaves what the one before it has brought.
    for _ in range(2):
        assert standby.sync().returncode == 0
    assert lxd.template(standby.name, TEMPLATE) == sent[1]
    assert lxd.template(standby.name, "no-such") is None
    # Were the file itself read, the standby would be of no known age.
    (standby.rootfs / "var/lib/vcrecovery/heartbeat").unlink()
    done = standby.fail_over()
    assert done.returncode == 0, done.stderr
    assert standby.steps()["confirm"]["freshness"] < 60


def test_one_that_is_too_old_is_not_taken_for_the_newest(remote: Remote) -> None:
    standby = remote.standby
    standby.stand_by_again()
    heartbeat = standby.source / "var/lib/vcrecovery/heartbeat"
    heartbeat.write_text(json.dumps({"at": SystemClock().now() - 7200}))
    for _ in range(2):
        assert standby.sync().returncode == 0
    refused = standby.fail_over()
    assert refused.returncode == 3
    assert "more than its max_staleness" in refused.stderr
    standby.stamp()
    assert standby.sync().returncode == 0
    done = standby.fail_over()
    assert done.returncode == 0, done.stderr
    # Files from elsewhere are of no known age.
    standby.stand_by_again()
    assert standby.vcrecovery("standby", "seed", standby.name, "--from", str(standby.source)).returncode == 0
    assert remote.server().template(standby.name, TEMPLATE) is None


def test_what_is_wrong_is_said(remote: Remote, tmp_path: Path) -> None:
    other, key = make_certificate(tmp_path, "other")
    place = remote.place
    open_key = tmp_path / "open.key"
    open_key.write_bytes(place.key.read_bytes())
    open_key.chmod(0o640)
    nobody = f"https://127.0.0.1:{free_port()}"
    for wrong, said in (
        (replace(place, server_certificate=other), "it shows another certificate than the plan's server_certificate"),
        # The same place in words that requests makes into others.
        (replace(place, url=f"{place.url}/a/..", server_certificate=other), "it shows another certificate"),
        (replace(place, url=f"{place.url}?", server_certificate=other), "it shows another certificate"),
        (replace(place, certificate=other, key=key), "does not know the certificate of this controller"),
        (replace(place, key=open_key), "can be read by others .mode 640.; `chmod 600"),
        (replace(place, certificate=tmp_path / "none"), "LXD's certificate .*/none cannot be read: No such file"),
        (replace(place, server_certificate=open_key), "LXD's server certificate .* is no certificate"),
        (replace(place, url=nobody), "does not answer: .*Connection refused"),
    ):
        with pytest.raises(ExternalError, match=said) as error:
            remote.server(wrong).get("any")
        assert "\n" not in str(error.value)


def test_connections_take_up_one_session(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool | None] = []
    shake = ssl.SSLSocket.do_handshake

    def counted(sock: ssl.SSLSocket, block: bool = False) -> None:
        shake(sock, block)
        seen.append(sock.session_reused)

    monkeypatch.setattr(ssl.SSLSocket, "do_handshake", counted)
    lxd, name = remote.server(), remote.standby.name
    assert lxd.get(name) is not None
    together = threading.Barrier(4, timeout=60)

    def ask(_: int) -> bool:
        together.wait()
        return lxd.get(name) is not None

    with ThreadPoolExecutor(4) as pool:
        wait_for(lambda: all(pool.map(ask, range(4))) and len(seen) > 1, "a second connection")
    assert seen[0] is False
    assert all(seen[1:])


def test_proxies_of_the_environment_are_not_asked(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/etc/hostname")
    assert remote.server().get(remote.standby.name) is not None
