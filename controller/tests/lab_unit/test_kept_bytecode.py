"""What Python compiles of archives is kept, and taken for the same source only."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

from vcrecovery_lab.recipe import KEPT_BYTECODE


def said(folder: Path, source: str) -> str:
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr("said.py", source)
    path = os.pathsep.join([str(KEPT_BYTECODE), str(folder / "a.zip")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONPYCACHEPREFIX": str(folder)}
    done = subprocess.run(
        ["/usr/bin/python3", "-c", "import said"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=environment,
    )
    assert done.stderr == ""
    return done.stdout


def test_it_is_kept_for_the_same_source(tmp_path: Path) -> None:
    def kept() -> list[Path]:
        return sorted((tmp_path / "vcrlab-archives").iterdir())

    assert said(tmp_path, "print(1)") == "1\n"
    (first,) = kept()
    before = first.stat().st_mtime_ns
    assert said(tmp_path, "print(1)") == "1\n"
    assert [file.stat().st_mtime_ns for file in kept()] == [before]
    assert said(tmp_path, "print(2)") == "2\n"
    (second,) = {*kept()} - {first}
    # It is what is run.
    second.write_bytes(first.read_bytes())
    assert said(tmp_path, "print(2)") == "1\n"


def test_one_that_is_damaged_is_made_anew(tmp_path: Path) -> None:
    said(tmp_path, "print(1)")
    (kept,) = (tmp_path / "vcrlab-archives").iterdir()
    for damaged in (b"", b"nonsense", kept.read_bytes()[:-5]):
        kept.write_bytes(damaged)
        assert said(tmp_path, "print(1)") == "1\n"
