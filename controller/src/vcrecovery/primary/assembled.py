"""The synced tree with snapshots in the place of what they are of, seen by this process and those it starts only."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Iterator, List, Optional

from .mounts import is_under
from .namespace import bind, mount_empty, mount_read_only, private_mounts
from .programs import ProgramError
from .snapshots import Snapshot


@contextlib.contextmanager
def assembled(source: str, run_dir: str, taken: List[Snapshot]) -> Iterator[str]:
    """The path of the tree; what is not from a snapshot is live, as it is in the source."""
    source, view = os.path.realpath(source), os.path.join(os.path.realpath(run_dir), "view")
    os.makedirs(view, mode=0o700, exist_ok=True)
    try:
        holder = _holder(source, taken)
        with private_mounts():
            mount_empty(view)
            tree = _folder(view, "tree")
            places = {snapshot: _place(snapshot, view, number) for number, snapshot in enumerate(taken)}
            if holder is None:
                bind(source, tree)
            else:
                bind(os.path.join(places[holder], os.path.relpath(source, holder.origin)), tree)
                _put_back(holder, source, tree)
            # Outer ones come first, so that none hides what is in the place of an inner one.
            for snapshot, place in places.items():
                if snapshot is not holder:
                    bind(place, _in(tree, snapshot.origin, source))
                    _put_back(snapshot, source, tree)
            yield tree
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(view)


def _holder(source: str, taken: List[Snapshot]) -> Optional[Snapshot]:
    """The snapshot that the top of the source is in."""
    around = [snapshot for snapshot in taken if is_under(source, snapshot.origin)]
    if not around:
        return None
    inner = around[-1]
    apart = [path for path in inner.live if is_under(source, path)]
    if apart:
        raise ProgramError(f"{apart[0]} is not in the snapshot of {inner.origin}: list it in consistency.mounts")
    if len(around) > 1:
        raise ProgramError(f"{around[0].origin} holds nothing that is synced: remove it from consistency.mounts")
    return inner


def _place(snapshot: Snapshot, view: str, number: int) -> str:
    if not snapshot.kind:
        return snapshot.place
    folder = _folder(view, str(number))
    mount_read_only(snapshot.place, folder, snapshot.kind, snapshot.options)
    return os.path.join(folder, snapshot.root.strip("/"))


def _put_back(snapshot: Snapshot, source: str, tree: str) -> None:
    for path in snapshot.live:
        if not is_under(path, source) or path == source:
            continue
        try:
            bind(path, _in(tree, path, source))
        except ProgramError as error:
            # Unmounted, and removed, since the snapshot was made.
            if error.status != errno.ENOENT:
                raise


def _in(tree: str, path: str, source: str) -> str:
    return os.path.join(tree, os.path.relpath(path, source))


def _folder(view: str, name: str) -> str:
    path = os.path.join(view, name)
    os.mkdir(path, mode=0o700)
    return path
