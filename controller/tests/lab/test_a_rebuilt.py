"""The VM's disk is lost: the service returns into a new system, which has nothing of it but the role `primary`."""

from __future__ import annotations

import json

import pytest

from vcrecovery_lab import machine
from vcrecovery_lab.accelerator import accelerator
from vcrecovery_lab.client import fetch
from vcrecovery_lab.image import DEFAULT_CACHE
from vcrecovery_lab.lab import playbook

from .conftest import Lab
from .test_a_1_switchover import in_the_vm, is_well, newest_episode, status
from .waiting import wait_for

pytestmark = [pytest.mark.lab, pytest.mark.at_length, pytest.mark.timeout(1800)]

PAGE = "written in the standby after the disk of its VM was lost"
WRITE_IT = (
    f"echo '{PAGE}' > /var/www/html/index.html; mkdir /srv/own; echo 1 > /srv/own/file; chown 1234:33 /srv/own/file"
)
#: What a new system has not: the service.
TAKE_IT_AWAY = "systemctl disable -q --now nginx; rm -r /usr/sbin/nginx /etc/nginx /var/www"
OWN = "cat /etc/hostname /etc/machine-id /etc/fstab /etc/network/interfaces; ls /boot"


def test_a_service_returns_into_a_rebuilt_vm(lab: Lab) -> None:
    vm, url = lab.layout.primary(), f"http://{lab.layout.name}/"
    if status(lab)["serves"] == "primary":
        called = lab.vcrecovery("failover", "web", "--force")
        assert called.returncode == 0, called.stderr
    lab.inside("sh", "-c", WRITE_IT)
    assert lab.vcrecovery("suspend", "web").returncode == 0
    machine.destroy_and_undefine(vm, lab.layout.machines)
    machine.create(vm, lab.image, accelerator(lab.image, DEFAULT_CACHE), lab.layout.machines)
    lab.primary(TAKE_IT_AWAY)
    own = lab.primary(OWN)
    words = json.dumps({"primary_packages": []})
    playbook(lab.layout, "playbooks/sync.yml", "the role `primary` in the rebuilt VM", "-e", words)

    wrong = lab.vcrecovery("failback", "web", "--into", "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e00aa")
    assert wrong.returncode != 0
    assert len(wrong.stderr.strip().splitlines()) == 1
    called = lab.vcrecovery("failback", "web", "--into", vm.uuid, timeout=900)
    assert called.returncode == 0, called.stdout + called.stderr
    assert newest_episode(lab)["outcome"] == "done"
    assert (fetch(lab.layout.name_server, url) or "").strip() == PAGE
    assert lab.dig(lab.layout.name, "A") == [vm.ip]
    assert in_the_vm(lab, "systemctl is-active nginx") == "active"
    assert in_the_vm(lab, "stat -c '%u:%g' /srv/own/file") == "1234:33"
    assert lab.primary(OWN) == own
    assert lab.vcrecovery("resume", "web").returncode == 0
    wait_for(lambda: is_well(lab), "a protected service")
    assert lab.vcrecovery("commit", "web").returncode == 0
