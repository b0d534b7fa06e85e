"""The role `secondary`: new keys for handing files on. Whoever hands on meanwhile is never refused."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from vcrecovery.store.journal import Journal
from vcrecovery.transfer.hand_on import ssh_words
from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.pair.receiver import Receiver, known_host

from .role_plays import plays
from .stolen_connection import asked_all_along, ended_with_its_key

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

ROLE = CHECKOUT / "roles/secondary"
SERVICES = ("web", "other-web")
STRANGER = "restrict ssh-ed25519 AAAAStranger vcrecovery:of-another-secondary\n"
YOUNG = ("-e", "vcrecovery_keys_older_than=1h")


class Site:
    """A controller with a key for each service, and the receiver in the VM that knows them."""

    def __init__(self, folder: Path) -> None:
        self.own, state, there = folder / "state/secondaries/sec1/relay", folder / "there", folder / "etc/receiver"
        for part in (self.own, state / "standbys", there):
            part.mkdir(parents=True)
        Journal(state / "journal.db")
        self.keys, lines = there / "authorized_keys", [STRANGER]
        for name in SERVICES:
            # Of one that is off: who serves is asked of the journal then, and no LXD.
            nowhere = {what: str(folder / "none") for what in ("rootfs", "disk", "note", "takes_files")}
            (state / f"standbys/{name}.json").write_text(json.dumps({"container": name, **nowhere}))
            self.receiver = Receiver(there, state, self.own / name, name)
            lines.append(self.keys.read_text().replace(',from="127.0.0.1"', ""))
        self.keys.write_text("".join(lines))
        (self.own / "known_hosts").write_text(known_host(self.receiver))
        self.old = folder / "old"
        shutil.copytree(self.own, self.old)
        secondary = {
            "power": "on-demand",
            "lxd": {"url": "https://127.0.0.1:8443", "certificate": "/x", "key": "/y", "server_certificate": "/z"},
            "vm": {"address": "127.0.0.1/24"},
            "receiver": {"address": "127.0.0.1", "port": self.receiver.port},
        }
        standby = {"standby": {"secondary": "sec1"}}
        facts = {
            "secondary_plan": {
                "services": dict.fromkeys(SERVICES, standby),
                "secondaries": {"sec1": secondary},
            },
            "secondary_name": "sec1",
            "secondary_lxd_from": "package",
            "secondary_state_dir": str(folder / "state"),
        }
        in_vm = {
            "vcrecovery_config_dir": str(folder / "etc"),
            "controller_venv": str(CHECKOUT / ".venv"),
            "vcrecovery_state_dir": str(state),
        }
        inventory = folder / "hosts"
        words = " ".join(f"{name}={value}" for name, value in in_vm.items())
        inventory.write_text(f"ctl\nsec1 {words}\n[all:vars]\nansible_connection=local\n")
        tasks = [
            {"ansible.builtin.include_vars": str(ROLE / "vars/main.yml")},
            {"ansible.builtin.include_tasks": str(ROLE / "tasks/rotate_relay_keys.yml")},
        ]
        file = folder / "play.yml"
        file.write_text(json.dumps([{"hosts": "ctl", "gather_facts": False, "vars": facts, "tasks": tasks}]))
        self.rotate = plays(file, str(inventory))

    def words(self, key: Path, command: str) -> list[str]:
        """As whoever hands files on has them."""
        known_hosts = str(self.own / "known_hosts")
        to = {"address": "127.0.0.1", "port": str(self.receiver.port), "key": str(key), "known_hosts": known_hosts}
        return ssh_words(to, command)

    def hand_on(self, key: Path) -> str:
        """What the receiver answers to this key, or why ssh did not get there."""
        words = self.words(key, "who-serves")
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout.strip() or done.stderr.strip()

    def assert_rotated(self) -> None:
        stranger, *lines = self.keys.read_text().splitlines(keepends=True)
        assert stranger == STRANGER
        assert len(lines) == len(SERVICES)
        for name in SERVICES:
            (line,) = (line for line in lines if line.endswith(f" vcrecovery:{name}\n"))
            assert line.startswith('restrict,command="')
            assert line.endswith((self.own / f"{name}.pub").read_text())
            assert (self.own / name).stat().st_mode & 0o777 == 0o600
            assert self.hand_on(self.own / name) == "primary"
            assert "Permission denied" in self.hand_on(self.old / name)
        assert sorted(path.name for path in self.own.iterdir()) == sorted(
            ["known_hosts", *SERVICES, *(f"{name}.pub" for name in SERVICES)]
        )
        assert self.keys.stat().st_mode & 0o777 == 0o600

    def handing_on(self) -> AbstractContextManager[list[str]]:
        return asked_all_along(lambda: self.hand_on(self.own / "web"))


@pytest.fixture
def site() -> Iterator[Site]:
    folder = Path(tempfile.mkdtemp(prefix="vcrk-", dir="/run"))
    made = Site(folder)
    made.receiver.start()
    yield made
    made.receiver.stop()
    shutil.rmtree(folder)


def test_keys_are_replaced_and_nobody_is_refused(site: Site) -> None:
    assert site.rotate(*YOUNG) == 0
    assert site.rotate("--check") == 1
    assert site.hand_on(site.old / "web") == "primary"
    with ended_with_its_key(site.receiver, site.words(site.old / "web", "")[1:-1]), site.handing_on() as heard:
        assert site.rotate() == 5
    assert len(heard) > 3
    # One may have been open as the old keys were forgotten; it is sent again.
    assert [answer for answer in heard if "Permission denied" in answer] == []
    assert len([answer for answer in heard if answer != "primary"]) <= 1, heard
    site.assert_rotated()
    # Where there is nothing to do, it need not be on.
    site.receiver.stop()
    assert site.rotate(*YOUNG) == 0
    assert site.rotate(*YOUNG, "--check") == 0


def make_next(site: Site, name: str = "web") -> str:
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"vcrecovery:{name}"]
    subprocess.run([*words, "-f", str(site.own / f"{name}.new")], check=True, timeout=30)
    return (site.own / f"{name}.new.pub").read_text()


def cut_off_while_it_is_made(site: Site) -> None:
    make_next(site)
    (site.own / "web.new.pub").write_text("")


def cut_off_when_one_is_made(site: Site) -> None:
    make_next(site)


def cut_off_when_one_is_known(site: Site) -> None:
    (line,) = (line for line in site.keys.read_text().splitlines() if line.endswith(" vcrecovery:web"))
    old = (site.old / "web.pub").read_text().strip()
    site.keys.write_text(site.keys.read_text() + line.replace(old, make_next(site)))


def cut_off_in_the_midst_of_the_switch(site: Site) -> None:
    cut_off_when_one_is_known(site)
    (site.own / "web.pub").unlink()
    shutil.copy(site.own / "web.new", site.own / "web")


def cut_off_when_one_is_used(site: Site) -> None:
    cut_off_in_the_midst_of_the_switch(site)
    shutil.copy(site.own / "web.new.pub", site.own / "web.pub")


def cut_off_as_it_was_done(site: Site) -> None:
    cut_off_when_one_is_used(site)
    site.keys.write_text(
        "".join(
            line
            for line in site.keys.read_text().splitlines(keepends=True)
            if (site.old / "web.pub").read_text().split()[1] not in line
        )
    )
    (site.own / "web.new").unlink()


@pytest.mark.at_length
@pytest.mark.parametrize(
    "cut_off",
    [
        cut_off_while_it_is_made,
        cut_off_when_one_is_made,
        cut_off_when_one_is_known,
        cut_off_in_the_midst_of_the_switch,
        cut_off_when_one_is_used,
        cut_off_as_it_was_done,
    ],
)
def test_the_next_run_finishes_one_that_was_cut_off(site: Site, cut_off: Callable[[Site], None]) -> None:
    cut_off(site)
    assert site.hand_on(site.own / "web") == "primary"
    with site.handing_on() as heard:
        assert site.rotate() > 0
    assert [answer for answer in heard if "Permission denied" in answer] == []
    site.assert_rotated()
    assert site.rotate(*YOUNG) == 0


def test_what_was_begun_is_finished_however_young_it_is(site: Site) -> None:
    cut_off_when_one_is_used(site)
    assert site.rotate(*YOUNG) == 2
    assert "Permission denied" in site.hand_on(site.old / "web")
    assert site.hand_on(site.old / "other-web") == "primary"


def test_a_secondary_that_is_off_keeps_the_old_keys_in_use(site: Site) -> None:
    site.receiver.stop()
    with pytest.raises(AssertionError, match="power it on"):
        site.rotate()
    site.receiver.start()
    assert [site.hand_on(folder / "web") for folder in (site.own, site.old)] == ["primary"] * 2
    assert site.rotate(*YOUNG) > 0
    site.assert_rotated()
