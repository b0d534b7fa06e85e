"""Whether a container fits on another server, as seen beside it and from elsewhere."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from vcrecovery.core.drill import MARGIN
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.errors import ExternalError
from vcrecovery.operations.room import no_room_for_a_copy

MB = 10**6


class Server:
    """`says`: what its container prints, None where it does not run; `tree`: its files, for one on this machine."""

    name = "sec2"

    def __init__(self, free: int = 0, tree: Path | None = None, says: str | None = None, driver: str | None = "dir"):
        self.free, self.tree, self.says, self.driver = free, tree, says, driver

    @property
    def is_here(self) -> bool:
        return self.tree is not None

    def rootfs(self, _pool: str, _name: str) -> Path | None:
        return self.tree

    def ask(self, _name: str, _command: Sequence[str], _timeout: float) -> tuple[int, str]:
        if self.says is None:
            raise ExternalError("Instance is not running")
        return 0, self.says

    def pool_driver(self, _pool: str) -> str | None:
        return self.driver

    def pool_free(self, _pool: str) -> int:
        return self.free


def said(source: Server, destination: Server) -> str:
    one, other = cast(LxdServer, cast(Any, source)), cast(LxdServer, cast(Any, destination))
    return no_room_for_a_copy(one, "default", "web", other, "fast")


def test_beside_the_source_its_files_are_counted(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(os.urandom(8 * MB))
    assert said(Server(tree=tmp_path), Server(MARGIN + 9 * MB)) == ""
    assert said(Server(tree=tmp_path), Server(MARGIN)) == (
        "pool fast of sec2: its copy needs 8.0 MB for copies and 268.4 MB to spare, and 268.4 MB are free"
    )


@pytest.mark.parametrize(("says", "fits"), [("7000\t/\n", True), ("9000\t/\n", False)])
def test_from_elsewhere_the_container_says_it(says: str, fits: bool) -> None:
    assert (said(Server(says=says), Server(MARGIN + 8 * MB)) == "") == fits


@pytest.mark.parametrize("says", [None, "", "sh: du: not found\n"])
def test_what_nobody_can_say_is_no_reason(says: str | None) -> None:
    assert said(Server(says=says), Server(0)) == ""


def test_a_pool_that_is_not_there_yet_is_made(tmp_path: Path) -> None:
    assert said(Server(tree=tmp_path), Server(0, driver=None)) == ""
