"""Controllers get new certificates for LXD, on a real one: it trusts both until the watcher uses the new one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd import LxdServer, OverHttps
from vcrecovery.errors import ExternalError
from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.ports import free_port
from vcrecovery_lab.private_lxd import PrivateLxd

from .role_plays import over_https, plays

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

POOL = "vcrlab-certs"
PARTS = ("certificate", "key")
YOUNG = ("-e", "vcrecovery_keys_older_than=1h")


class Site:
    def __init__(self, folder: Path, lxd: PrivateLxd) -> None:
        self.own, self.lxd, self.port = folder / "controller", lxd, free_port()
        self.restarted = folder / "restarted"
        (folder / "etc").mkdir()
        of_secondary = over_https(self.port, folder, lxd)
        plan = of_secondary["secondary_plan"]
        of_controller = {"controller_plan": plan, "controller_venv": "/opt/x", "controller_config_dir": "/etc/x"}
        # In the place of the watcher. It leaves a line for each restart, with the certificate that is there then.
        handler = {
            "name": "Restart the watcher",
            "ansible.builtin.shell": f"openssl x509 -noout -serial -in {self.own}/certificate >> {self.restarted}",
        }
        parts = {
            "laid_out": [play("secondary", "https", of_secondary)],
            "rotation": [
                play("secondary", "rotate_certificates", of_secondary),
                play("controller", "use_certificates", of_controller, handler),
                play("secondary", "forget_certificates", of_secondary),
            ],
        }
        inventory = folder / "hosts"
        inventory.write_text("sec2 ansible_connection=local\n[controllers]\nctl ansible_connection=local\n")
        made = {}
        for name, parts_of_it in parts.items():
            file = folder / f"{name}.yml"
            file.write_text(json.dumps(parts_of_it))
            made[name] = plays(file, str(inventory), lxd)
        self.lay_out, self.rotate = made["laid_out"], made["rotation"]

    def keep_old(self) -> tuple[Path, Path]:
        """Copies of the certificate and key of now."""
        certificate, key = (self.own.parent / f"old-{name}" for name in PARTS)
        certificate.write_text((self.own / "certificate").read_text())
        key.write_text((self.own / "key").read_text())
        return certificate, key

    def server(self, certificate: Path | None = None, key: Path | None = None) -> LxdServer:
        certificate, key = certificate or self.own / "certificate", key or self.own / "key"
        way = OverHttps(f"https://127.0.0.1:{self.port}", certificate, key, self.own / "server_certificate")
        return LxdServer("sec2", way, SystemClock())

    def assert_rotated(self, old: tuple[Path, Path]) -> None:
        assert self.server().get("none") is None
        with pytest.raises(ExternalError):
            self.server(*old).get("none")
        (trusted,) = json.loads(self.lxd.lxc("config", "trust", "list", "--format", "json"))
        assert (trusted["restricted"], trusted["projects"]) == (True, ["default"])
        assert sorted(path.name for path in self.own.iterdir()) == ["certificate", "key", "server_certificate"]
        assert (self.own / "key").stat().st_mode & 0o777 == 0o600


def play(role: str, part: str, facts: Mapping[str, object], *handlers: dict[str, str]) -> dict[str, object]:
    folder = CHECKOUT / "roles" / role
    tasks = [
        {"ansible.builtin.include_vars": str(folder / "vars/main.yml")},
        {"ansible.builtin.include_tasks": str(folder / f"tasks/{part}.yml")},
    ]
    host = {"secondary": "sec2", "controller": "ctl"}[role]
    made = {"hosts": host, "gather_facts": False, "vars": facts, "tasks": tasks, "handlers": handlers}
    return {**made, "any_errors_fatal": True}


@pytest.fixture(scope="module")
def lxd() -> Iterator[PrivateLxd]:
    made = PrivateLxd(POOL)
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture
def site(lxd: PrivateLxd, tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path, lxd)
    made.lay_out()
    yield made
    lxd.lxc("config", "unset", "core.https_address")
    for one in json.loads(lxd.lxc("config", "trust", "list", "--format", "json")):
        lxd.lxc("config", "trust", "remove", one["fingerprint"])


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
