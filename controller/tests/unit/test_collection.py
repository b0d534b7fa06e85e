"""What the collection promises about itself: documented variables, no stray ones, units that systemd accepts."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

from vcrecovery.plan.load import load_plan

CHECKOUT = Path(__file__).resolve().parents[3]
ROLES = sorted(path.name for path in (CHECKOUT / "roles").iterdir())


def test_the_six_roles() -> None:
    assert ROLES == ["controller", "dns", "hypervisor", "monitoring", "primary", "secondary"]


@pytest.mark.parametrize("role", ROLES)
def test_every_variable_of_a_role_is_described(role: str) -> None:
    folder = CHECKOUT / "roles" / role
    defaults = yaml.safe_load((folder / "defaults/main.yml").read_text())
    options = yaml.safe_load((folder / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    assert set(defaults) == set(options)


@pytest.mark.parametrize(
    "template", sorted((CHECKOUT / "templates").glob("vcrecovery-*.j2")), ids=lambda path: path.name
)
@pytest.mark.parametrize(
    "optional",
    [
        {"service": {}, "consistency": "files"},
        {"service": {"virtual_ip": {"address": "192.0.2.50/24", "interface": "eth0"}}, "consistency": "snapshot"},
    ],
    ids=["least", "most"],
)
def test_systemd_accepts_the_units(template: Path, optional: dict[str, Any], tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.fail("systemd-analyze is not installed; `make setup` installs it")
    variables = {
        "ansible_managed": "Ansible managed",
        "controller_watch_argv": ["/bin/true", "watch"],
        "controller_drill_argv": ["/bin/true", "drill"],
        "controller_state_dir": "/var/lib/vcrecovery",
        "controller_plan": {"services": {"web": optional["service"]}},
        "hypervisor_libvirt_snmp_argv": ["/bin/true", "-f"],
        "hypervisor_snmp_notify_argv": ["/bin/true", "snmp-agent"],
        "hypervisor_snmp_uri": "qemu:///system",
        "monitoring_relay_argv": ["/bin/true", "relay"],
        "monitoring_relay_user": "daemon",
        "monitoring_relay_state_dir": "/var/lib/vcrecovery/relay",
        "secondary_receiver_argv": ["/bin/true", "-D"],
        "dns_daemon": {"argv": ["/bin/true", "-f"]},
        "dns_zone_dir": "/var/lib/bind",
        "primary_config_dir": "/etc/vcrecovery",
        "primary_heartbeat": "10s",
        "primary_program_dir": "/usr/local/lib/vcrecovery",
        "primary_python": "/usr/bin/python3",
        "primary_last_files_timeout": 240,
        "primary_asks_for": 15,
        "primary_run_dir": "/run/vcrecovery",
        "primary_sync_memory": "512M",
        "primary_reconcile": "1800s",
        "primary_consistency": {"kind": optional["consistency"]},
    }
    text = jinja2.Template(template.read_text(), undefined=jinja2.StrictUndefined).render(variables)
    unit = tmp_path / template.name.removesuffix(".j2")
    unit.write_text(text.replace("/usr/bin/lsyncd", "/bin/true"))
    if unit.suffix in (".path", ".timer"):
        unit.with_suffix(".service").write_text("[Service]\nType=oneshot\nExecStart=/bin/true\n")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    complaints = [line for line in done.stderr.splitlines() if unit.name in line]
    assert done.returncode == 0, done.stderr
    assert complaints == []


def test_the_inventory_holds_a_good_plan(tmp_path: Path) -> None:
    variables = yaml.safe_load((CHECKOUT / "inventory/group_vars/all.yml").read_text())
    text = yaml.safe_dump(variables["vcrecovery_plan"])
    for name in ("vcrecovery_state_dir", "vcrecovery_config_dir"):
        text = text.replace(f"{{{{ {name} }}}}", variables[name])
    file = tmp_path / "plan.yml"
    file.write_text(text)
    assert set(load_plan(file).services) == {"web"}
