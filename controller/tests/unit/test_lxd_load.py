"""What LXD says of its machine's load, and what is made of an odd answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from set_clock import SetClock

from vcrecovery.balance.load import ContainerReading, Reading
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.drivers.machine import machine_reading
from vcrecovery.errors import ExternalError

HARDWARE = {"cpu": {"total": 2}, "memory": {"total": 4096, "used": 1024}}
SPACE = {"space": {"total": 9000, "used": 4000}}
STATE = {"pid": 7, "cpu": {"usage": 2_500_000_000}, "memory": {"usage": 512}, "disk": {"root": {"usage": 100}}}
WEB = {"name": "web", "last_used_at": "1970-01-01T00:01:00Z", "state": STATE}
OFF = {"name": "db", "last_used_at": "1970-01-01T00:01:00Z", "state": {"pid": 0}}


class Server(LxdServer):
    """`said`: what it answers to each place."""

    said: dict[str, Any]

    def _guard(self, call: Callable[[Any], Any]) -> Any:
        said = self.said

        class Place:
            def __init__(self, name: str) -> None:
                self._name = name

            def __getattr__(self, name: str) -> Place:
                return Place(name if name in ("instances", "storage_pools") else self._name or name)

            def __getitem__(self, _name: str) -> Place:
                return self

            def get(self, **_words: Any) -> Any:
                return type("Answer", (), {"json": lambda _self: {"metadata": said[self._name]}})()

        return call(Place(""))


def server(**said: Any) -> Server:
    made = Server("sec1", Path("/no.socket"), SetClock(50.0))
    made.said = {"resources": HARDWARE, "storage_pools": SPACE, "instances": [WEB, OFF], **said}
    return made


def test_what_it_says() -> None:
    web = ContainerReading(2.5, 512, 100, 60.0)
    assert server().reading("default") == Reading(50.0, 2, 4096, 1024, 9000, 5000, {"web": web})


@pytest.mark.parametrize(
    "said",
    [
        {"resources": {}},
        {"resources": {"cpu": {"total": 2}, "memory": {"total": 4096}}},
        {"resources": None},
        {"instances": None},
        {"instances": [{"name": "web", "state": "Running"}]},
        {"instances": [{"name": "web"}]},
        {"instances": [{**WEB, "state": {**STATE, "cpu": None}}]},
        {"instances": [{**WEB, "state": {**STATE, "disk": []}}, "x"]},
        {"storage_pools": {}},
    ],
)
def test_an_odd_answer_is_an_error_of_that_secondary(said: dict[str, Any]) -> None:
    with pytest.raises(ExternalError, match=r"LXD on secondary sec1 does not say how (loaded its machine|full pool)"):
        server(**said).reading("default")


def test_what_its_own_kernel_says(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  100 200 300 9000 50 10 20 70 5 5\ncpu0 1 2 3 4\n")
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure/memory").write_text("some avg10=1.00 avg60=2.50 avg300=3.00 total=5\nfull avg10=0\n")
    (tmp_path / "pressure/io").write_text("odd\n")
    found = machine_reading(tmp_path)
    # In hundredths of a second: users, nice, system, interrupts twice, and what its hypervisor has taken.
    assert (found.busy, found.stolen, found.pressure) == (7.0, 0.7, {"memory": 2.5})


@pytest.mark.parametrize("text", ["", "cpu 1 2", "cpu a b c d e f g h"])
def test_a_kernel_that_says_something_else(tmp_path: Path, text: str) -> None:
    (tmp_path / "stat").write_text(text)
    with pytest.raises(ExternalError, match="does not say how busy this machine is"):
        machine_reading(tmp_path)
    with pytest.raises(ExternalError, match="does not say how busy this machine is"):
        machine_reading(tmp_path / "none")
