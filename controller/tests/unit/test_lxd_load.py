"""What LXD says of its machine's load, and what is made of an odd answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from set_clock import SetClock

from vcrecovery.balance.devices import CardReading, DiskReading
from vcrecovery.balance.load import ContainerReading, Reading
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.drivers.lxd.copies import time_left
from vcrecovery.drivers.machine import machine_reading
from vcrecovery.errors import ExternalError

HARDWARE = {"cpu": {"total": 2}, "memory": {"total": 4096, "used": 1024}}
#: Of a real one, with a container of another project.
METRICS = """\
# TYPE lxd_disk_read_bytes_total counter
lxd_disk_read_bytes_total{device="vda",name="web",project="default",type="container"} 4.5e+03
lxd_disk_read_bytes_total{device="vdb",name="web",project="default",type="container"} 500
lxd_disk_reads_completed_total{device="vda",name="web",project="default",type="container"} 77
lxd_disk_written_bytes_total{device="vda",name="web",project="default",type="container"} 2500
lxd_disk_written_bytes_total{device="vda",name="web",project="other",type="container"} 9
lxd_network_receive_bytes_total{device="eth0",name="web",project="default",type="container"} 1946
"""
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
                what = said[self._name]
                if isinstance(what, ExternalError):
                    raise what
                content = what.encode() if isinstance(what, str) else b""
                return type("Answer", (), {"json": lambda _self: {"metadata": what}, "content": content})()

        return call(Place(""))


def server(**said: Any) -> Server:
    made = Server("sec1", Path("/no.socket"), SetClock(50.0))
    made.said = {"metrics": METRICS, "resources": HARDWARE, "storage_pools": SPACE, "instances": [WEB, OFF], **said}
    return made


def test_what_it_says() -> None:
    web = ContainerReading(2.5, 512, 100, 60.0, 7500)
    assert server().reading("default") == Reading(50.0, 2, 4096, 1024, 9000, 5000, {"web": web})


def test_what_a_container_sends_and_receives() -> None:
    eth0 = {"counters": {"bytes_received": 1946, "bytes_sent": 1354}}
    lo = {"counters": {"bytes_received": 99, "bytes_sent": 99}}
    one = {**WEB, "state": {**STATE, "network": {"eth0": eth0, "eth1": eth0, "lo": lo}}}
    web = server(instances=[one]).reading("default").containers["web"]
    assert (web.received, web.sent) == (2 * 1946, 2 * 1354)


@pytest.mark.parametrize(
    "metrics",
    [
        "",
        "lxd_procs_total 3\n",
        ExternalError("LXD on secondary sec1: not authorized"),
        METRICS.replace("default", "other"),
        'lxd_disk_read_bytes_total{device="vda",name="web",project="default",type="container"} 1e+999\n',
        'lxd_disk_read_bytes_total{device="vda",name="web",project="default",type="container"} e.+\n',
    ],
)
def test_what_nobody_tells_of_its_disks_is_not_known(metrics: Any) -> None:
    assert server(metrics=metrics).reading("default").containers["web"].moved is None


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


def test_what_its_own_kernel_says_of_disks_and_cards(tmp_path: Path) -> None:
    proc, sys = tmp_path / "proc", tmp_path / "sys"
    proc.mkdir()
    (proc / "stat").write_text("cpu  100 200 300 9000 50 10 20 70 5 5\n")
    (proc / "diskstats").write_text(
        "   7  0 loop0 10 0 20 30 40 0 50 60 0 70 80 0 0 0 0 0 0\n"
        " 254  0 vda 100 3 2000 500 300 9 4000 1500 2 1200 2000 0 0 0 0 5 6\n"
        " 254  1 vda1 100 3 2000 500 300 9 4000 1500 2 1200 2000\n"
    )
    (sys / "block/vda/device").mkdir(parents=True)
    (sys / "block/loop0").mkdir()
    for name, speed in (("eth0", "1000\n"), ("eth1", "-1\n"), ("br0", "1000\n")):
        card = sys / "class/net" / name
        (card / "statistics").mkdir(parents=True)
        (card / "speed").write_text(speed)
        for number, counter in enumerate(("rx_bytes", "tx_bytes", "rx_dropped", "tx_dropped")):
            (card / "statistics" / counter).write_text(f"{number + 5}\n")
        if name != "br0":
            (card / "device").mkdir()
    found = machine_reading(proc, sys)
    assert found.disks == {"vda": DiskReading(400, 6000 * 512, 2.0, 1.2)}
    assert found.cards == {"eth0": CardReading(5, 6, 15, 125e6), "eth1": CardReading(5, 6, 15)}
    # Where the kernel says none of it, or something else, that is not known; the rest is.
    (proc / "diskstats").write_text("254 0 vda x\n")
    (sys / "class/net/eth0/statistics/rx_bytes").write_text("x")
    odd = machine_reading(proc, sys)
    assert (odd.busy, odd.disks, odd.cards) == (7.0, None, None)
    assert machine_reading(proc, tmp_path / "none").disks is None


@pytest.mark.parametrize("text", ["", "cpu 1 2", "cpu a b c d e f g h"])
def test_a_kernel_that_says_something_else(tmp_path: Path, text: str) -> None:
    (tmp_path / "stat").write_text(text)
    with pytest.raises(ExternalError, match="does not say how busy this machine is"):
        machine_reading(tmp_path)
    with pytest.raises(ExternalError, match="does not say how busy this machine is"):
        machine_reading(tmp_path / "none")


@pytest.mark.parametrize(
    ("said", "size", "left"),
    [
        ("rootfs: 100.00MB (10.00MB/s)", 1_100_000_000, ", about 1 min 40 s left"),
        ("rootfs: 1.50GB (512.00kB/s)", 1_500_512_000, ", about 1 s left"),
        ("rootfs: 900B (100B/s)", 1000, ", about 1 s left"),
        # More was sent than there was, the size is not known, nothing moves, or LXD says it in other words.
        ("rootfs: 100.00MB (10.00MB/s)", 99_000_000, ""),
        ("rootfs: 100.00MB (10.00MB/s)", 0, ""),
        ("rootfs: 100.00MB (0B/s)", 1_100_000_000, ""),
        ("rootfs: 1..0MB (10.00MB/s)", 1_100_000_000, ""),
        ("rootfs: 35%", 1_100_000_000, ""),
        ("", 1_100_000_000, ""),
    ],
)
def test_how_long_a_copy_takes_still(said: str, size: int, left: str) -> None:
    assert time_left(said, size, "about") == left


def test_the_size_of_what_is_copied() -> None:
    found = server(instances=STATE)
    assert found._used("web") == 100
    for odd in ({**STATE, "disk": None}, {**STATE, "disk": {}}, {}, ExternalError("it does not answer", "")):
        found.said["instances"] = odd
        assert found._used("web") == 0
