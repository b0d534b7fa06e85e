"""The tree's top among the changes of a reconcile: its own attributes are meant, not what lies in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from test_reconcile import Pair

import vcrecovery.primary.reconcile as module


def test_what_is_left_out_there_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(tmp_path)
    monkeypatch.setattr(module, "_refreshed", lambda settings, tell: None)
    Path(pair.lists["rsync-filter"]).write_text("- /swapfile\nH /boot/\n")
    (pair.tree / "swapfile").write_text("large")
    (pair.tree / "boot").mkdir()
    (pair.tree / "file").write_text("x")
    os.utime(pair.tree, (10**9, 10**9))
    pair.reconcile()
    assert sorted(path.name for path in pair.standby.iterdir()) == ["file"]
    assert pair.standby.stat().st_mtime == 10**9
