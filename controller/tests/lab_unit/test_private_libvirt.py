"""The private libvirtd of a test, where it does not start: at once, and in its own words."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vcrecovery_lab.private_libvirt import PrivateLibvirt
from vcrecovery_lab.run import LabError


class Broken(PrivateLibvirt):
    def lay_out(self) -> None:
        pass

    def command(self) -> list[str]:
        return ["sh", "-c", "echo no such driver; exit 7"]

    def answers(self) -> bool:
        return False


@pytest.fixture
def broken() -> Iterator[Broken]:
    daemon = Broken()
    yield daemon
    daemon.close()


def test_one_that_ends_says_why(broken: Broken) -> None:
    # The reaper has run: what it says is the command's, not an error of its own.
    with pytest.raises(LabError, match=r"the private libvirtd has ended with status 7: no such driver$"):
        broken.start()
