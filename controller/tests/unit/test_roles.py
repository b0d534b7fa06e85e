"""The roles as a reader and an operator meet them: a table of contents, and what is wrong before anything changes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from local_play import plays_here

CHECKOUT = Path(__file__).resolve().parents[3]
ROLES = ("controller", "dns", "hypervisor", "monitoring", "primary", "secondary")
PLAN = {
    "dns": {"servers": {"ns1": {}}, "keys": {}, "zones": {}},
    "hypervisors": {"localhost": {"uri": "qemu+ssh://vcrecovery@192.0.2.31/system"}},
    "secondaries": {"sec1": {}},
    "services": {"web": {}},
    "zabbix": {"api": {"url": "https://zabbix.example.net"}},
}
#: What each role is given, and what it says to that.
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "controller": ({"controller_plan": {}}, "no plan with services is given; set vcrecovery_plan for all hosts"),
    "dns": ({"dns_server": "ns3"}, "dns_server is ns3, but the plan's dns.servers are ns1"),
    "hypervisor": (
        {
            "hypervisor_fencing_keys": ["ssh-ed25519 AAAA"],
            "hypervisor_snmp_agent": "vcrecovery",
            "hypervisor_snmp_auth": "short",
        },
        "set vcrecovery_snmp_auth and vcrecovery_snmp_privacy (in a vault)",
    ),
    "hypervisor, without a key": (
        {},
        "the plan has qemu+ssh://vcrecovery@192.0.2.31/system for localhost, and hypervisor_fencing_keys is empty: run",
    ),
    "monitoring": ({}, "monitoring_engine zabbix needs zabbix.api.url and zabbix.api.token_file in the plan"),
    "primary": ({"primary_service": "wbe"}, "primary_service is wbe, but the plan's services are web"),
    "secondary": ({"secondary_name": "sec3"}, "secondary_name is sec3, but the plan's secondaries are sec1"),
    "secondary_vm": (
        {"secondary_vm_ours": ["sec1"], "secondary_vm_root_keys": []},
        "nobody could log in to sec1: put the public key that Ansible logs in with into secondary_vm_root_keys",
    ),
}


def _tasks(role: str, name: str) -> list[dict[str, Any]]:
    tasks: list[dict[str, Any]] = yaml.safe_load((CHECKOUT / "roles" / role / "tasks" / f"{name}.yml").read_text())
    return tasks


@pytest.mark.parametrize("role", ROLES)
def test_a_role_begins_with_what_can_be_known_beforehand(role: str) -> None:
    first = _tasks(role, "main")[0]
    assert (first["ansible.builtin.import_tasks"], first["tags"]) == ("preflight.yml", ["always"])
    # It looks, and changes nothing.
    looks = {"assert", "command", "slurp", "stat", "uri"}
    parts = [(task.get("ansible.builtin.include_role") or {}).get("tasks_from") for task in _tasks(role, "preflight")]
    assert set(parts) <= {None, "python"}
    for task in [*_tasks("controller", "python"), *_tasks(role, "preflight")]:
        if task.keys() & {"ansible.builtin.include_role", "ansible.builtin.import_tasks"}:
            continue
        (module,) = (key for key in task if key.startswith("ansible.builtin."))
        assert module.removeprefix("ansible.builtin.") in looks
        assert "command" not in module or task["changed_when"] is False


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the preflights of all roles print, each with what is wrong."""
    folder = tmp_path_factory.mktemp("preflights")
    own = folder / "ansible_collections/vcrecovery/standby"
    own.mkdir(parents=True)
    for part in ("galaxy.yml", "meta", "plugins", "roles"):
        (own / part).symlink_to(CHECKOUT / part)
    tasks = [
        {
            "ansible.builtin.include_role": {
                "name": f"vcrecovery.standby.{role.partition(',')[0]}",
                "tasks_from": "preflight",
            },
            "vars": variables,
        }
        for role, (variables, _) in WRONG.items()
    ]
    play = [{"block": [task], "rescue": [{"ansible.builtin.debug": {"msg": "rescued"}}]} for task in tasks]
    text = [{"hosts": "localhost", "gather_facts": False, "vars": {"vcrecovery_plan": PLAN}, "tasks": play}]
    return plays_here(folder, text, ANSIBLE_PYTHON_INTERPRETER="/usr/bin/python3", ANSIBLE_NOCOLOR="1")


@pytest.mark.parametrize("role", WRONG)
def test_what_is_wrong_is_said_with_the_way_out(role: str, said: str) -> None:
    assert WRONG[role][1] in said


ZONES = {
    "servers": {"localhost": {"address": "192.0.2.53"}},
    "keys": {"failover": {"name": "failover.key", "secret_file": "/etc/vcrecovery/tsig/failover.key"}},
    "zones": {"Example.net.": {"servers": ["localhost"], "key": "failover"}},
}
#: Whether BIND serves the plan's zone, the role has made that, and it is included; and whether it is refused.
SERVED = {
    "new host": (False, False, False, False),
    "served": (True, False, False, True),
    "served, and a run was cut off before the include": (True, True, False, True),
    "ours": (True, True, True, False),
    "ours is another one": (True, False, True, True),
}


@pytest.mark.parametrize("check", ["0", "1"], ids=["played", "rehearsed"])
def test_a_zone_that_the_name_server_serves_already_is_not_made_anew(tmp_path: Path, check: str) -> None:
    """BIND does not start with two zones of one name, and then serves none of its zones."""
    own = tmp_path / "ansible_collections/vcrecovery/standby"
    own.mkdir(parents=True)
    for part in ("galaxy.yml", "meta", "plugins", "roles"):
        (own / part).symlink_to(CHECKOUT / part)
    (tmp_path / "bin").mkdir()
    stub = tmp_path / "bin/named-checkconf"
    stub.write_text("#!/bin/sh\necho '. IN _default hint'\necho ${SERVED?} IN _default primary\n")
    stub.chmod(0o755)
    play: list[dict[str, Any]] = []
    for case, (served, made, included, _) in SERVED.items():
        folder = tmp_path / case.replace(" ", "-").replace(",", "")
        folder.mkdir()
        name = "Example.net." if made else "other.net"
        (folder / "zones.conf").write_text(f'# made\n\nzone "{name}" {{\n  type primary;\n}};\n')
        line = f'include "{folder}/zones.conf";'
        (folder / "named.conf.local").write_text(line if included else f"// {line}\n")
        role = {"name": "vcrecovery.standby.dns", "tasks_from": "preflight"}
        where = {"dns_config_dir": str(folder), "dns_include_in": f"{folder}/named.conf.local"}
        if case == "new host":
            where = {"dns_config_dir": f"{folder}/none", "dns_include_in": f"{folder}/none/local"}
        play.append(
            {
                "block": [
                    {"ansible.builtin.include_role": role, "vars": where},
                    {"ansible.builtin.debug": {"msg": f"{case}: taken"}},
                ],
                "rescue": [{"ansible.builtin.debug": {"msg": f"{case}: refused, {{{{ ansible_failed_result.msg }}}}"}}],
                "environment": {"SERVED": "EXAMPLE.net"} if served else {},
            }
        )
    variables = {"vcrecovery_plan": {**PLAN, "dns": ZONES}}
    text = [{"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": play, "check_mode": check == "1"}]
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    said = plays_here(tmp_path, text, PATH=path, ANSIBLE_PYTHON_INTERPRETER="/usr/bin/python3", ANSIBLE_NOCOLOR="1")
    for case, (*_, refused) in SERVED.items():
        wanted = f"{case}: refused, localhost serves example.net already" if refused else f"{case}: taken"
        assert wanted in said


#: What it reads is its unit, which the module looks at anyway.
READS_NOTHING = {"vcrecovery-libvirt-snmp"}


@pytest.mark.parametrize("role", ROLES)
def test_a_daemon_that_a_cut_off_run_did_not_restart_is_restarted_by_the_next(role: str) -> None:
    module = "vcrecovery.standby.daemon"
    handlers = yaml.safe_load((CHECKOUT / "roles" / role / "handlers/main.yml").read_text())
    notified = {handler[module]["name"] for handler in handlers} - READS_NOTHING
    blind = set(notified)
    for file in (CHECKOUT / "roles" / role / "tasks").glob("*.yml"):
        for task in yaml.safe_load(file.read_text()) or []:
            for part in (task, *task.get("block", [])):
                options = part.get(module, {})
                if options.get("name") in notified and "reads" in options:
                    blind.discard(options["name"])
    assert blind == set()


@pytest.mark.parametrize("check", [False, True], ids=["played", "rehearsed"])
def test_a_folder_that_is_there_keeps_its_mode(tmp_path: Path, check: bool) -> None:
    """`secret_file: /etc/failover.key` kept /etc for root alone, `directory: /var/www/html` kept it from the web."""
    made = [
        *(task for task in _tasks("dns", "secret") if task["name"].startswith("Make the folder")),
        *(task for task in _tasks("controller", "report_timer") if task["name"].startswith("Make the folder")),
    ]
    there = tmp_path / "there"
    there.mkdir()
    there.chmod(0o755)
    variables = {"controller_report_is_scheduled": True, "dns_controllers": ["localhost"]}
    play: list[dict[str, Any]] = []
    for folder in (there, tmp_path / "new/secrets", tmp_path / "new/reports"):
        where = {"dns_key": {"secret_file": f"{folder}/key"}, "controller_report_dir": str(folder)}
        play += [{**task, "vars": where} for task in made if folder == there or folder.name in task["name"]]
    text = [{"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": play, "check_mode": check}]
    assert "changed=2 " in plays_here(
        tmp_path, text, ANSIBLE_PYTHON_INTERPRETER="/usr/bin/python3", ANSIBLE_NOCOLOR="1"
    )
    assert there.stat().st_mode & 0o777 == 0o755
    modes = [path.stat().st_mode & 0o777 for path in sorted(tmp_path.glob("new/*"))]
    assert modes == ([] if check else [0o750, 0o700])


def test_a_relay_can_be_rehearsed_on_a_host_that_has_none(tmp_path: Path) -> None:
    """It has no account then that its secrets, and what is left of an earlier one, could be given to."""
    own = tmp_path / "ansible_collections/vcrecovery/standby"
    own.mkdir(parents=True)
    for part in ("galaxy.yml", "meta", "plugins", "roles", "templates", "controller"):
        (own / part).symlink_to(CHECKOUT / part)
    for folder in ("bin", "etc", "state/relay"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "etc/plan.yml").touch()
    (tmp_path / "bin/systemctl").write_text("#!/bin/sh\n")
    (tmp_path / "bin/systemctl").chmod(0o755)
    secret = tmp_path / "auth"
    secret.write_text("a passphrase\n")
    secret.chmod(0o600)
    users = {"snmp": {"auth_file": str(secret), "privacy_file": str(secret)}}
    variables = {
        "vcrecovery_plan": {**PLAN, "state_dir": f"{tmp_path}/state", "snmp": {"users": users}},
        "controller_venv": f"{tmp_path}/venv",
        "controller_has_the_program": True,
        "monitoring_relay_config_dir": f"{tmp_path}/etc",
        "monitoring_relay_user": "vcrecovery-nobody-has-it",
        "monitoring_supervisor": "systemd",
    }
    role = {"ansible.builtin.include_role": {"name": "vcrecovery.standby.monitoring", "tasks_from": "relay"}}
    play = [{"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": [role]}]
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    here = {"PATH": path, "ANSIBLE_PYTHON_INTERPRETER": "/usr/bin/python3", "ANSIBLE_NOCOLOR": "1"}
    said = plays_here(tmp_path, play, "--check", **here)
    assert f"changed: [localhost] => (item={secret})" in said
    assert secret.stat().st_mode & 0o777 == 0o600


def test_a_hypervisor_that_is_to_tell_nobody_any_more_does_not(tmp_path: Path) -> None:
    """It went on sending, and its secrets stayed, once the destinations were taken out of the inventory."""
    own = tmp_path / "ansible_collections/vcrecovery/standby"
    own.mkdir(parents=True)
    for part in ("galaxy.yml", "meta", "plugins", "roles"):
        (own / part).symlink_to(CHECKOUT / part)
    (tmp_path / "etc/snmp").mkdir(parents=True)
    for name in ("snmp/auth", "snmp/privacy", "snmp/user.sha256", "snmp-agent.yml"):
        (tmp_path / "etc" / name).touch()
    where = {"run_dir": f"{tmp_path}/run/daemons", "log_dir": f"{tmp_path}/log"}
    notifier = {"name": "vcrecovery-snmp-agent", "argv": ["/bin/sleep", "600"], "supervisor": "process", **where}
    variables = {
        "vcrecovery_plan": PLAN,
        "vcrecovery_config_dir": f"{tmp_path}/etc",
        "vcrecovery_run_dir": f"{tmp_path}/run",
        "vcrecovery_log_dir": f"{tmp_path}/log",
        "hypervisor_supervisor": "process",
    }
    stop = {"ansible.builtin.include_role": {"name": "vcrecovery.standby.hypervisor", "tasks_from": "snmp_stop"}}
    tasks = [{"vcrecovery.standby.daemon": notifier}, stop, stop]
    play = [{"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": tasks}]
    said = plays_here(tmp_path, play, ANSIBLE_PYTHON_INTERPRETER="/usr/bin/python3", ANSIBLE_NOCOLOR="1")
    # It is started, stopped, and its secrets are removed.
    assert "changed=3 " in said
    assert list((tmp_path / "run/daemons").iterdir()) == []
    assert [path.name for path in (tmp_path / "etc").rglob("*") if path.is_file()] == ["user.sha256"]


def test_what_the_role_primary_lays_out_is_on_the_disk_when_it_ends() -> None:
    """A VM that crashed within the next half minute booted without it, and asked nobody who serves."""
    folder = CHECKOUT / "roles/primary/tasks"
    parts = yaml.safe_load((folder / "main.yml").read_text())
    tasks = yaml.safe_load((folder / parts[-1]["ansible.builtin.import_tasks"]).read_text())
    assert tasks[-1]["ansible.builtin.command"] == {"argv": ["sync"]}


@pytest.mark.parametrize("main", sorted(CHECKOUT.glob("roles/*/tasks/main.yml")), ids=lambda main: main.parents[1].name)
def test_the_first_file_of_a_role_is_a_table_of_contents(main: Path) -> None:
    """Each part can be played by its tag; what nobody can leave out is tagged so."""
    for task in yaml.safe_load(main.read_text()):
        if "ansible.builtin.set_fact" in task:
            continue
        assert any(key.endswith((".import_tasks", ".include_tasks")) for key in task), task["name"]
        assert task["tags"], task["name"]
        if isinstance(included := task.get("ansible.builtin.include_tasks"), dict):
            assert included["apply"]["tags"] == task["tags"], task["name"]


@pytest.mark.parametrize("folder", ["playbooks", "roles"])
def test_no_key_is_merged_and_given_again(folder: str) -> None:
    """Ansible 2.19 warns of each such key at every run."""
    merging = [path.name for path in (CHECKOUT / folder).rglob("*.yml") if "<<:" in path.read_text()]
    assert not merging
