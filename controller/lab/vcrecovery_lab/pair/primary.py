"""The pair's primary: lsyncd, the heartbeat and the reconcile, as the role lays them out and systemd runs them."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vcrecovery.excludes.selection import Selection
from vcrecovery.excludes.service import service_rules
from vcrecovery.primary.heartbeat import queue_length
from vcrecovery_lab.layout import CHECKOUT

from . import process
from .render import render

PYTHON = "/usr/bin/python3"
_TEMPLATES = CHECKOUT / "roles/primary/templates"
_EXCLUDE: dict[str, Any] = {"profile": None, "packages": [], "keep": [], "paths": [], "host_keys": "copied"}


def alias_of(secondary: str, number: int) -> str:
    """What the role calls the host key of the receiver there; the first is where the standby is at home."""
    return "vcrecovery-receiver" if number == 0 else f"vcrecovery-receiver-{secondary}"


class Primary:
    """`folder` stands for /etc/vcrecovery, `run_dir` for /run/vcrecovery, `tree` for /."""

    def __init__(
        self, folder: Path, tree: Path, port: int, beat: float, retry: float, others: Mapping[str, int] | None = None
    ) -> None:
        """`others`: the ports of all receivers by their secondaries, where there are several; `port` is the first's."""
        self.folder, self.tree = folder, tree
        self.run_dir = folder / "run"
        self.state_dir = tree / "var/lib/vcrecovery"
        self.key = folder / "sync_key"
        self.log = folder / "log"
        self.beat, self.retry = beat, retry
        self._others = others or {}
        self.finds: subprocess.Popen[bytes] | None = None
        self.lsyncd: subprocess.Popen[bytes] | None = None
        self.heartbeat: subprocess.Popen[bytes] | None = None
        self.reconcile: subprocess.Popen[bytes] | None = None
        self.reconciles = 0
        self._supervisor: threading.Thread | None = None
        self._ended = threading.Event()
        self._asked = threading.Event()
        self._write_files(port)
        self.configure()

    def _write_files(self, port: int) -> None:
        self.state_dir.mkdir(parents=True, exist_ok=True)
        self.lists = {dialect: str(self.folder / f"exclude.{dialect}") for dialect in ("lsyncd", "rsync-filter")}
        for dialect, rules in service_rules("/", Selection(), sorted(self.lists)).items():
            Path(self.lists[dialect]).write_bytes(rules)
        self.ssh_config = self.folder / "ssh_config"
        self.ssh_config.write_text(
            self.rendered(
                "ssh_config.j2",
                primary_receiver={"address": "127.0.0.1", "port": port},
                primary_receivers=[
                    {"name": name, "address": "127.0.0.1", "port": port, "alias": alias_of(name, number)}
                    for number, (name, port) in enumerate(self._others.items())
                ],
            )
        )

    def rendered(self, template: str, **variables: Any) -> str:
        places = {"primary_config_dir": str(self.folder), "primary_run_dir": str(self.run_dir)}
        return render(_TEMPLATES / template, **places, **variables)

    def configure(self, delay: float = 1, bandwidth: int | None = None) -> None:
        """`bandwidth` in KiB/s; for the next start of each program."""
        configuration = self.rendered(
            "lsyncd.lua.j2",
            primary_source_dir=str(self.tree),
            primary_delay=delay,
            primary_open_files="send",
            primary_bandwidth=bandwidth,
            primary_receivers=list(self._others),
        )
        (self.folder / "lsyncd.lua").write_text(configuration)
        settings = {
            "exclude": _EXCLUDE,
            "lists": self.lists,
            "engine": "lsyncd",
            "source": str(self.tree),
            "ssh_config": str(self.ssh_config),
            "bandwidth": bandwidth,
            "receivers": list(self._others),
            "run_dir": str(self.run_dir),
            "state_dir": str(self.state_dir),
        }
        (self.folder / "sync.json").write_text(json.dumps(settings))

    def start(self) -> None:
        """As at boot: nothing is left in /run."""
        shutil.rmtree(self.run_dir, ignore_errors=True)
        (self.run_dir / "lsyncd").mkdir(parents=True)
        self._ended.clear()
        self._start_lsyncd()
        self.heartbeat = self._program("beat", "--every", str(self.beat))
        self._supervisor = threading.Thread(target=self._supervise, daemon=True)
        self._supervisor.start()

    def kill(self) -> None:
        """All its processes at once, as when the VM crashes; ssh's master, which goes into the background, too."""
        self._ended.set()
        if self._supervisor is not None:
            self._supervisor.join()
            self._supervisor = None
        while pids := process.having(self.folder):
            process.kill(pids)
            for one in (self.lsyncd, self.heartbeat, self.reconcile, self.finds):
                if one is not None:
                    # For a moment after its start the kernel shows no command line of it: it was not among those.
                    one.kill()
                    one.wait(60)

    def ask_for_reconcile(self) -> None:
        """As the timer does."""
        self._asked.set()

    @property
    def due(self) -> Path:
        return self.run_dir / "due"

    @property
    def marked(self) -> bool:
        return any((self.run_dir / name).exists() for name in ("starting", "due", "reconciling"))

    @property
    def idle(self) -> bool:
        """Whether no reconcile runs or is asked for."""
        return self.reconcile is None and not self._asked.is_set()

    @property
    def queue(self) -> int | None:
        return queue_length(str(self.run_dir / "lsyncd/status"))

    @property
    def report(self) -> dict[str, Any]:
        """Of the last reconcile."""
        try:
            found: dict[str, Any] = json.loads((self.state_dir / "reconcile.json").read_text())
        except FileNotFoundError:
            return {}
        return found

    def _program(self, *words: str) -> subprocess.Popen[bytes]:
        argv = [PYTHON, "-m", "vcrecovery.primary", *words, "--settings", str(self.folder / "sync.json")]
        env = {"PYTHONPATH": str(CHECKOUT / "controller/src"), "PYTHONDONTWRITEBYTECODE": "1"}
        return process.start(argv, self.log, env)

    def _start_lsyncd(self) -> None:
        (self.run_dir / "starting").touch()
        self.lsyncd = process.start(["/usr/bin/lsyncd", self.folder / "lsyncd.lua"], self.log)

    def _supervise(self) -> None:
        """vcrecovery-sync.service, and the paths and services of vcrecovery-reconcile and vcrecovery-find-receiver.

        `retry` stands for their RestartSec.
        """
        lsyncd_at = reconcile_at = float("inf")
        while not self._ended.wait(0.02):
            now = time.monotonic()
            if self.lsyncd is not None and self.lsyncd.poll() is not None:
                self.lsyncd, lsyncd_at = None, now + self.retry
            if now >= lsyncd_at:
                lsyncd_at = float("inf")
                self._start_lsyncd()
            if self.finds is not None and self.finds.poll() is not None:
                self.finds = None
            if self.finds is None and (self.run_dir / "lost").exists():
                self.finds = self._program("find-receiver")
            if self.reconcile is not None and self.reconcile.poll() is not None:
                if self.reconcile.returncode:
                    reconcile_at = now + self.retry
                self.reconcile = None
            waits = reconcile_at != float("inf") and now < reconcile_at
            wanted = self.due.exists() or self._asked.is_set() or now >= reconcile_at
            if self.reconcile is None and not waits and wanted:
                reconcile_at = float("inf")
                self.reconcile = self._program("reconcile")
                self.reconciles += 1
                self._asked.clear()
