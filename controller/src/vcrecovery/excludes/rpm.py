"""The RPM database, through librpm's own query: its formats differ from release to release."""

from __future__ import annotations

import os
import re
import subprocess
from typing import Dict, List, Optional, Tuple

from .errors import ExcludeError
from .packages import Alternative, Diversion, Package
from .readers import shown

_LOCATIONS = (b"usr/lib/sysimage/rpm", b"var/lib/rpm")
_FILES = (b"rpmdb.sqlite", b"Packages.db", b"Packages")
_TIMEOUT_SECONDS = 120

# Names may hold any byte but NUL, and a query cannot print NUL. `shescape` puts each name in quotes, so a
# newline inside a name is not taken for the end of it; the number of names is printed to check the reading.
_QUERY = "P\\t%{NAME}\\t%{ARCH}\\t%{VERSION}-%{RELEASE}\\t%{FILENAMES:arraysize}\\n[%{FILENAMES:shescape}\\n]E\\n"
_NAME = re.compile(rb"'([^']*(?:'\\''[^']*)*)'\n")
_BLOCK = re.compile(rb"((?:'[^']*(?:'\\''[^']*)*'\n)*)E\n")


def rpm_location(root: bytes) -> Optional[bytes]:
    """Where the root's RPM database is, as a path inside the root; None if it has none."""
    for location in _LOCATIONS:
        if any(os.path.lexists(os.path.join(root, location, name)) for name in _FILES):
            return b"/" + location
    return None


class RpmDatabase:
    """The packages below a root, read by one query; packages is empty for a database without any."""

    backend = "rpm"
    diversions: Tuple[Diversion, ...] = ()
    alternatives: Tuple[Alternative, ...] = ()

    def __init__(self, root: bytes, location: bytes) -> None:
        self._files = _parsed(_query(root, location), root)
        self.packages = tuple(self._files)

    def recorded(self, package: Package) -> List[bytes]:
        """The package's files (see PackageDatabase)."""
        return _names(self._files[package], package)


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
        raise ExcludeError(f"{shown(root)} holds an RPM database, but there is no rpm here: install rpm") from None
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
            f"rpm cannot read the database of {shown(root)} ({lines[0] if lines else 'no message'}): "
            f"run as root, or rpm --rebuilddb"
        )
    return result.stdout


def _parsed(output: bytes, root: bytes) -> Dict[Package, Tuple[int, bytes]]:
    """Each package with the number of its files and its still quoted block of names."""
    found: Dict[Package, Tuple[int, bytes]] = {}
    position = 0
    while position < len(output):
        end = output.find(b"\n", position)
        fields = output[position:end].split(b"\t")
        if end < 0 or len(fields) != 5 or fields[0] != b"P":
            raise ExcludeError(f"rpm's answer for {shown(root)} cannot be understood: rpm --rebuilddb")
        position = end + 1
        count = int(fields[4]) if fields[4].isdigit() else 0
        block = _BLOCK.match(output, position)
        if block is None:
            raise ExcludeError(f"rpm's answer for {shown(root)} ends too early: rpm --rebuilddb")
        package = Package(os.fsdecode(fields[1]), os.fsdecode(fields[2]), os.fsdecode(fields[3]))
        found[package] = (count, block.group(1))
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
