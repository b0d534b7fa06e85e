"""Controllers get new certificates for LXD, on real ones: they trust both until the watcher uses the new one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd import LxdServer, OverHttps
from vcrecovery.errors import ExternalError
from vcrecovery_lab.container_programs import LXD, Programs
from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.ports import free_port
from vcrecovery_lab.private_lxd import PrivateLxd

from .flavours import chosen
from .role_plays import over_https, plays

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

POOL = "vcrlab-certs"
PARTS = ("certificate", "key")
YOUNG = ("-e", "vcrecovery_keys_older_than=1h")


class Site:
    """One controller, whose one certificate is for all secondaries: sec2, and more where a test has them."""

    def __init__(self, folder: Path, lxd: PrivateLxd, **more: PrivateLxd) -> None:
        self.own, self.lxd, self.lxds = folder / "controller", lxd, {"sec2": lxd, **more}
        self.ports = {name: free_port() for name in self.lxds}
        self.restarted = folder / "restarted"
        (folder / "etc").mkdir()
        of_secondary = over_https(self.ports["sec2"], folder, lxd)
        plan = of_secondary["secondary_plan"]
        for name in more:
            entry = plan["secondaries"]["sec2"]
            way = {"url": f"https://127.0.0.1:{self.ports[name]}", "server_certificate": str(self.pinned(name))}
            plan["secondaries"][name] = {**entry, "lxd": {**entry["lxd"], **way}}
        # Of which the inventory has one for each host.
        del of_secondary["secondary_lxd_dir"]
        of_secondary["secondary_name"] = "{{ inventory_hostname }}"
        of_controller = {"controller_plan": plan, "controller_venv": "/opt/x", "controller_config_dir": "/etc/x"}
        # In the place of the watcher. It leaves a line for each restart, with the certificate that is there then.
        handler = {
            "name": "Restart the watcher",
            "ansible.builtin.shell": f"openssl x509 -noout -serial -in {self.own}/certificate >> {self.restarted}",
        }
        parts = {
            "laid_out": [play("secondary", "https", of_secondary, software=lxd.software)],
            "rotation": [
                play("secondary", "rotate_certificates", of_secondary, software=lxd.software),
                play("controller", "use_certificates", of_controller, handler),
                play("secondary", "forget_certificates", of_secondary, software=lxd.software),
            ],
        }
        inventory = folder / "hosts"
        lines = [f"{name} secondary_lxd_dir={one.folder}" for name, one in self.lxds.items()]
        inventory.write_text("\n".join(["[secondaries]", *lines, "[controllers]", "ctl", ""]))
        made = {}
        for name, parts_of_it in parts.items():
            file = folder / f"{name}.yml"
            file.write_text(json.dumps(parts_of_it))
            made[name] = plays(file, str(inventory))
        self.lay_out, self.rotate = made["laid_out"], made["rotation"]

    def pinned(self, name: str) -> Path:
        return self.own / ("server_certificate" if name == "sec2" else f"server_certificate-{name}")

    def keep_old(self) -> tuple[Path, Path]:
        """Copies of the certificate and key of now."""
        certificate, key = (self.own.parent / f"old-{name}" for name in PARTS)
        certificate.write_text((self.own / "certificate").read_text())
        key.write_text((self.own / "key").read_text())
        return certificate, key

    def server(self, name: str = "sec2", certificate: Path | None = None, key: Path | None = None) -> LxdServer:
        certificate, key = certificate or self.own / "certificate", key or self.own / "key"
        way = OverHttps(f"https://127.0.0.1:{self.ports[name]}", certificate, key, self.pinned(name))
        return LxdServer(name, way, SystemClock())

    def trusted(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.lxds[name].lxc("config", "trust", "list", "--format", "json"))
        return found

    def assert_rotated(self, old: tuple[Path, Path]) -> None:
        for name in self.lxds:
            assert self.server(name).get("none") is None
            with pytest.raises(ExternalError):
                self.server(name, *old).get("none")
            (trusted,) = self.trusted(name)
            assert (trusted["restricted"], trusted["projects"]) == (True, ["default"])
        pinned = [self.pinned(name).name for name in self.lxds]
        assert sorted(path.name for path in self.own.iterdir()) == ["certificate", "key", *pinned]
        assert (self.own / "key").stat().st_mode & 0o777 == 0o600

    def close(self) -> None:
        for name, lxd in self.lxds.items():
            lxd.lxc("config", "unset", "core.https_address")
            for one in self.trusted(name):
                lxd.lxc("config", "trust", "remove", one["fingerprint"])


def play(
    role: str, part: str, facts: Mapping[str, object], *handlers: dict[str, str], software: Programs = LXD
) -> dict[str, object]:
    folder = CHECKOUT / "roles" / role
    tasks = [
        {"ansible.builtin.include_vars": str(folder / "vars/main.yml")},
        {"ansible.builtin.include_tasks": str(folder / f"tasks/{part}.yml")},
    ]
    host = {"secondary": "secondaries", "controller": "controllers"}[role]
    made = {"hosts": host, "gather_facts": False, "vars": facts, "tasks": tasks, "handlers": handlers}
    if role == "secondary":
        made["environment"] = {**software.environment, software.folder: "{{ secondary_lxd_dir }}"}
    return {**made, "connection": "local", "any_errors_fatal": role == "controller"}


@contextmanager
def private_lxd(network: str = POOL) -> Iterator[PrivateLxd]:
    made = PrivateLxd(network, chosen())
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def lxd() -> Iterator[PrivateLxd]:
    with private_lxd() as made:
        yield made


@contextmanager
def laid_out(site: Site) -> Iterator[Site]:
    site.lay_out()
    yield site
    site.close()


@pytest.fixture
def site(lxd: PrivateLxd, tmp_path: Path) -> Iterator[Site]:
    with laid_out(Site(tmp_path, lxd)) as made:
        yield made


def test_a_certificate_is_replaced(site: Site) -> None:
    old = site.keep_old()
    assert site.rotate(*YOUNG) == 0
    assert site.rotate("--check") == 1
    assert site.server().get("none") is None
    assert site.rotate() > 3
    site.assert_rotated(old)
    assert len(site.restarted.read_text().splitlines()) == 1
    assert site.rotate(*YOUNG) == 0
    assert site.lay_out() == 0


def test_the_next_run_finishes_one_that_was_cut_off(site: Site) -> None:
    # Before the switch: LXD is away.
    old = site.keep_old()
    address = site.lxd.lxc("config", "get", "core.https_address").strip()
    site.lxd.lxc("config", "unset", "core.https_address")
    with pytest.raises(AssertionError, match="Connection refused"):
        site.rotate()
    assert (site.own / "certificate.new").exists()
    assert not site.restarted.exists()
    site.lxd.lxc("config", "set", "core.https_address", address)
    assert site.server().get("none") is None
    # In its midst.
    (site.own / "certificate.unread").touch()
    (site.own / "key.new").rename(site.own / "key")
    assert site.rotate(*YOUNG) > 0
    site.assert_rotated(old)
    assert len(site.restarted.read_text().splitlines()) == 1
    # When the watcher has not read it.
    (site.own / "certificate.unread").touch()
    assert site.rotate(*YOUNG) == 2
    assert len(site.restarted.read_text().splitlines()) == 2
    site.assert_rotated(old)


def test_one_certificate_for_two_secondaries_stays_until_both_know_the_next(lxd: PrivateLxd, tmp_path: Path) -> None:
    with private_lxd(f"{POOL}2") as second, laid_out(Site(tmp_path, lxd, sec3=second)) as site:
        old = site.keep_old()
        address = second.lxc("config", "get", "core.https_address").strip()
        second.lxc("config", "unset", "core.https_address")
        with pytest.raises(AssertionError, match="certificate stays: sec3 does not know the next one yet"):
            site.rotate()
        assert site.server("sec2").get("none") is None
        assert not site.restarted.exists()
        second.lxc("config", "set", "core.https_address", address)
        assert site.server("sec3").get("none") is None
        # The next run is said to be for old keys only, and finishes this one all the same.
        assert site.rotate(*YOUNG) > 0
        site.assert_rotated(old)
        assert len(site.restarted.read_text().splitlines()) == 1
        assert site.rotate(*YOUNG) == 0
