"""The role `primary`: the key of a sync. A rehearsal makes none, and a second run changes nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from vcrecovery_lab.layout import CHECKOUT

from .role_plays import plays

pytestmark = pytest.mark.lab


def test_a_rehearsal_makes_no_key_and_a_run_makes_one(tmp_path: Path) -> None:
    here, there = tmp_path / "primary", tmp_path / "secondary"
    facts = {
        "primary_service": "web",
        "primary_config_dir": str(here),
        "primary_places": [{"name": "sec1", "host": "localhost", "alias": "vcrecovery-receiver"}],
        "primary_secondary_config_dir": str(there),
        "primary_secondary_venv": "/opt/vcrecovery",
        "primary_secondary_state_dir": "/var/lib/vcrecovery",
        "primary_plan": {"services": {"web": {"primary": {"address": "192.0.2.10"}}}},
    }
    tasks = [{"ansible.builtin.include_tasks": str(CHECKOUT / "roles/primary/tasks/keys.yml")}]
    file = tmp_path / "play.yml"
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": facts, "tasks": tasks}
    file.write_text(json.dumps([play]))
    changed = plays(file, "localhost,")
    assert changed("--check") == 0
    assert not here.exists()
    (there / "receiver").mkdir(parents=True)
    keys = there / "receiver/authorized_keys"
    keys.touch()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", there / "receiver/host_key"], check=True)
    assert changed("--check") == 0
    assert keys.read_text() == ""
    assert changed() == 2
    assert (here / "sync_key").stat().st_mode & 0o777 == 0o600
    assert keys.read_text().startswith('restrict,from="192.0.2.10",command="/opt/vcrecovery/bin/vcrecovery receive web')
    assert changed() == 0
    assert changed("--check") == 0


class Keys:
    """A receiver's list of keys, and VMs for which the role is played."""

    def __init__(self, folder: Path) -> None:
        self._folder, there = folder, folder / "secondary/receiver"
        there.mkdir(parents=True)
        self.list = there / "authorized_keys"
        self.list.write_text("# by hand\n" + line_of("other-web", "AAAANeighbour"))
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", there / "host_key"], check=True)

    def play(self, vm: str, service: str, *planned: str, check: bool = False) -> int:
        """For the VM in that folder; the plan has these services too. How many tasks have changed something."""
        facts = {
            "primary_service": service,
            "primary_config_dir": str(self._folder / vm),
            "primary_places": [{"name": "sec1", "host": "localhost", "alias": "vcrecovery-receiver"}],
            "primary_secondary_config_dir": str(self._folder / "secondary"),
            "primary_secondary_venv": "/opt/vcrecovery",
            "primary_secondary_state_dir": "/var/lib/vcrecovery",
            "primary_plan": {
                "services": {name: {"primary": {"address": "192.0.2.10"}} for name in ("other-web", service, *planned)}
            },
        }
        tasks = [{"ansible.builtin.include_tasks": str(CHECKOUT / "roles/primary/tasks/keys.yml")}]
        file = self._folder / "play.yml"
        play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": facts, "tasks": tasks}
        file.write_text(json.dumps([play]))
        return plays(file, "localhost,")(*(["--check"] if check else []))

    def body(self, vm: str) -> str:
        """Of its key, of which both halves belong together."""
        public = subprocess.run(
            ["ssh-keygen", "-y", "-f", self._folder / vm / "sync_key"], check=True, capture_output=True, text=True
        ).stdout.split()[1]
        assert (self._folder / vm / "sync_key.pub").read_text().split()[1] == public
        return public

    def clone(self, vm: str, of: str) -> None:
        shutil.copytree(self._folder / of, self._folder / vm)

    def comment(self, vm: str, comment: str) -> None:
        public = self._folder / vm / "sync_key.pub"
        public.write_text(" ".join([*public.read_text().split()[:2], comment]) + "\n")

    def knows(self, *lines: str) -> None:
        """Beside what was there before."""
        assert self.list.read_text() == "# by hand\n" + line_of("other-web", "AAAANeighbour") + "".join(lines)
        assert self.list.stat().st_mode & 0o777 == 0o600
        assert [file.name for file in self.list.parent.glob("authorized_keys*")] == ["authorized_keys"]


def line_of(service: str, body: str, comment: str = "") -> str:
    """`comment`: the name at its end, where a former version has left another one there."""
    return (
        f'restrict,from="192.0.2.10",command="/opt/vcrecovery/bin/vcrecovery receive {service} --state-dir'
        f' /var/lib/vcrecovery" ssh-ed25519 {body} vcrecovery:{comment or service}\n'
    )


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path)


def test_a_renamed_service_keeps_its_key_under_its_new_name_alone(keys: Keys) -> None:
    """sshd goes by the first line with a key: that of the former name would be in force on."""
    keys.play("vm", "web")
    body = keys.body("vm")
    keys.knows(line_of("web", body))
    assert keys.play("vm", "www", check=True) == 2
    keys.knows(line_of("web", body))
    assert keys.play("vm", "www") == 2
    assert keys.body("vm") == body
    keys.knows(line_of("www", body))
    assert keys.play("vm", "www", check=True) == keys.play("vm", "www") == 0
    # What a former version has made of a renaming.
    keys.comment("vm", "vcrecovery:web")
    keys.list.write_text(
        "# by hand\n" + line_of("other-web", "AAAANeighbour") + line_of("web", body) + line_of("www", body, "web")
    )
    keys.play("vm", "www")
    keys.knows(line_of("www", body))


def test_another_key_takes_the_place_of_a_services_former_one(keys: Keys) -> None:
    keys.play("vm", "web")
    keys.play("vm made anew", "web")
    keys.knows(line_of("web", keys.body("vm made anew")))


def test_a_cloned_vm_gets_a_key_of_its_own(keys: Keys) -> None:
    keys.play("shop", "shop")
    body = keys.body("shop")
    keys.clone("web", of="shop")
    # Its rotation was under way.
    for name in ("sync_key.new", "sync_key.new.pub"):
        (keys.list.parents[2] / "web" / name).write_text("of shop's rotation\n")
    assert keys.play("web", "web", "shop", check=True) == 1
    keys.knows(line_of("shop", body))
    assert keys.play("web", "web", "shop") == 2
    assert sorted(file.name for file in (keys.list.parents[2] / "web").iterdir()) == ["sync_key", "sync_key.pub"]
    own = keys.body("web")
    assert own != body
    keys.knows(line_of("shop", body), line_of("web", own))
    assert keys.play("shop", "shop", "web") == keys.play("web", "web", "shop") == 0


def test_what_a_former_version_has_made_of_a_clone_is_put_right(keys: Keys) -> None:
    keys.play("shop", "shop")
    body = keys.body("shop")
    keys.clone("web", of="shop")
    keys.list.write_text("# by hand\n" + line_of("other-web", "AAAANeighbour") + line_of("web", body, "shop"))
    keys.play("shop", "shop", "web")
    keys.knows(line_of("shop", body))
    keys.play("web", "web", "shop")
    keys.knows(line_of("shop", body), line_of("web", keys.body("web")))


def test_a_key_that_another_service_goes_on_with_is_refused(keys: Keys) -> None:
    keys.play("shop", "shop")
    body = keys.body("shop")
    keys.clone("web", of="shop")
    # So that the VM itself cannot tell whose it is.
    keys.comment("web", "root@shop")
    for check in (True, False):
        with pytest.raises(
            AssertionError, match="the key of the VM of web is that of shop, which goes on with it: remove"
        ):
            keys.play("web", "web", "shop", check=check)
        keys.knows(line_of("shop", body))


def test_a_new_service_of_a_former_name_takes_nothing_from_the_renamed_one(keys: Keys) -> None:
    keys.play("vm", "www")
    body = keys.body("vm")
    # As a former version has left it.
    keys.list.write_text("# by hand\n" + line_of("other-web", "AAAANeighbour") + line_of("www", body, "web"))
    keys.play("new", "web", "www")
    keys.knows(line_of("www", body, "web"), line_of("web", keys.body("new")))


PLAN = {
    "services": {
        "web": {
            "primary": {"address": "192.0.2.10"},
            "standby": {"secondary": "sec1", "address": "10.20.0.10"},
        }
    },
    "secondaries": {
        "sec1": {"receiver": {"address": "192.0.2.1", "port": 8022}},
        "sec2": {"receiver": {"address": "192.0.2.2", "port": 8022}},
    },
}
SPARE = {"secondary": "sec2", "address": "10.21.0.10"}
#: Of the role, written where the test reads it.
WRITTEN = {"ssh_config": "ssh_config.j2", "known_hosts": "known_hosts.j2"}


@pytest.mark.parametrize("spare", [None, SPARE])
def test_a_vm_knows_the_secondary_of_its_spare(tmp_path: Path, spare: dict[str, str] | None) -> None:
    role, there = CHECKOUT / "roles/primary", tmp_path / "etc"
    (there / "receiver").mkdir(parents=True)
    (there / "receiver/authorized_keys").touch()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", there / "receiver/host_key"], check=True)
    plan = json.loads(json.dumps(PLAN))
    if spare is not None:
        plan["services"]["web"]["standby"]["spare"] = spare
    facts = {
        "primary_service": "web",
        "primary_config_dir": str(tmp_path / "vm"),
        "primary_secondary_host": "localhost",
        "primary_spare_host": "localhost",
        "primary_secondary_config_dir": str(there),
        "primary_secondary_venv": "/opt/vcrecovery",
        "primary_secondary_state_dir": "/var/lib/vcrecovery",
        "primary_plan": plan,
    }
    tasks = [
        {"ansible.builtin.include_vars": str(role / "vars/main.yml")},
        {"ansible.builtin.include_tasks": str(role / "tasks/keys.yml")},
        *(
            {"ansible.builtin.template": {"src": str(role / "templates" / source), "dest": str(tmp_path / name)}}
            for name, source in WRITTEN.items()
        ),
        {
            "ansible.builtin.copy": {
                "content": "{{ primary_receivers | map(attribute='name') | list | to_json }}",
                "dest": str(tmp_path / "receivers"),
            }
        },
    ]
    file = tmp_path / "play.yml"
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": facts, "tasks": tasks}
    file.write_text(json.dumps([play]))
    plays(file, "localhost,")()
    key = " ".join((there / "receiver/host_key.pub").read_text().split()[:2])
    aliases = ["vcrecovery-receiver", *(["vcrecovery-receiver-sec2"] if spare else [])]
    assert (tmp_path / "known_hosts").read_text() == "".join(f"{alias} {key}\n" for alias in aliases)
    assert json.loads((tmp_path / "receivers").read_text()) == (["sec1", "sec2"] if spare else [])
    assert len((there / "receiver/authorized_keys").read_text().splitlines()) == 1
    led = {
        host: subprocess.run(
            ["ssh", "-G", "-F", tmp_path / "ssh_config", host], check=True, capture_output=True, text=True
        ).stdout.splitlines()
        for host in ("receiver", "receiver-sec2")
    }
    assert {"hostname 192.0.2.1", "port 8022", "hostkeyalias vcrecovery-receiver"} <= set(led["receiver"])
    if spare:
        there_too = {"hostname 192.0.2.2", "hostkeyalias vcrecovery-receiver-sec2", "stricthostkeychecking true"}
        assert there_too <= set(led["receiver-sec2"])
