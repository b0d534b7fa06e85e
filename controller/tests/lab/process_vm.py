"""A VM that is a process: what starts no service, fetches, and serves in the end is the real program of the primary."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from vcrecovery.core.domain import Destroyed, DomainReading, DomainUsage
from vcrecovery.core.power import Power
from vcrecovery.drivers.libvirt import LibvirtHost
from vcrecovery.drivers.libvirt.readings import Guest
from vcrecovery_lab.pair import process

from .waiting import wait_for

#: Boots: asks, and starts no service until it is told to; then serves, and its sync begins.
BOOT = """\
#!/bin/sh
export PATH={folder}/bin:$PATH PYTHONPATH={source} PYTHONDONTWRITEBYTECODE=1
primary() {{ /usr/bin/python3 -m vcrecovery.primary "$@" --settings {folder}/sync.json; }}
rm -rf {folder}/run; mkdir -p {folder}/run/lsyncd
primary superseded || exit 1
/bin/busybox httpd -f -p {address} -h {tree}/www &
primary beat --every 0.5 &
touch {folder}/run/starting
lsyncd {folder}/lsyncd.lua &
while :; do
    if [ -e {folder}/run/due ] || [ $failed ]; then failed=; primary reconcile || failed=yes; fi
    sleep 0.2
done
"""


class ProcessVm(LibvirtHost):
    """The only VM of hypervisor hv1. `folder`: with `boot`, to be run, and the number of the process that runs it."""

    def __init__(self, folder: Path) -> None:
        super().__init__("hv1", "test:///none")
        self._folder = folder

    @property
    def _pid(self) -> int:
        """0 where it is off."""
        try:
            pid = int((self._folder / "pid").read_text())
            return pid if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z" else 0
        except (OSError, ValueError):
            return 0

    def read(self, uuid: str) -> DomainReading:
        return DomainReading(Power.RUNNING, "booted") if self._pid else DomainReading(Power.SHUTOFF, "destroyed")

    def guests(self) -> list[Guest]:
        return []

    def usage(self, uuids: Sequence[str]) -> dict[str, DomainUsage]:
        return {}

    def start(self, uuid: str, *, with_host: bool, timeout: float | None = None, anew: bool = False) -> bool:
        if self._pid:
            return False
        with (self._folder / "console").open("ab") as console:
            vm = subprocess.Popen(
                [self._folder / "boot"],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )
        (self._folder / "pid").write_text(str(vm.pid))
        return True

    def destroy(self, uuid: str, timeout: float | None = None) -> Destroyed:
        if pid := self._pid:
            os.killpg(pid, signal.SIGKILL)
        # The connections of ssh, too, which are in the background.
        wait_for(lambda: not (process.kill(process.having(self._folder)) or self._pid), "the end of the VM")
        return Destroyed(ended=True)

    def shut_down(self, uuid: str, timeout: float | None = None) -> bool:
        self.destroy(uuid)
        return False
