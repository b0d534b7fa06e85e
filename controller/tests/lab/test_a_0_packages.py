"""Package runs in the VM keep the exclude list current: a real dpkg, its hook, systemd and lsyncd."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from vcrecovery_lab.run import run

from .conftest import Lab
from .waiting import wait_for

#: The first test of a run builds the image and lays out the lab.
pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

LIST = "/etc/vcrecovery/exclude.lsyncd"


def install(lab: Lab, folder: Path, name: str, path: str) -> None:
    """Builds a package with one file and installs it in the VM."""
    tree = folder / name
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@example.net>\nDescription: x\n"
    )
    file = tree / path.lstrip("/")
    file.parent.mkdir(parents=True)
    file.write_text(name)
    package = folder / f"{name}.deb"
    run(["dpkg-deb", "--root-owner-group", "--build", str(tree), str(package)], timeout=60)
    text = base64.b64encode(package.read_bytes()).decode()
    lab.primary(f"echo {text} | base64 -d > /tmp/{name}.deb && dpkg -i /tmp/{name}.deb", timeout=120)


def refreshes(lab: Lab) -> list[str]:
    """What the refreshes so far have said."""
    said = lab.primary("journalctl -q -o cat -u vcrecovery-excludes.service -t python3", timeout=60)
    return [line for line in said.splitlines() if line.startswith(("changed", "unchanged"))]


def sync_process(lab: Lab) -> str:
    return lab.primary("systemctl show -P MainPID vcrecovery-sync.service").strip()


def test_a_package_run_makes_the_list_anew(lab: Lab, tmp_path: Path) -> None:
    lsyncd, said = sync_process(lab), refreshes(lab)
    # A package of the profile: its file stays out, and lsyncd has to know.
    install(lab, tmp_path, "firmware-vcrlab", "/usr/lib/firmware/vcrlab/one.bin")
    wait_for(lambda: len(refreshes(lab)) > len(said), "a refresh after dpkg -i")
    assert "/usr/lib/firmware" in lab.primary(f"cat {LIST}").splitlines()
    wait_for(lambda: sync_process(lab) not in (lsyncd, "0"), "a new lsyncd")
    # What arrived before the list was made is not deleted, but nothing more comes.
    lab.primary("echo changed > /usr/lib/firmware/vcrlab/one.bin")
    # Another one: nothing to leave out, lsyncd goes on, the file arrives.
    lsyncd, said = sync_process(lab), refreshes(lab)
    install(lab, tmp_path, "vcrlab-shop", "/opt/shop/page")
    wait_for(lambda: len(refreshes(lab)) > len(said), "a refresh after dpkg -i")
    assert refreshes(lab)[-1] == "unchanged"
    assert sync_process(lab) == lsyncd
    wait_for((lab.rootfs / "opt/shop/page").exists, "the other package's file")
    left_out = lab.rootfs / "usr/lib/firmware/vcrlab/one.bin"
    assert not left_out.exists() or left_out.read_text() == "firmware-vcrlab"
    # What nobody owns is sent, and a removed package leaves the list as it was.
    lab.primary(
        "echo mine > /usr/lib/firmware/vcrlab/mine.bin; systemctl start vcrecovery-excludes.service", timeout=120
    )
    wait_for((lab.rootfs / "usr/lib/firmware/vcrlab/mine.bin").exists, "the administrator's file")
    assert not left_out.exists() or left_out.read_text() == "firmware-vcrlab"
    said = refreshes(lab)
    lab.primary("rm /usr/lib/firmware/vcrlab/mine.bin; dpkg -P firmware-vcrlab vcrlab-shop", timeout=120)
    wait_for(lambda: len(refreshes(lab)) > len(said), "a refresh after dpkg -P")
    assert "firmware" not in lab.primary(f"cat {LIST}")
    wait_for(lambda: not (lab.rootfs / "opt/shop").exists(), "the removal")
    wait_for(lambda: not left_out.exists(), "the removal of what is on the list no more")
