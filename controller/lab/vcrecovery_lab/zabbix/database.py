"""A PostgreSQL of its own, on a Unix socket only."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

from vcrecovery_lab.run import run

from .process import AS_USER, USER, Child

#: What is lost with the power is made anew: quick instead of durable. The names of sockets are limited to 107 bytes.
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "shared_buffers": "64MB",
    "max_connections": "100",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


class Database:
    """`data` is its folder, `run_folder` holds its socket and its log."""

    def __init__(self, programs: Path, env: Mapping[str, str], data: Path, run_folder: Path) -> None:
        self._programs, self._env, self._data = programs, env, data
        self.socket_folder = run_folder
        self.log = run_folder / "postgres.log"
        self.child: Child | None = None

    def create(self) -> None:
        """An empty one."""
        self._data.mkdir(mode=0o700)
        shutil.chown(self._data, USER)
        options = ("--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync")
        command: list[str | Path] = [*AS_USER, self._programs / "initdb", f"--pgdata={self._data}", *options]
        run(command, timeout=120, env=self._env)

    def start(self) -> None:
        """Returns when it answers. Raises LabError with its last words if it does not come up."""
        settings = {**_SETTINGS, "unix_socket_directories": str(self.socket_folder)}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command: list[str | Path] = [self._programs / "postgres", "-D", self._data, *words]
        # SIGINT: a fast shutdown, which waits for no client.
        self.child = Child("PostgreSQL", command, self.log, env=self._env, stop=signal.SIGINT)
        self.child.wait_until_ready(self._answers)

    def stop(self) -> None:
        if self.child is not None:
            self.child.end()
            self.child = None

    def ask(self, statements: str, *, user: str = "postgres", database: str = "zabbix", timeout: float = 60) -> str:
        """What SQL prints, fields by `|`. Raises LabError with the server's word for what is wrong."""
        options = ("--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--set=ON_ERROR_STOP=1")
        where = (f"--host={self.socket_folder}", f"--username={user}", f"--dbname={database}")
        command: list[str | Path] = [self._programs / "psql", *options, *where, "--file=-"]
        return run(command, timeout=timeout, stdin=statements, env=self._env).stdout

    def _answers(self) -> bool:
        program = self._programs / "pg_isready"
        command: list[str | Path] = [program, "--quiet", f"--host={self.socket_folder}", "--timeout=5"]
        return run(command, timeout=30, env=self._env, check=False).returncode == 0
