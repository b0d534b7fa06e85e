"""How far each unit is confined: `systemd-analyze security` gives it at most what docs/security.md says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from rendered_units import TEMPLATES, VARIANTS, rendered

SECURITY = Path(__file__).resolve().parents[3] / "docs/security.md"
SERVICES = [path for path in TEMPLATES if path.name.endswith(".service.j2")]
#: Beyond this a unit needs a reason.
ENOUGH = 3.0
_ROW = re.compile(r"(?m)^\| `(vcrecovery-[\w@-]+)`([^|]*) \| ([\d.]+) \| ([^|]*)\|$")


def table() -> dict[tuple[str, str], tuple[float, str]]:
    """By unit and variant: the ceiling, and why it is not lower. A row that is of no variant is of both."""
    found = {}
    for unit, words, ceiling, reason in _ROW.findall(SECURITY.read_text()):
        for variant in VARIANTS:
            if not words or variant == "most":
                found[unit, variant] = (float(ceiling), reason.strip())
    return found


def exposure(unit: Path) -> float:
    if shutil.which("systemd-analyze") is None:
        pytest.fail("systemd-analyze is not installed; `make setup` installs it")
    words = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    said = re.search(r"Overall exposure level for .*: ([\d.]+) ", done.stdout)
    assert said, done.stderr
    return float(said[1])


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("template", SERVICES, ids=lambda path: path.name.partition(".")[0])
def test_no_unit_is_exposed_beyond_what_the_docs_say(template: Path, variant: str, tmp_path: Path) -> None:
    name = template.name.removesuffix(".service.j2")
    unit = tmp_path / template.name.removesuffix(".j2")
    unit.write_text(rendered(template, variant))
    ceiling, _ = table()[name, variant]
    assert exposure(unit) <= ceiling


def test_what_is_exposed_beyond_the_rest_says_why() -> None:
    assert {name for name, _ in table()} == {path.name.removesuffix(".service.j2") for path in SERVICES}
    assert [key for key, (ceiling, reason) in table().items() if ceiling > ENOUGH and not reason] == []
