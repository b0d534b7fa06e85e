"""A provisioner's command whose machines are files: `python command_cloud.py FOLDER create|describe|destroy`."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    folder, verb = Path(sys.argv[1]), sys.argv[2]
    order = json.load(sys.stdin)
    if (folder / "broken").exists():
        sys.exit("no quota")
    machine = folder / order["lease"]
    sys.stdout.write(f"asking the cloud to {verb} ...\n")
    if verb == "create" and not machine.exists():
        assert order["user_data"].startswith("#cloud-config\n")
        machine.write_text(order["name"])
    elif verb == "destroy":
        machine.unlink(missing_ok=True)
    found = [{"id": f"file-{machine.name}", "address": "192.0.2.9"}] if machine.exists() else []
    sys.stdout.write(json.dumps({"machines": found}) + "\n")


if __name__ == "__main__":
    main()
