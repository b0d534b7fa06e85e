"""The libvirt XML of the machines."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

from vcrecovery_lab.disk import identity
from vcrecovery_lab.domain import METADATA_NAMESPACE, Hardware, blank_domain, emulated_tsc_khz, full_domain, signed

HARDWARE = Hardware(
    name="vcrlab-a&b",
    uuid="6e1b1f0e-6f0c-4e0b-8f53-0a2b8d1a7c11",
    accelerator="qemu",
    memory_mib=512,
    vcpus=2,
    kernel=Path("/k"),
    initrd=Path("/i"),
    disk=Path("/d'\"<"),
    console=Path("/c"),
    bridge="vcrlab-prod",
    mac="52:54:00:00:00:01",
)


def test_values_are_where_libvirt_looks_for_them() -> None:
    tree = ElementTree.fromstring(full_domain(HARDWARE))  # noqa: S314
    assert tree.get("type") == "qemu"
    assert tree.findtext("name") == "vcrlab-a&b"
    assert tree.findtext("uuid") == HARDWARE.uuid
    assert tree.findtext("os/kernel") == "/k"
    assert tree.find("devices/disk/source").get("file") == "/d'\"<"  # type: ignore[union-attr]
    assert tree.find("devices/interface/source").get("bridge") == "vcrlab-prod"  # type: ignore[union-attr]


def test_the_cpu_follows_the_accelerator() -> None:
    assert "host-passthrough" not in full_domain(HARDWARE)
    assert "host-passthrough" in full_domain(replace(HARDWARE, accelerator="kvm"))


def test_an_emulated_cpu_is_told_how_fast_its_clock_counts() -> None:
    khz = emulated_tsc_khz(
        "processor\t: 0\ncpu MHz\t\t: 1200.000\nbogomips\t: 5200.00\n\nprocessor\t: 1\nbogomips\t: 5"
    )
    assert khz == 2_600_000
    tree = ElementTree.fromstring(full_domain(replace(HARDWARE, tsc_khz=khz)))  # noqa: S314
    assert "tsc_early_khz=2600000" in (tree.findtext("os/cmdline") or "").split()
    assert "tsc_early_khz" not in full_domain(HARDWARE)
    assert emulated_tsc_khz("BogoMIPS\t: 50.00\n") is None, "another architecture"


def test_the_signature_tells_definitions_apart() -> None:
    xml = full_domain(HARDWARE)
    once, digest = signed(xml, also="key")
    found = ElementTree.fromstring(once).find(f"metadata/{{{METADATA_NAMESPACE}}}domain")  # noqa: S314
    assert found is not None
    assert found.get("sha256") == digest
    assert signed(xml, also="key") == (once, digest)
    others = [signed(xml, also="other key"), signed(full_domain(replace(HARDWARE, vcpus=1)), also="key")]
    assert digest not in {other for _, other in others}


def test_a_blank_machine_can_be_signed() -> None:
    xml, digest = signed(blank_domain("vcrlab-blank", HARDWARE.uuid))
    assert digest in xml


def test_identity_names_the_machine_everywhere() -> None:
    files = identity("vcrlab-web", HARDWARE.uuid, "10.211.1.10", 24, "10.211.1.1")
    assert "address 10.211.1.10/24\n    gateway 10.211.1.1" in files["/etc/network/interfaces"]
    assert files["/etc/hostname"] == "vcrlab-web\n"
    assert "<h1>vcrlab-web</h1>" in files["/var/www/html/index.html"]
    assert len(files["/etc/machine-id"].strip()) == 32
