"""A primary with Debian 13: another systemd, another Python, another rsync. The main job is the same."""

from __future__ import annotations

import os
import signal
import time

import pytest

from vcrecovery_lab.client import fetch
from vcrecovery_lab.lab import down, up
from vcrecovery_lab.layout import read_layout
from vcrecovery_lab.machine import qemu_pid
from vcrecovery_lab.recipe import Recipe

from .conftest import Lab
from .test_a_1_switchover import is_well
from .waiting import wait_for

pytestmark = [pytest.mark.lab, pytest.mark.at_length, pytest.mark.timeout(1800)]


def test_the_page_of_a_crashed_vm_comes_from_its_standby() -> None:
    layout = read_layout()
    down(layout)
    try:
        lab = Lab(layout, up(layout, Recipe(suite="trixie")))
        assert lab.primary(". /etc/os-release; echo $VERSION_ID").strip() == "13"
        wait_for(lambda: is_well(lab), "a healthy service")
        left_out = lab.primary("cat /etc/vcrecovery/exclude.lsyncd").splitlines()
        assert any(line.startswith(("/usr/lib/modules", "/boot")) for line in left_out), left_out
        page, arrived = f"the last page, {time.time()}", lab.rootfs / "var/www/html/index.html"
        lab.primary(f"echo '{page}' > /var/www/html/index.html")
        wait_for(lambda: arrived.read_text().strip() == page, "the page in the standby")
        pid = qemu_pid(layout.primary())
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        url = f"http://{layout.name}/"
        wait_for(lambda: (fetch(layout.name_server, url) or "").strip() == page, "the page")
        assert lab.dig(layout.name, "A") == [layout.plan["services"]["web"]["standby"]["address"]]
        assert lab.inside("sh", "-c", ". /etc/os-release; echo $VERSION_ID").strip() == "13"
    finally:
        down(layout)
