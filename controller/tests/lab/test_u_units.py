"""What the units' sandboxes let through, tried with the parts of them that need no systemd."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import jinja2
import pytest

pytestmark = pytest.mark.lab

TEMPLATES = Path(__file__).resolve().parents[3] / "templates"


def setting(unit: str, name: str, **variables: object) -> list[str]:
    """All words of a setting that adds up."""
    text = jinja2.Template((TEMPLATES / f"{unit}.j2").read_text()).render(variables)
    return [word for words in re.findall(rf"(?m)^{name}=(.*)$", text) for word in words.split()]


def test_libvirt_reaches_another_host_with_the_watchers_capabilities(tmp_path: Path) -> None:
    """libvirt starts the ssh of `qemu+ssh` by itself, and gives up before when it may not take capabilities from it."""
    started = tmp_path / "started"
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\ntouch {started}\nexit 1\n")
    ssh.chmod(0o755)
    kept = setting("vcrecovery-watch.service", "CapabilityBoundingSet", controller_plan={}, controller_watch_argv=[])
    assert kept
    bounds = ",".join(["-all", *(f"+{name.lower().removeprefix('cap_')}" for name in kept)])
    call = f"import libvirt; libvirt.openReadOnly('qemu+ssh://nowhere.test/system?command={ssh}&no_tty=1')"
    done = subprocess.run(
        ["setpriv", "--no-new-privs", "--inh-caps=-all", f"--bounding-set={bounds}", sys.executable, "-c", call],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "libvirt.libvirtError" in done.stderr
    assert started.exists(), done.stderr
