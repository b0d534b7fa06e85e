"""What the collection promises about itself: documented variables, no stray ones, units that systemd accepts."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from local_play import plays_here
from rendered_units import TEMPLATES, VARIANTS, rendered

from vcrecovery.plan.load import load_plan

CHECKOUT = Path(__file__).resolve().parents[3]
ROLES = sorted(path.name for path in (CHECKOUT / "roles").iterdir())


def test_the_seven_roles() -> None:
    assert ROLES == ["controller", "dns", "hypervisor", "monitoring", "primary", "secondary", "secondary_vm"]


@pytest.mark.parametrize("role", ROLES)
def test_every_variable_of_a_role_is_described(role: str) -> None:
    folder = CHECKOUT / "roles" / role
    defaults = yaml.safe_load((folder / "defaults/main.yml").read_text())
    options = yaml.safe_load((folder / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    assert set(defaults) == set(options)
    computed = {name for name, value in defaults.items() if "{{" in str(value)}
    said = {name: options[name].get("default") for name in defaults if name not in computed}
    assert said == {name: value for name, value in defaults.items() if name not in computed}


@pytest.mark.parametrize("role", ROLES)
def test_secrets_are_in_no_log(role: str) -> None:
    specs = yaml.safe_load((CHECKOUT / "roles" / role / "meta/argument_specs.yml").read_text())
    options = specs["argument_specs"]["main"]["options"]
    secrets = re.compile(r"_(password|token|auth|privacy|community|urls|passphrase|secret)$")
    assert [name for name, one in options.items() if secrets.search(name) and not one.get("no_log")] == []


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
@pytest.mark.parametrize("options", VARIANTS)
def test_systemd_accepts_the_units(template: Path, options: str, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.fail("systemd-analyze is not installed; `make setup` installs it")
    text = rendered(template, options)
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
    variables = yaml.safe_load((CHECKOUT / "controller/lab/inventory/group_vars/all.yml").read_text())
    text = yaml.safe_dump(variables["vcrecovery_plan"])
    for name in ("vcrecovery_state_dir", "vcrecovery_config_dir"):
        text = text.replace(f"{{{{ {name} }}}}", variables[name])
    file = tmp_path / "plan.yml"
    file.write_text(text)
    assert set(load_plan(file).services) == {"web"}


@pytest.mark.parametrize(("every", "calendar"), [("1d", "06:00"), ("1w", "Mon"), ("1mo", "-01 06:00")])
def test_reports_have_a_time_in_the_calendar(every: str, calendar: str) -> None:
    text = jinja2.Template((CHECKOUT / "templates/vcrecovery-report.timer.j2").read_text()).render(
        controller_report_every=every
    )
    (line,) = (line for line in text.splitlines() if line.startswith("OnCalendar="))
    assert calendar in line
    done = subprocess.run(["systemd-analyze", "calendar", line.partition("=")[2]], check=True, capture_output=True)
    assert b"Next elapse" in done.stdout
    assert "Persistent=true" in text


_MAIL = {"to": ["a@example.net"], "from": "b@example.net"}
#: What the plan says of reports: whether they are scheduled, how often, where they lie, and whether by sendmail.
_REPORTS: list[tuple[dict[str, Any], tuple[bool, str, str, bool]]] = [
    ({}, (False, "1w", "/state/reports", False)),
    ({"report": None}, (False, "1w", "/state/reports", False)),
    ({"report": {}}, (True, "1w", "/state/reports", False)),
    ({"report": {"every": "1mo", "directory": "/srv/r"}}, (True, "1mo", "/srv/r", False)),
    ({"report": {"mail": _MAIL}}, (True, "1w", "/state/reports", True)),
    ({"report": {"mail": {**_MAIL, "smtp": {"host": "m.example.net"}}}}, (True, "1w", "/state/reports", False)),
]


def test_the_role_reads_the_report_of_the_plan(tmp_path: Path) -> None:
    own = tmp_path / "ansible_collections/vcrecovery/standby"
    own.mkdir(parents=True)
    for part in ("galaxy.yml", "meta", "plugins"):
        (own / part).symlink_to(CHECKOUT / part)
    names = ("is_scheduled", "every", "dir", "sendmail")
    that = [f"controller_report_{name} == item[1][{n}]" for n, name in enumerate(names)]
    task = {
        "ansible.builtin.assert": {"that": that},
        "loop": [list(entry) for entry in _REPORTS],
        "vars": {"controller_plan": "{{ item[0] }}", "controller_state_dir": "/state", "controller_venv": "/opt/x"},
    }
    variables = yaml.safe_load((CHECKOUT / "roles/controller/vars/main.yml").read_text())
    kept = {name: value for name, value in variables.items() if name.startswith("controller_report_")}
    play = [{"hosts": "localhost", "gather_facts": False, "vars": kept, "tasks": [task]}]
    plays_here(tmp_path, play, ANSIBLE_LOCALHOST_WARNING="false")
