"""How busy a VM is, from what libvirt says of it."""

from __future__ import annotations

from typing import Any

import pytest

from vcrecovery.balance.devices import CardReading, DiskReading
from vcrecovery.balance.load import MachineReading
from vcrecovery.drivers.libvirt.loads import _machine

CORES = {
    "vcpu.current": 2,
    "vcpu.maximum": 4,
    "vcpu.0.state": 1,
    "vcpu.0.time": 5_000_000_000,
    "vcpu.0.wait": 0,
    "vcpu.0.delay": 300_000_000,
    "vcpu.1.state": 1,
    "vcpu.1.time": 2_000_000_000,
    "vcpu.1.delay": 200_000_000,
}
DISKS = {
    "block.count": 2,
    "block.0.name": "vda",
    "block.0.path": "/images/sec1.qcow2",
    "block.0.rd.reqs": 70,
    "block.0.rd.bytes": 7000,
    "block.0.rd.times": 400_000_000,
    "block.0.wr.reqs": 30,
    "block.0.wr.bytes": 3000,
    "block.0.wr.times": 600_000_000,
    "block.0.fl.reqs": 9,
    "block.0.fl.times": 9_000_000_000,
    # A drive without a disk in it.
    "block.1.name": "sda",
}
CARDS = {
    "net.count": 1,
    "net.0.name": "vnet3",
    "net.0.rx.bytes": 500,
    "net.0.rx.drop": 2,
    "net.0.tx.bytes": 900,
    "net.0.tx.drop": 1,
}
VDA, VNET = {"vda": DiskReading(100, 10_000, 1.0, 1.0)}, {"vnet3": CardReading(500, 900, 3)}


@pytest.mark.parametrize(
    ("stats", "machine"),
    [
        (CORES | DISKS | CARDS, MachineReading(7.5, 0.5, {}, VDA, VNET)),
        # What it does not say is not known, and not zero.
        (CORES, MachineReading(7.5, 0.5, {})),
        (
            {key: value for key, value in (CORES | CARDS).items() if not key.endswith(".delay")},
            MachineReading(7.0, None, {}, None, VNET),
        ),
        ({key: value for key, value in CORES.items() if key != "vcpu.1.delay"}, MachineReading(7.0, None, {})),
        (DISKS | CARDS, None),
        ({}, None),
    ],
)
def test_what_it_says(stats: dict[str, Any], machine: MachineReading | None) -> None:
    assert _machine(stats) == machine
