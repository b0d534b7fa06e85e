"""What the watcher knows now, for other programs: a file in the state folder, and no history."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import TypeAdapter

from vcrecovery.errors import ExternalError, what_helps

T = TypeVar("T")


class Noted(Generic[T]):
    """By name."""

    def __init__(self, path: Path, form: TypeAdapter[dict[str, T]]) -> None:
        self._path, self._form = path, form

    def write(self, found: Mapping[str, T]) -> None:
        """Raises ExternalError."""
        scratch = self._path.with_suffix(".new")
        try:
            # Not on the disk at once: after a reboot it says nothing of now.
            scratch.write_bytes(self._form.dump_json(dict(found)))
            scratch.replace(self._path)
        except OSError as error:
            raise ExternalError(f"{self._path} cannot be written: {error.strerror}", what_helps(error)) from error

    def all(self) -> dict[str, T]:
        """Nothing where it cannot be read: the watcher, which cannot write it either, says so."""
        try:
            return self._form.validate_json(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
