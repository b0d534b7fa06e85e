"""Finds the package database of a root."""

from __future__ import annotations

from typing import Union

from .dpkg import DpkgDatabase, has_dpkg
from .errors import ExcludeError
from .readers import shown
from .rpm import RpmDatabase, rpm_location

Database = Union[DpkgDatabase, RpmDatabase]


def open_database(root: bytes) -> Database:
    """The one database of the root; ExcludeError for none, or for two that both name packages."""
    location = rpm_location(root)
    if has_dpkg(root):
        database = DpkgDatabase(root)
        # Debian's own rpm package leaves an empty RPM database behind, which does not count.
        others = len(RpmDatabase(root, location).packages) if location is not None else 0
        if location is not None and others:
            raise ExcludeError(
                f"{shown(root)} holds packages in two databases, dpkg ({len(database.packages)} packages) and RPM in "
                f"{shown(location)} ({others}): move the one away that does not run this system"
            )
        return database
    if location is None:
        raise ExcludeError(f"{shown(root)} holds no package database (dpkg or RPM): name the root of a system")
    found = RpmDatabase(root, location)
    if not found.packages:
        raise ExcludeError(f"the RPM database of {shown(root)} names no package: name the root of a system")
    return found


def backend_of(root: bytes) -> str:
    """Whose database the root has, without reading it: `dpkg`, `rpm` or `none`."""
    if has_dpkg(root):
        return "dpkg"
    return "rpm" if rpm_location(root) is not None else "none"
