"""A provisioner's command whose machines are files: `python command_cloud.py FOLDER create|describe|destroy`.

What FOLDER/fault says happens to it: `broken`, `hang`, or the number of the step of `create` before which it is killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any


def create(order: dict[str, Any], machines: Path, killed_before: int) -> None:
    assert order["user_data"].startswith("#cloud-config\n")
    steps = [machines / f"{order['lease']}.disk", machines / order["lease"]]
    for number, file in enumerate([*steps, None]):
        if number == killed_before:
            os.kill(os.getpid(), signal.SIGKILL)
        if file is not None and not file.exists():
            file.write_text(order["name"])


def main() -> None:
    folder, verb = Path(sys.argv[1]), sys.argv[2]
    order, fault = json.load(sys.stdin), folder / "fault"
    said = fault.read_text() if fault.exists() else ""
    if said == "broken":
        sys.exit("no quota")
    if said == "hang":
        time.sleep(600)
    machines = folder / "machines"
    machines.mkdir(exist_ok=True)
    machine = machines / order["lease"]
    sys.stdout.write(f"asking the cloud to {verb} ...\n")
    if verb == "create":
        create(order, machines, int(said or -1))
    elif verb == "destroy":
        machine.unlink(missing_ok=True)
        machine.with_suffix(".disk").unlink(missing_ok=True)
    found = [{"id": f"file-{machine.name}", "address": "192.0.2.9"}] if machine.exists() else []
    sys.stdout.write(json.dumps({"machines": found}) + "\n")


if __name__ == "__main__":
    main()
