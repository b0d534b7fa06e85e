"""A real MariaDB with a data folder of its own, and a writer that tells what has been committed."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .waiting import wait_for

_TABLES = """
CREATE DATABASE IF NOT EXISTS vcrt;
CREATE TABLE vcrt.entries (id INT AUTO_INCREMENT PRIMARY KEY, name CHAR(36), text TEXT, KEY (name));
CREATE TABLE vcrt.total (entries INT);
INSERT INTO vcrt.total VALUES (0);
"""
#: One row more, and the total says so: never one without the other. The number is printed when that is committed.
_WRITE = (
    "BEGIN; INSERT INTO vcrt.entries (name, text) VALUES (UUID(), REPEAT(MD5(RAND()), 100)); "
    "SET @id = LAST_INSERT_ID(); "
    "UPDATE vcrt.entries SET name = UUID() WHERE id = 1 + FLOOR(RAND() * @id); "
    "UPDATE vcrt.total SET entries = entries + 1; COMMIT; SELECT @id;\n"
)


class Server:
    """mariadbd on a socket, in the foreground."""

    def __init__(self, data: Path, work: Path) -> None:
        self.data, self.work, self.socket = data, work, work / "socket"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def client(self) -> list[str]:
        return ["mariadb", "--no-defaults", f"--socket={self.socket}", "--batch", "--skip-column-names", "--unbuffered"]

    def install(self) -> None:
        command = ["mariadb-install-db", "--no-defaults", f"--datadir={self.data}", "--user=root", "--skip-test-db"]
        subprocess.run(command, check=True, capture_output=True, timeout=300)

    def start(self, seconds: float = 180) -> bool:
        """Whether it answers; it may not, with data that is no use."""
        self.work.mkdir(exist_ok=True)
        options = [
            f"--datadir={self.data}", f"--socket={self.socket}", f"--pid-file={self.work}/pid", "--user=root",
            "--skip-networking", "--innodb-buffer-pool-size=6M", "--innodb-log-file-size=4M",
            "--innodb-flush-log-at-trx-commit=1", "--innodb-lru-scan-depth=100",
        ]  # fmt: skip
        with (self.work / "log").open("wb") as log:
            process = self._process = subprocess.Popen(["mariadbd", "--no-defaults", *options], stdout=log, stderr=log)
        with suppress(AssertionError):  # it hangs
            wait_for(lambda: process.poll() is not None or self._answers(), "mariadbd", seconds)
        return self._answers()

    def _answers(self) -> bool:
        return self._ask("SELECT 1").returncode == 0

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def create(self) -> None:
        done = self._ask(_TABLES)
        assert done.returncode == 0, done.stderr

    def ask(self, query: str) -> list[str]:
        done = self._ask(query)
        if done.returncode:
            raise LookupError(done.stderr.strip())
        return done.stdout.splitlines()

    def _ask(self, query: str) -> subprocess.CompletedProcess[str]:
        command = [*self.client, "--execute", query]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


class Writer:
    """When each row was committed, by its number."""

    def __init__(self, server: Server) -> None:
        self.committed: dict[int, float] = {}
        self._client = subprocess.Popen(
            server.client, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._threads = [threading.Thread(target=self._write), threading.Thread(target=self._read)]
        for thread in self._threads:
            thread.start()

    def until(self, moment: float) -> int:
        """The last row that was committed before."""
        return max((number for number, at in self.committed.items() if at < moment), default=0)

    def longest_wait(self) -> float:
        """Between two commits."""
        times = sorted(self.committed.values())
        return max(later - earlier for earlier, later in itertools.pairwise(times))

    def end(self) -> None:
        self._client.kill()
        self._client.wait()
        for thread in self._threads:
            thread.join()

    def _write(self) -> None:
        assert self._client.stdin is not None
        try:
            with self._client.stdin as statements:
                while True:
                    statements.write(_WRITE)
                    statements.flush()
        except BrokenPipeError:
            pass

    def _read(self) -> None:
        assert self._client.stdout is not None
        with self._client.stdout as lines:
            for line in lines:
                self.committed[int(line)] = time.time()


@contextmanager
def writing(server: Server) -> Iterator[Writer]:
    """A server that was made anew, and is written to without a pause; both are killed in the middle of it."""
    server.install()
    try:
        assert server.start(), (server.work / "log").read_text()
        server.create()
        writer = Writer(server)
        try:
            yield writer
        finally:
            server.kill()
            writer.end()
    finally:
        server.kill()


def fault(data: Path, work: Path, at_least: int) -> str | None:
    """What is wrong with a copy of the data folder, as a server that is started on it finds; None if nothing is."""
    copy = work / "copy"
    shutil.copytree(data, copy)
    server = Server(copy, work)
    try:
        if not server.start():
            errors = [line for line in (work / "log").read_text(errors="replace").splitlines() if "[ERROR]" in line]
            return f"it does not start: {errors[0] if errors else '?'}"
        for table in ("entries", "total"):
            *_, verdict = server.ask(f"CHECK TABLE vcrt.{table} EXTENDED")
            if not verdict.endswith("status\tOK"):
                return verdict
        highest, count = server.ask("SELECT CONCAT(MAX(id), ' ', COUNT(*)) FROM vcrt.entries")[0].split()
        (total,) = server.ask("SELECT entries FROM vcrt.total")
        if not highest == count == total:
            return f"{count} rows up to {highest}, and a total of {total}"
        return None if int(highest) >= at_least else f"rows up to {highest}, {at_least} was committed before"
    except LookupError as error:
        return str(error)
    finally:
        server.kill()
        shutil.rmtree(copy)
