"""Where reports are kept: three files a day, each whole or not there."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from vcrecovery.errors import ExternalError

_NAME = re.compile(r"^report-(\d{4}-\d{2}-\d{2})\.json$")
#: Bytes. A thousand services over a year have less; whoever writes more there is not us.
_LARGEST = 256 * 2**20


def write(directory: Path, day: date, texts: Mapping[str, str]) -> list[Path]:
    """By suffix, such as `html`. Raises ExternalError; what is there already is whole."""
    try:
        # Names of services, and what they cost: not for everybody.
        directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        with _alone(directory):
            return [_written(directory / f"report-{day}.{suffix}", text) for suffix, text in texts.items()]
    except OSError as error:
        raise ExternalError(
            f"the report cannot be written to {directory}: {error.strerror}", "free some space or correct its rights"
        ) from error


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """The timer may write while somebody does so by hand. The lock ends with its program."""
    number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def _written(file: Path, text: str) -> Path:
    # Always the same name: what a killed program left is overwritten by the next one.
    new = file.with_name(f".{file.name}.new")
    try:
        number = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640)
        with os.fdopen(number, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        new.replace(file)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    return file


def newest_before(directory: Path, day: date) -> tuple[str, Mapping[str, Any] | None]:
    """The name of the newest report of an earlier day, and what is in it; empty where there is none.

    None where it cannot be read: then nothing is compared.
    """
    names = _earlier(directory, day)
    return (names[0], _read(directory / names[0])) if names else ("", None)


def newest_scheduled(directory: Path, day: date) -> Mapping[str, Any] | None:
    """What is in the newest scheduled report of an earlier day; None where there is none that can be read."""
    found = (_read(directory / name) for name in _earlier(directory, day))
    return next((data for data in found if data is not None and data.get("scheduled") is True), None)


def _earlier(directory: Path, day: date) -> list[str]:
    """The names of those of earlier days, newest first."""
    try:
        names = [entry.name for entry in directory.iterdir()]
    except OSError:
        return []
    return sorted((name for name in names if (found := _NAME.match(name)) and found[1] < day.isoformat()), reverse=True)


def _read(file: Path) -> Mapping[str, Any] | None:
    try:
        data = json.loads(file.read_text(encoding="utf-8")) if file.stat().st_size <= _LARGEST else None
    except (OSError, ValueError, RecursionError):
        data = None
    return data if isinstance(data, Mapping) else None
