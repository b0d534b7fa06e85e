"""The cpio writer, and the archives made with it."""

import lzma
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from vcrecovery_lab import cpio, initramfs
from vcrecovery_lab.accelerator import trial_boot
from vcrecovery_lab.image import DEFAULT_CACHE
from vcrecovery_lab.run import LabError


def test_header_of_a_file() -> None:
    data = cpio.archive([cpio.file("a", b"12345", 0o755)])
    assert data[:6] == b"070701"
    fields = [int(data[6 + 8 * number : 14 + 8 * number], 16) for number in range(13)]
    assert fields == [1, stat.S_IFREG | 0o755, 0, 0, 1, 0, 5, 0, 0, 0, 0, 2, 0]
    assert data[110:112] == b"a\0"
    assert data[112:120] == b"12345\0\0\0"
    assert data[120:126] == b"070701"
    assert b"TRAILER!!!" in data
    assert len(data) % 4 == 0


@pytest.mark.skipif(shutil.which("busybox") is None, reason="needs busybox")
def test_another_cpio_reads_it(tmp_path: Path) -> None:
    data = cpio.archive([cpio.directory("d"), cpio.file("d/f", b"text"), cpio.file("empty", b"")])
    subprocess.run(["busybox", "cpio", "-id"], input=data, cwd=tmp_path, check=True, timeout=10, capture_output=True)
    assert (tmp_path / "d/f").read_text() == "text"
    assert (tmp_path / "empty").read_bytes() == b""


def test_modules_come_after_what_they_depend_on() -> None:
    modules_dep = "k/a.ko:\nk/b-b.ko: k/a.ko\nk/c.ko: k/b-b.ko k/a.ko\nk/d.ko: k/a.ko\n"
    assert initramfs.load_order(modules_dep, ["c", "d", "b_b"]) == ["k/a.ko", "k/b-b.ko", "k/c.ko", "k/d.ko"]
    with pytest.raises(LabError, match="no module e"):
        initramfs.load_order(modules_dep, ["e"])


def test_compressed_modules_are_put_in_plain(tmp_path: Path) -> None:
    """As Debian 13 has them, whose kernel has some built in: busybox could not load them."""
    first, *others = initramfs.BOOT_MODULES
    for module in others:
        (tmp_path / f"{module}.ko.xz").write_bytes(lzma.compress(f"the code of {module}".encode()))
    (tmp_path / "modules.dep").write_text("".join(f"{module}.ko.xz:\n" for module in others))
    (tmp_path / "modules.builtin").write_text(f"kernel/{first.replace('_', '-')}.ko\n")
    archive = initramfs.boot_initramfs(tmp_path)
    for module in others:
        assert f"the code of {module}".encode() in archive
    assert "".join(f"{module}.ko\n" for module in others).encode() in archive
    assert f"{first}.ko".encode() not in archive
    assert b".ko.xz" not in archive


@pytest.mark.skipif(shutil.which("qemu-system-x86_64") is None, reason="needs QEMU")
def test_the_trial_of_kvm_succeeds_under_emulation() -> None:
    """A failing trial tells of KVM, not of the trial."""
    kernel = next(DEFAULT_CACHE.glob("[!.]*/vmlinuz"), None)
    if kernel is None:
        pytest.skip("no image has been built")
    assert trial_boot(kernel, "tcg", 300)


def test_the_marker_is_not_in_the_initramfs() -> None:
    assert initramfs.TRIAL_MARKER.encode() not in initramfs.trial_initramfs()
