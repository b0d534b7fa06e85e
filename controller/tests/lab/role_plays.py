"""Plays of a role's tasks, against a LXD of the test's own where it needs one."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.private_lxd import PrivateLxd
from vcrecovery_lab.run import run

from .waiting import wait_for


def plays(file: Path, inventory: str, lxd: PrivateLxd | None = None) -> Callable[..., int]:
    """A function that plays `file`, and returns how many tasks have changed something. Words go to ansible-playbook."""
    environment = {"ANSIBLE_NOCOLOR": "1", "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg")}
    if lxd is not None:
        environment |= lxd.clients_environment()

    def changed(*more: str) -> int:
        words = [str(CHECKOUT / ".venv/bin/ansible-playbook"), str(file), "-i", inventory, *more]
        done = run(words, timeout=200, env=environment, check=False)
        found = re.findall(r"changed=(\d+) .*failed=0", done.stdout)
        assert found, (done.stdout, done.stderr)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return sum(int(count) for count in found)

    return changed


def cut_off_after(changes: int) -> dict[str, str]:
    """The environment of an ansible-playbook that is killed after so many changes, one host after the other."""
    callbacks = str(CHECKOUT / "controller/tests/lab/callbacks")
    words = {"CALLBACK_PLUGINS": callbacks, "CALLBACKS_ENABLED": "cut_off", "FORKS": "1"}
    return {"CUT_OFF_AFTER": str(changes), **{f"ANSIBLE_{name}": value for name, value in words.items()}}


def lxd_from(lxd: PrivateLxd) -> str:
    """For the role's variable of that name."""
    return "incus" if lxd.software.product == "Incus" else "package"


def over_https(port: int, folder: Path, lxd: PrivateLxd) -> dict[str, Any]:
    """Variables of the role `secondary` for the host sec2, which a controller reaches at that port.

    Its configuration is below folder/etc, the controller's certificates below folder/controller.
    """
    files = {name: str(folder / f"controller/{name}") for name in ("certificate", "key", "server_certificate")}
    here = {
        "lxd": {"url": f"https://127.0.0.1:{port}", **files},
        "network": {"bridge": lxd.network, "address": "10.211.24.1/24"},
        "receiver": {"address": "127.0.0.1"},
    }
    return {
        "secondary_plan": {"services": {}, "secondaries": {"sec2": here}},
        "secondary_name": "sec2",
        "secondary_lxd_from": lxd_from(lxd),
        "secondary_lxd_dir": str(lxd.folder),
        "secondary_config_dir": str(folder / "etc"),
        "secondary_certificate_days": 3650,
        "secondary_https_address": "{{ secondary_url_listen }}",
    }


def end_daemons(run_dir: Path) -> None:
    """What the module `daemon` has started by hand."""
    for record in run_dir.glob("*.json"):
        pid = json.loads(record.read_text())["pid"]
        os.kill(pid, signal.SIGTERM)
        wait_for(partial(_has_ended, pid), f"the end of {record.stem}")


def _has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
