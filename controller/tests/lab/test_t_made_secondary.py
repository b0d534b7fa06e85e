"""`site.yml` makes the VM of a secondary of a cloud image, joins it, and a service fails over into it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vcrecovery_lab import libvirt, machine
from vcrecovery_lab.progress import silent_progress
from vcrecovery_lab.run import run

from .conftest import Lab
from .made_secondary import ADDRESS, BLANK, DOMAIN, MIB, SECONDARY, SERVICE, STANDBY, MadeSite, made_site
from .vm_site import folder_for_vms, page_of
from .waiting import wait_for

pytestmark = [pytest.mark.lab, pytest.mark.at_length, pytest.mark.timeout(2400)]

ONLY_ITS_HOST = ("--limit", "hv2")


@pytest.fixture(scope="module")
def site(lab: Lab) -> Iterator[MadeSite]:
    with folder_for_vms(lab) as folder, made_site(folder, lab.image, silent_progress) as made:
        yield made


def memory_of_the_vm() -> int:
    """MiB that it has now, as libvirt says."""
    said = run(["virsh", "dominfo", DOMAIN], timeout=60).stdout
    (line,) = [line for line in said.splitlines() if line.startswith("Max memory:")]
    return int(line.split()[2]) // 1024


def test_it_is_made_and_takes_a_service_over(site: MadeSite) -> None:
    before = sorted(site.folder.iterdir())
    assert site.changed("--check")["hv2"] == 1
    assert libvirt.state(DOMAIN) == "absent"
    # The inventory alone.
    assert [path.name for path in sorted(site.folder.iterdir()) if path not in before] == ["inventory.json"]

    made = site.changed()
    assert made["hv2"] == 2  # the VM, and its host key
    assert site.changed() == dict.fromkeys(made, 0)
    assert site.changed("--check") == dict.fromkeys(made, 0)

    # LXD's bridge is over its second card, and the pool on a disk of the standbys' own.
    assert "standbys" in site.ssh("ls /sys/class/net/vcr0/brif")
    assert (
        site.ssh("findmnt -no LABEL -T /var/lib/lxd/storage-pools/standbys/containers/web/rootfs").strip() == "standbys"
    )
    (shown,) = site.ssh("df --output=size -BM / | tail -n 1").split()
    assert int(shown.rstrip("M")) > 4500  # of 5 GiB: the image has less

    done = site.vcrecovery("failover", SERVICE, "--force")
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert b"<title>" in page_of(STANDBY)
    assert libvirt.state(BLANK) == "off"


def test_another_size_waits_for_its_next_boot(site: MadeSite) -> None:
    """After the first one."""
    site.vm.update(memory="1792MiB", disk="6GiB", standbys_disk="3GiB")
    said = site.play(*ONLY_ITS_HOST)
    assert f"{SECONDARY} gets 1.75 GiB of memory instead of 1.5 GiB at its next boot" in " ".join(said.split())
    assert memory_of_the_vm() == 1536
    assert site.changed(*ONLY_ITS_HOST) == {"hv2": 0}
    # What serves there goes on.
    assert b"<title>" in page_of(STANDBY)
    site.ssh("sync")
    libvirt.destroy(DOMAIN)
    libvirt.start(DOMAIN)
    wait_for(lambda: machine.greets(ADDRESS), "the VM to answer again", 300)
    assert memory_of_the_vm() == 1792
    assert int(site.ssh("cat /sys/block/vdb/size")) * 512 == 3072 * MIB
    wait_for(
        lambda: int(site.ssh("df --output=size -BM / | tail -n 1").strip().rstrip("M")) > 5500, "its disk to grow", 300
    )


def test_a_disk_does_not_shrink(site: MadeSite) -> None:
    site.vm.update(disk="4GiB")
    with pytest.raises(AssertionError, match="a disk does not shrink; set it to 6144MiB"):
        site.play(*ONLY_ITS_HOST)
    site.vm.update(disk="6GiB")


def test_what_is_not_ours_is_never_touched(site: MadeSite) -> None:
    site.vm.update(domain=BLANK)
    with pytest.raises(AssertionError, match="a domain of that name that was not made here"):
        site.play(*ONLY_ITS_HOST)
    site.vm.update(domain=DOMAIN)


def test_what_is_missing_is_said_before_anything_is_done(site: MadeSite) -> None:
    for change, said in (({"network": "vcrlab-none"}, "no bridge vcrlab-none"), ({"image": "/nowhere"}, "no /nowhere")):
        kept = dict(site.vm)
        site.vm.update(change)
        with pytest.raises(AssertionError, match=said):
            site.play(*ONLY_ITS_HOST)
        site.vm.update(kept)
