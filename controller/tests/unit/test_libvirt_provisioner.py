"""Machines that libvirt makes: what they are made of, and what is said when they cannot be. Beside its contract."""

from __future__ import annotations

import threading
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from contracts.cases import refusal
from made_by_libvirt import MadeByLibvirt
from simulated.machine_host import IMAGE, Domain, MachineHost, Stream, Volume
from vcrecovery.drivers.provisioner import Made

LEASE = "3f9a" * 8
NAME = f"elastic-1-{LEASE}"
URI = "qemu+ssh://vcrecovery@hv2/system?socket=/run/x"


class On(MadeByLibvirt):
    def __init__(self, **wanted: Any) -> None:
        self.host = MachineHost()
        super().__init__(URI, {"image": IMAGE, "network": "br0", **wanted})
        self._open = self.host.open
        self.wanted = self.order(LEASE)

    @property
    def domain(self) -> Domain:
        return self.host.domains[NAME]

    def give_up_soon(self) -> None:
        self._timeout = 0.5


def test_what_a_machine_is_made_of() -> None:
    on = On()
    assert on.create(on.wanted) == [Made(NAME, "192.0.2.21", 8443)]
    tree = ET.fromstring(on.domain.xml)  # noqa: S314  our own
    assert (tree.get("type"), tree.findtext("vcpu"), tree.findtext("memory")) == ("qemu", "1", str(64 << 20))
    assert [source.get("file") for source in tree.findall("devices/disk/source")] == [
        f"/vms/{NAME}.qcow2",
        f"/vms/{NAME}-seed.iso",
    ]
    assert [source.get("bridge") for source in tree.findall("devices/interface/source")] == ["br0"]
    disk = on.host.volumes[f"{NAME}.qcow2"]
    assert (disk.size, disk.kind, disk.backing, disk.mode) == (16 << 20, "qcow2", f"/vms/{IMAGE}", "0600")
    assert on.domain.runs
    assert on.domain.with_host


def test_what_its_first_boot_finds() -> None:
    on = On(gateway="192.0.2.1", name_servers=["192.0.2.53"])
    on.create({**on.wanted, "user_data": "#cloud-config\n{secret: key}\n"})
    seed = on.host.volumes[f"{NAME}-seed.iso"]
    assert seed.mode == "0600"
    for text in (
        b"#cloud-config\n{secret: key}\n",
        b'"local-hostname": "elastic-1"',
        b'"192.0.2.21/24"',
        b'"gateway4": "192.0.2.1"',
        b'"192.0.2.53"',
    ):
        assert text in seed.content


def test_an_image_that_nobody_has_told_libvirt_of() -> None:
    on = On(image="new.img")
    on.host.unseen["new.img"] = Volume(on.host, "new.img", 1 << 20, "raw")
    on.create(on.wanted)
    assert on.host.volumes[f"{NAME}.qcow2"].backing == "/vms/new.img"


def test_what_libvirt_has_forgotten_is_removed_too() -> None:
    on = On()
    on.create(on.wanted)
    on.host.unseen, on.host.volumes = on.host.volumes, {}
    on.destroy(on.wanted)
    assert set(on.host.volumes) == {IMAGE}


def test_another_networks_machine_has_another_address() -> None:
    on = On()
    on._addresses = {"10.30.1.1/24": "192.0.2.21/24", "10.30.2.1/24": "192.0.2.22/24"}
    (made,) = on.create({**on.wanted, "lxd": {"network": "10.30.2.1/24"}})
    assert made.address == "192.0.2.22"
    # Whoever asks later does not say the network.
    assert on.describe({"lease": LEASE, "name": "elastic-1", "options": {}}) == [made]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pools": ()}, "there is no storage pool vms of hypervisor hv2"),
        ({"active": False}, "storage pool vms of hypervisor hv2 is not active"),
        ({"kind": "logical"}, "storage pool vms of hypervisor hv2 is of type logical"),
        ({"volumes": {}}, f"there is no image {IMAGE} in storage pool vms of hypervisor hv2"),
    ],
)
def test_what_it_needs_is_said(change: dict[str, Any], said: str) -> None:
    on = On()
    for name, value in change.items():
        setattr(on.host, name, value)
    assert said in refusal(lambda: on.create(on.wanted)).message
    assert on.host.domains == {}


def test_a_plan_that_has_changed_since_it_was_asked_for() -> None:
    on = On()
    error = refusal(lambda: on.create({**on.wanted, "lxd": {"network": "10.30.9.1/24"}}))
    assert error.message == "the plan has no address for network 10.30.9.1/24 any more"


def test_an_image_that_is_larger_than_the_disk() -> None:
    on = On()
    on.host.volumes[IMAGE].size = 4 << 30
    error = refusal(lambda: on.create({**on.wanted, "disk": 3 << 30}))
    assert "has 4 GiB, more than the disk of a machine (3 GiB)" in error.message
    assert error.hint == "raise balance.elastic.template.disk"
    assert set(on.host.volumes) == {IMAGE}


@pytest.mark.parametrize("mark", ["", f"<l:machine xmlns:l='urn:vcrecovery:lease' token='{'0' * 32}'/>"])
def test_a_domain_of_that_very_name_that_is_not_ours_is_not_touched(mark: str) -> None:
    on = On()
    theirs = on.host.defineXML(f"<domain><name>{NAME}</name><metadata>{mark}</metadata></domain>")
    theirs.runs = theirs.with_host = True
    for call in (on.create, on.describe, on.destroy):
        error = refusal(lambda call=call: call(on.wanted))  # type: ignore[misc]
        assert f"hypervisor hv2 has a domain {NAME} that was not made here" in error.message
    assert on.host.domains == {NAME: theirs}
    assert theirs.runs


def test_one_that_is_off_is_not_made_anew() -> None:
    """Standbys may be on its disk."""
    on = On()
    on.create(on.wanted)
    disk, on.domain.runs = on.host.volumes[f"{NAME}.qcow2"], False
    assert len(on.create(on.wanted)) == 1
    assert on.host.volumes[f"{NAME}.qcow2"] is disk
    assert not on.domain.runs


def test_one_whose_maker_was_killed_is_no_machine_yet() -> None:
    """Whoever asks what there is would wait for it, and nobody would start it."""
    on = On()
    for _ in on.killed(on.wanted):
        assert on.describe(on.wanted) == []
        on.destroy(on.wanted)


def test_what_was_given_up_changes_nothing_any_more() -> None:
    on = On()
    on.give_up_soon()
    stuck = threading.Event()

    def stream() -> Stream:
        stuck.set()
        on.host.hanging = True
        on.host.asked()
        return Stream()

    on.host.newStream = stream  # type: ignore[method-assign]
    assert "no answer within" in refusal(lambda: on.create(on.wanted)).message
    assert stuck.is_set()
    on.host.hanging = False
    on.host.go_on.set()
    for thread in threading.enumerate():
        if thread.name == "libvirt-hv2":
            thread.join(30)
    assert on.host.domains == {}
    assert on.destroy(on.wanted) == []
    assert set(on.host.volumes) == {IMAGE}


def test_the_command_by_hand() -> None:
    virsh = "virsh -c 'qemu+ssh://vcrecovery@hv2/system?socket=/run/x'"
    assert On().by_hand({"lease": LEASE, "name": "elastic-1"}) == (
        f"{virsh} destroy {NAME}; {virsh} undefine {NAME} --managed-save --remove-all-storage"
    )
