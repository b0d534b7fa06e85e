"""The playbook that rotates keys, on the lab: the VM goes on sending, with another key."""

from __future__ import annotations

import json
import re

import pytest

from vcrecovery_lab.lab import playbook

from .conftest import Lab
from .waiting import wait_for

pytestmark = pytest.mark.lab

PLAYBOOK = "playbooks/keys_rotate.yml"
#: Writes the time into a file, ten times a second.
WRITER = "systemd-run --quiet --collect --unit ticks sh -c 'while :; do date +%s >/srv/ticks; sleep 0.1; done'"


def test_a_sync_goes_on_while_its_key_is_rotated(lab: Lab) -> None:
    ticks, began = lab.rootfs / "srv/ticks", lab.primary("cat /etc/vcrecovery/sync_key.pub")

    def arrived() -> int:
        return int(ticks.read_text() or 0) if ticks.exists() else 0

    lab.primary(WRITER)
    try:
        wait_for(lambda: arrived() > 0, "the first tick")
        playbook(lab.layout, PLAYBOOK, "rotate")
        assert lab.primary("cat /etc/vcrecovery/sync_key.pub") != began
        now = int(lab.primary("date +%s"))
        wait_for(lambda: arrived() > now, "a later tick")
        young = playbook(lab.layout, PLAYBOOK, "rotate again", "-e", "vcrecovery_keys_older_than=1h")
        assert set(re.findall(r"changed=(\d+)", young)) == {"0"}, young
    finally:
        lab.primary("systemctl stop ticks; rm -f /srv/ticks")

    def is_well() -> bool:
        (service,) = json.loads(lab.vcrecovery("status", "--json").stdout)["services"]
        return bool(service["verdict"] == "healthy")

    wait_for(is_well, "a healthy service")
