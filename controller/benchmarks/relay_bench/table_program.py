"""A libvirtGuestTable for snmpd's `pass_persist`: `python3 table_program.py FILE`. Standard library only.

FILE is a JSON document that may be replaced at any time; see `agents.Table`.
"""

import bisect
import json
import os
import sys
import time
import uuid

_KINDS = {2: "string", 3: "integer", 4: "unsigned", 7: "counter64"}
Key = tuple[int, ...]


class _Source:
    """The file's cells, read again when it was replaced; from a copy, also the file is looked at only then."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._cells: dict[Key, tuple[str, int, object]] = {}
        self._keys: list[Key] = []
        self._copy_lives: float | None = None
        self._copied_at = float("-inf")

    def refresh(self) -> None:
        if self._copy_lives is not None and time.monotonic() - self._copied_at <= self._copy_lives:
            return
        self._copied_at = time.monotonic()
        found = os.stat(self._path)
        version = (found.st_ino, found.st_mtime_ns)
        if version == self._seen:
            return
        self._seen = version
        with open(self._path) as file:
            document = json.load(file)
        self._copy_lives = document["copy"]
        root = (1, 3, 6, 1, 4, 1, document["enterprise"], 1)
        self._cells = {}
        if document["libvirt"] is not None:
            self._cells[(*root, 2, 4, 0)] = ("integer", document["libvirt"], None)
        for row in document["rows"]:
            index = tuple(uuid.UUID(row["uuid"]).bytes)
            for column, value in ((2, row["name"]), (3, row["state"]), (4, row["vcpus"]), (7, row["cpu_time"])):
                rate = (row["rate"], document["since"]) if column == 7 else None
                self._cells[(*root, 1, 1, column, *index)] = (_KINDS[column], value, rate)
        self._keys = sorted(self._cells)

    def answer(self, command: str, oid: Key) -> str:
        self.refresh()
        key: Key | None = oid if oid in self._cells else None
        if command == "getnext":
            place = bisect.bisect_right(self._keys, oid)
            key = self._keys[place] if place < len(self._keys) else None
        if key is None:
            return "NONE"
        kind, value, rate = self._cells[key]
        if isinstance(rate, tuple):
            moment = time.monotonic() if self._copy_lives is None else self._copied_at
            value += int(rate[0] * (moment - rate[1]))
        return f".{'.'.join(map(str, key))}\n{kind}\n{value}"


def main() -> None:
    source = _Source(sys.argv[1])
    while line := sys.stdin.readline():
        command = line.strip()
        if command == "PING":
            answer = "PONG"
        elif command in ("get", "getnext"):
            oid = sys.stdin.readline().strip().strip(".")
            answer = source.answer(command, tuple(int(part) for part in oid.split(".")))
        else:
            answer = "NONE"
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
