"""The RPM database, through librpm's own query: its formats differ from release to release.

Files marked %ghost are among the answers: the package owns them, whoever made them. The query takes no lock. On a
root whose database is SQLite's it leaves rpmdb.sqlite-wal and rpmdb.sqlite-shm beside it if they are not there, like
every rpm query: rpm keeps them so that users who may not write there can query too, and to take them away while
another rpm works would damage its database.
"""

from __future__ import annotations

import os
import re
import subprocess
from typing import Dict, List, Optional, Tuple

from .canonical import Canonical
from .errors import ExcludeError
from .packages import Alternative, Diversion, Package
from .readers import names_in, shown

_LOCATIONS = (b"/usr/lib/sysimage/rpm", b"/var/lib/rpm")
_SQLITE = b"rpmdb.sqlite"
_FILES = frozenset((_SQLITE, b"Packages.db", b"Packages"))
_TIMEOUT_SECONDS = 120

# Names may hold any byte but NUL, and a query cannot print NUL. `shescape` puts each name in quotes, so a
# newline inside a name is not taken for the end of it; the number of names is printed to check the reading.
_QUERY = "P\\t%{NAME}\\t%{ARCH}\\t%{VERSION}-%{RELEASE}\\t%{FILENAMES:arraysize}\\n[%{FILENAMES:shescape}\\n]E\\n"
_NAME = re.compile(rb"'([^']*(?:'\\''[^']*)*)'\n")
_BLOCK = re.compile(rb"((?:'[^']*(?:'\\''[^']*)*'\n)*)E\n")


def rpm_location(root: bytes) -> Optional[bytes]:
    """Where the root's RPM database is, as a path inside the root; None if it has none."""
    canonical = Canonical(root)
    # A set: where the one is a symlink to the other, as on Fedora, both are the same.
    places = sorted({canonical.directory(location) for location in _LOCATIONS})
    found = [place for place in places if _FILES.intersection(names_in(canonical.live(place), "RPM database"))]
    if len(found) > 1:
        raise ExcludeError(
            f"{shown(root)} holds two RPM databases, {shown(found[0])} and {shown(found[1])}: "
            f"move the one that rpm --eval %_dbpath does not name there out of the way"
        )
    return found[0] if found else None


class RpmDatabase:
    """The packages below a root, read by one query; packages is empty for a database without any."""

    backend = "rpm"
    diversions: Tuple[Diversion, ...] = ()
    alternatives: Tuple[Alternative, ...] = ()

    def __init__(self, root: bytes, location: bytes) -> None:
        _check_length(root.rstrip(b"/") + location + b"/" + _SQLITE)
        self._files = _parsed(_query(root, location), root)
        self.packages = tuple(self._files)

    def recorded(self, package: Package, checked: bool = True) -> List[bytes]:
        """The package's files (see PackageDatabase)."""
        return [name for block in self._files[package] for name in _names(block, package)]


def _check_length(path: bytes) -> None:
    # SQLite notices that pages are missing, but reads a part of the last page as if it were padded with zeros: rpm
    # then leaves out a package, and says nothing.
    try:
        with open(path, "rb") as stream:
            header = stream.read(18)
            length = os.fstat(stream.fileno()).st_size
    except OSError:
        return  # another format, or rpm finds the words
    page = int.from_bytes(header[16:], "big")
    if header.startswith(b"SQLite format 3\0") and length % (65536 if page == 1 else max(page, 1)):
        raise ExcludeError(f"RPM database {shown(path)} is truncated: restore it, or rpm --rebuilddb")


def _query(root: bytes, location: bytes) -> bytes:
    command = [b"rpm", b"--query", b"--all", b"--dbpath", location]
    if root.strip(b"/"):
        command += [b"--root", root]
    command += [b"--queryformat", os.fsencode(_QUERY)]
    environment = dict(os.environ, LC_ALL="C")
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=_TIMEOUT_SECONDS,
            check=False,
            env=environment,
        )
    except FileNotFoundError:
        raise ExcludeError(
            f"{shown(root)} holds an RPM database in {shown(location)}, but there is no rpm here to read it: "
            f"install rpm, or move the database away if nothing uses it"
        ) from None
    except subprocess.TimeoutExpired:
        raise ExcludeError(
            f"rpm did not answer within {_TIMEOUT_SECONDS} s for {shown(root)}: "
            f"end what holds the RPM database, or rpm --rebuilddb"
        ) from None
    except OSError as error:
        raise ExcludeError(f"rpm cannot be run ({error.strerror}): reinstall rpm") from None
    if result.returncode != 0 or b"error:" in result.stderr:
        lines = os.fsdecode(result.stderr).strip().splitlines()
        raise ExcludeError(
            f"rpm cannot read the database {shown(location)} of {shown(root)} "
            f"({shown(os.fsencode(lines[0])) if lines else 'no message'}): run as root, restore it, or rpm --rebuilddb"
        )
    return result.stdout


def _parsed(output: bytes, root: bytes) -> Dict[Package, List[Tuple[int, bytes]]]:
    """Each package with the number of its files and its still quoted block of names.

    Two packages may differ in nothing but their epoch; they count as one with the files of both.
    """
    found: Dict[Package, List[Tuple[int, bytes]]] = {}
    position = 0
    while position < len(output):
        end = output.find(b"\n", position)
        fields = output[position:end].split(b"\t")
        if end < 0 or len(fields) != 5 or fields[0] != b"P" or not (fields[4].isdigit() or fields[4] == b"(none)"):
            raise ExcludeError(f"rpm's answer for {shown(root)} cannot be understood: rpm --rebuilddb")
        position = end + 1
        count = int(fields[4]) if fields[4].isdigit() else 0
        block = _BLOCK.match(output, position)
        if block is None:
            raise ExcludeError(f"rpm's answer for {shown(root)} ends too early: rpm --rebuilddb")
        package = Package(os.fsdecode(fields[1]), os.fsdecode(fields[2]), os.fsdecode(fields[3]))
        found.setdefault(package, []).append((count, block.group(1)))
        position = block.end()
    return found


def _names(block: Tuple[int, bytes], package: Package) -> List[bytes]:
    count, quoted = block
    if not count:
        return []
    if b"\\'" in quoted:
        names = [name.replace(b"'\\''", b"'") for name in _NAME.findall(quoted)]
    else:
        names = quoted[1:-2].split(b"'\n'")
    if len(names) != count or not all(name.startswith(b"/") for name in names):
        raise ExcludeError(
            f"rpm names the files of package {package.label} in a way that cannot be read: "
            f"leave it out of the selection, or rename its files"
        )
    return names
