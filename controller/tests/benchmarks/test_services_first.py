"""The boot of the benchmark's standby VMs, as a shell makes it from the command that they are given."""

from __future__ import annotations

import subprocess
from pathlib import Path

from recovery_bench import services_first


def test_a_vm_boots_its_service_first_and_then_the_rest(tmp_path: Path) -> None:
    units = tmp_path / "etc/systemd/system"
    units.mkdir(parents=True)
    program = tmp_path / "systemctl"
    program.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/called\n')
    program.chmod(0o755)
    command = services_first.command("nginx.service").replace("/etc/systemd/system", str(units))
    subprocess.run(["sh", "-c", command], check=True, timeout=30, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    verb, target = (tmp_path / "called").read_text().split()
    assert verb == "set-default"
    first = (units / target).read_text()
    assert {"nginx.service", "networking.service", "vcrecovery-rest.service"} <= set(first.split())
    rest = (units / "vcrecovery-rest.service").read_text()
    assert "After=nginx.service\n" in rest
    # The default target is the first one now: to start it again would start nothing.
    assert "systemctl start --no-block multi-user.target\n" in rest
    assert "default.target" not in rest
    assert "default.target" not in (units / "vcrecovery-rest-now.service").read_text()
