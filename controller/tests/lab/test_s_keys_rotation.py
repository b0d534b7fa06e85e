"""The role `primary`: a new key. Wherever a rotation is cut off, a key is in use, and the next run finishes it."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from vcrecovery.store.journal import Journal
from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.pair.receiver import Receiver, known_host
from vcrecovery_lab.pair.render import render

from .role_plays import plays
from .stolen_connection import asked_all_along, ended_with_its_key

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

ROLE = CHECKOUT / "roles/primary"
NAME, NEIGHBOUR = "web", "restrict ssh-ed25519 AAAANeighbour vcrecovery:other-web\n"
YOUNG = ("-e", "vcrecovery_keys_older_than=1h")


class Site:
    """A VM's key, and a receiver that knows it."""

    def __init__(self, folder: Path) -> None:
        self.vm, self.state, there = folder / "vm", folder / "state", folder / "etc/receiver"
        for part in (self.vm, self.state / "standbys", there):
            part.mkdir(parents=True)
        # Of a secondary that is off: who serves is asked of the journal then, and no LXD.
        nowhere = {name: str(folder / "none") for name in ("rootfs", "disk", "note", "takes_files")}
        (self.state / f"standbys/{NAME}.json").write_text(json.dumps({"container": NAME, **nowhere}))
        Journal(self.state / "journal.db")
        self.receiver = Receiver(there, self.state, self.vm / "sync_key", NAME)
        self.keys = there / "authorized_keys"
        self.keys.write_text(NEIGHBOUR + self.keys.read_text())
        (self.vm / "known_hosts").write_text(known_host(self.receiver))
        place = {"address": "127.0.0.1", "port": self.receiver.port}
        places = {"primary_config_dir": str(self.vm), "primary_run_dir": str(folder)}
        (self.vm / "ssh_config").write_text(
            render(ROLE / "templates/ssh_config.j2", primary_receiver=place, primary_receivers=[], **places)
        )
        plan = {
            "services": {
                NAME: {
                    "primary": {"address": "127.0.0.1"},
                    "standby": {"secondary": "sec1", "address": "10.20.0.10"},
                },
                "shop": {},
            },
            "secondaries": {"sec1": {"receiver": place}},
        }
        facts = {
            "primary_service": NAME,
            "primary_plan": plan,
            "primary_config_dir": str(self.vm),
            "primary_secondary_host": "localhost",
            "primary_spare_host": "",
            "primary_secondary_config_dir": str(folder / "etc"),
            "primary_secondary_venv": str(CHECKOUT / ".venv"),
            "primary_secondary_state_dir": str(self.state),
        }
        tasks = [
            {"ansible.builtin.include_vars": str(ROLE / "vars/main.yml")},
            {"ansible.builtin.include_tasks": str(ROLE / "tasks/rotate_key.yml")},
        ]
        file = folder / "play.yml"
        play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": facts, "tasks": tasks}
        file.write_text(json.dumps([play]))
        self.rotate = plays(file, "localhost,")
        self.old = folder / "old_key"
        for suffix in ("", ".pub"):
            shutil.copy(f"{self.vm}/sync_key{suffix}", f"{self.old}{suffix}")

    def ask(self, key: Path | None = None) -> str:
        """What the receiver answers to this key alone: the VM's own by default."""
        config = self.vm / "ssh_config"
        if key is not None:
            config = self.vm.parent / "other_config"
            config.write_text((self.vm / "ssh_config").read_text().replace(f"{self.vm}/sync_key", str(key)))
        return self.answer(config).stdout.strip()

    def answer(self, config: Path) -> subprocess.CompletedProcess[str]:
        words = ["ssh", "-F", str(config), "-o", "ControlPath=none", "receiver", "who-serves"]
        return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)

    def answer_or_error(self) -> str:
        done = self.answer(self.vm / "ssh_config")
        return done.stdout.strip() or done.stderr.strip()

    def is_rotated(self) -> bool:
        (line,) = (line for line in self.keys.read_text().splitlines() if line.endswith(f" vcrecovery:{NAME}"))
        assert line.startswith('restrict,from="127.0.0.1",command="')
        assert line.endswith((self.vm / "sync_key.pub").read_text().strip())
        assert NEIGHBOUR in self.keys.read_text()
        assert self.keys.stat().st_mode & 0o777 == 0o600
        assert (self.vm / "sync_key").stat().st_mode & 0o777 == 0o600
        assert sorted(file.name for file in self.vm.glob("sync_key*")) == ["sync_key", "sync_key.pub"]
        return self.ask() == "primary" and self.ask(self.old) == ""


@pytest.fixture
def site() -> Iterator[Site]:
    folder = Path(tempfile.mkdtemp(prefix="vcrk-", dir="/run"))
    made = Site(folder)
    made.receiver.start()
    yield made
    made.receiver.stop()
    shutil.rmtree(folder)


def test_a_key_is_replaced_and_what_the_old_one_has_opened_ends(site: Site) -> None:
    assert site.ask() == site.ask(site.old) == "primary"
    assert site.rotate(*YOUNG) == 0
    assert site.rotate("--check") == 1
    assert site.ask(site.old) == "primary"
    opened = ended_with_its_key(site.receiver, ["-F", str(site.vm / "ssh_config"), "receiver"])
    with opened, asked_all_along(site.answer_or_error) as heard:
        assert site.rotate() == 5
    assert len(heard) > 3
    assert [answer for answer in heard if "Permission denied" in answer] == []
    # One may have been open as the old key was forgotten.
    assert len([answer for answer in heard if answer != "primary"]) <= 1, heard
    assert site.is_rotated()
    assert site.rotate(*YOUNG) == 0
    assert site.rotate(*YOUNG, "--check") == 0


def test_under_another_name_the_old_key_is_forgotten_too(site: Site) -> None:
    """The VM was the primary of `before`, and its service was renamed: the line of that name comes first."""
    line, body = site.keys.read_text().splitlines()[-1], site.old.with_suffix(".pub").read_text().split()[1]
    of_before = line.replace(f"receive {NAME} ", "receive before ").replace(f"vcrecovery:{NAME}", "vcrecovery:before")
    site.keys.write_text(f"{NEIGHBOUR}{of_before}\n{line.replace(f'vcrecovery:{NAME}', 'vcrecovery:before')}\n")
    assert site.rotate() == 5
    assert body not in site.keys.read_text()
    assert site.is_rotated()


def test_a_key_that_is_tied_to_another_service_of_the_plan_stays(site: Site) -> None:
    """The VM was cloned from that one's, by a former version of the role."""
    line = site.keys.read_text().splitlines()[-1]
    shops = line.replace(f"receive {NAME} ", "receive shop ").replace(f"vcrecovery:{NAME}", "vcrecovery:shop")
    site.keys.write_text(f"{NEIGHBOUR}{line.replace(f'vcrecovery:{NAME}', 'vcrecovery:shop')}\n{shops}\n")
    site.rotate()
    assert shops in site.keys.read_text()
    (own,) = (line for line in site.keys.read_text().splitlines() if f"receive {NAME} " in line)
    assert own.endswith((site.vm / "sync_key.pub").read_text().strip())


def make_next(site: Site, comment: str = NAME) -> str:
    words = [
        "ssh-keygen",
        "-q",
        "-t",
        "ed25519",
        "-N",
        "",
        "-C",
        f"vcrecovery:{comment}",
        "-f",
        str(site.vm / "sync_key.new"),
    ]
    subprocess.run(words, check=True, timeout=30)
    return (site.vm / "sync_key.new.pub").read_text()


def cut_off_while_it_is_made(site: Site) -> None:
    make_next(site)
    (site.vm / "sync_key.new.pub").write_text("")


def cut_off_when_it_is_made(site: Site) -> None:
    make_next(site)


def cut_off_when_it_is_known(site: Site) -> None:
    line = site.keys.read_text().splitlines()[-1]
    site.keys.write_text(
        site.keys.read_text() + line.replace(site.old.with_suffix(".pub").read_text().strip(), make_next(site))
    )


def cut_off_before_the_switch(site: Site) -> None:
    cut_off_when_it_is_known(site)
    (site.vm / "sync_key.pub").unlink()


def cut_off_in_the_midst_of_the_switch(site: Site) -> None:
    cut_off_before_the_switch(site)
    shutil.copy(site.vm / "sync_key.new", site.vm / "sync_key")
    shutil.copy(site.vm / "sync_key.new.pub", site.vm / "sync_key.pub.made")


def cut_off_when_it_is_used(site: Site) -> None:
    cut_off_in_the_midst_of_the_switch(site)
    (site.vm / "sync_key.pub.made").rename(site.vm / "sync_key.pub")


def cut_off_as_it_was_done(site: Site) -> None:
    cut_off_when_it_is_used(site)
    site.keys.write_text(NEIGHBOUR + site.keys.read_text().splitlines(keepends=True)[-1])
    (site.vm / "sync_key.new").unlink()


def cut_off_in_the_switch_of_former_versions(site: Site) -> None:
    cut_off_before_the_switch(site)
    (site.vm / "sync_key.new").rename(site.vm / "sync_key")


@pytest.mark.at_length
@pytest.mark.parametrize(
    ("cut_off", "options"),
    [
        (cut_off_while_it_is_made, ()),
        (cut_off_when_it_is_made, YOUNG),
        (cut_off_when_it_is_known, YOUNG),
        (cut_off_before_the_switch, YOUNG),
        (cut_off_in_the_midst_of_the_switch, YOUNG),
        (cut_off_when_it_is_used, YOUNG),
        (cut_off_as_it_was_done, YOUNG),
        (cut_off_in_the_switch_of_former_versions, YOUNG),
    ],
)
def test_the_next_run_finishes_one_that_was_cut_off(site: Site, cut_off, options: tuple[str, ...]) -> None:  # type: ignore[no-untyped-def]
    cut_off(site)
    assert site.ask() == "primary"
    assert site.rotate(*options) > 0
    assert site.is_rotated()
    assert site.rotate(*YOUNG) == 0


def test_a_receiver_that_does_not_know_the_next_key_keeps_the_old_one_in_use(site: Site) -> None:
    site.receiver.stop()
    with pytest.raises(AssertionError, match="Connection refused"):
        site.rotate()
    site.receiver.start()
    assert site.ask() == site.ask(site.old) == "primary"
    assert site.rotate(*YOUNG) > 0
    assert site.is_rotated()
