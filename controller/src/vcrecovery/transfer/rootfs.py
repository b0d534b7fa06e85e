"""Writes a few files into a standby's tree.

The tree comes from the primary, so any folder in it may be a symbolic link to somewhere else. Nothing here follows one.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from vcrecovery.errors import ExternalError

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def on_disk(number: int, kind: str, id_map: Sequence[Mapping[str, Any]]) -> int:
    """The owner that user (`kind` Isuid) or group (Isgid) `number` of the container has on disk."""
    for entry in id_map:
        offset = number - int(entry["Nsid"])
        if entry.get(kind) and 0 <= offset < int(entry["Maprange"]):
            return int(entry["Hostid"]) + offset
    if id_map:
        raise ExternalError(f"the container's ID map has no place for {number}", "check its security.idmap settings")
    return number


class Rootfs:
    """The tree of one standby, with its ID map."""

    def __init__(self, path: Path, id_map: Sequence[Mapping[str, Any]]) -> None:
        self.path = path
        self._uid = on_disk(0, "Isuid", id_map)
        self._gid = on_disk(0, "Isgid", id_map)

    @contextmanager
    def _parent(self, inside: str, make: bool = True) -> Iterator[tuple[int, str]]:
        """The open folder that holds `inside`, made as needed if `make`, and the last part of the name.

        With `make`, whatever goes wrong in the block is an ExternalError.
        """
        parts = PurePosixPath(inside).parts[1:]
        here = os.open(self.path, _DIRECTORY)
        try:
            for part in parts[:-1]:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, 0o755, dir_fd=here)
                try:
                    below = os.open(part, _DIRECTORY, dir_fd=here)
                except OSError as error:
                    raise ExternalError(
                        f"{self.path}{inside}: {part} is no folder, or a link that is not followed",
                        "inspect that tree; the primary made it so",
                    ) from error
                os.close(here)
                here = below
                if make:
                    self._own(here)
            yield here, parts[-1]
        except OSError as error:
            if not make:
                raise
            raise ExternalError(
                f"{self.path}{inside} cannot be written: {(error.strerror or str(error)).lower()}",
                "see what its primary has there, and whether the disk is full",
            ) from error
        finally:
            os.close(here)

    def _own(self, folder: int) -> bool:
        """Gives a folder that was just made to the container's root, also if whoever made it did not live to do so.

        In a tree that is shifted nothing can belong to this machine's root. Whether that changed anything.
        """
        if os.fstat(folder).st_uid != os.geteuid() or self._uid == os.geteuid():
            return False
        os.fchown(folder, self._uid, self._gid)
        return True

    def folder(self, inside: str, mode: int = 0o755) -> bool:
        """Makes sure that the folder is there; whether that changed anything."""
        with self._parent(inside) as (parent, name):
            changed = True
            try:
                os.mkdir(name, mode, dir_fd=parent)
            except FileExistsError:
                changed = False
                there = os.stat(name, dir_fd=parent, follow_symlinks=False)
                if not stat.S_ISDIR(there.st_mode):
                    return False
            folder = os.open(name, _DIRECTORY, dir_fd=parent)
            try:
                changed = self._own(folder) or changed
                if stat.S_IMODE(os.fstat(folder).st_mode) != mode:
                    os.fchmod(folder, mode)
                    changed = True
            finally:
                os.close(folder)
            return changed

    def file(self, inside: str, content: bytes, mode: int = 0o644) -> bool:
        """Makes sure that the file holds `content`; whether that changed anything."""
        with self._parent(inside) as (parent, name):
            if self._read(parent, name, len(content) + 1) == content:
                return False
            scratch = f".{name}.vcrecovery"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                made = os.open(scratch, flags, mode, dir_fd=parent)
            except FileExistsError:
                # Of a run that was killed; or the primary's doing: a pipe, or a device that is this machine's disk.
                os.unlink(scratch, dir_fd=parent)
                made = os.open(scratch, flags, mode, dir_fd=parent)
            with os.fdopen(made, "wb") as out:
                os.fchmod(out.fileno(), mode)
                os.fchown(out.fileno(), self._uid, self._gid)
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
            os.rename(scratch, name, src_dir_fd=parent, dst_dir_fd=parent)
            return True

    def link(self, inside: str, target: str) -> bool:
        """Makes sure that `inside` is a symbolic link to `target`; whether that changed anything."""
        with self._parent(inside) as (parent, name):
            try:
                if os.readlink(name, dir_fd=parent) == target:
                    return False
            except OSError:
                pass
            scratch = f".{name}.vcrecovery"
            try:
                os.symlink(target, scratch, dir_fd=parent)
            except FileExistsError:
                os.unlink(scratch, dir_fd=parent)
                os.symlink(target, scratch, dir_fd=parent)
            os.chown(scratch, self._uid, self._gid, dir_fd=parent, follow_symlinks=False)
            os.rename(scratch, name, src_dir_fd=parent, dst_dir_fd=parent)
            return True

    def holds_files(self, inside: str) -> bool:
        """Whether a regular file is in the folder or, three levels deep, below it."""
        try:
            with self._parent(inside, make=False) as (parent, name):
                return _has_file(parent, name, depth=3)
        except (ExternalError, OSError):
            return False

    def is_there(self, inside: str) -> bool:
        """Whether anything of that name is, also a symbolic link that leads nowhere."""
        try:
            with self._parent(inside, make=False) as (parent, name):
                os.lstat(name, dir_fd=parent)
        except (ExternalError, OSError):
            return False
        return True

    def read(self, inside: str, at_most: int = -1) -> bytes | None:
        """The content of a regular file, or None; with `at_most` no more bytes than that, however large it is."""
        try:
            with self._parent(inside, make=False) as (parent, name):
                return self._read(parent, name, at_most)
        except (ExternalError, OSError):
            return None

    @staticmethod
    def _read(parent: int, name: str, at_most: int = -1) -> bytes | None:
        try:
            # Not opened before it is known to be a file: to open a device may do something by itself.
            handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        except OSError:
            return None
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return None
            with open(f"/proc/self/fd/{handle}", "rb") as file:  # noqa: PTH123  there is no quicker one
                return file.read(at_most)
        except OSError:
            return None
        finally:
            os.close(handle)


def _has_file(parent: int, name: str, depth: int) -> bool:
    here = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        with os.scandir(here) as found:
            entries = list(itertools.islice(found, 1000))
        if any(entry.is_file(follow_symlinks=False) for entry in entries):
            return True
        folders = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        return depth > 0 and any(_has_file(here, folder, depth - 1) for folder in folders)
    finally:
        os.close(here)
