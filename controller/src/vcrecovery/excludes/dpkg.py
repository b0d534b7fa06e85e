"""The dpkg database, read as files, so that a root without a working dpkg can be read too."""

from __future__ import annotations

import os
import re
from operator import itemgetter
from typing import Dict, List, NamedTuple, Optional, Set, Tuple

from .canonical import Canonical
from .errors import ExcludeError
from .packages import Alternative, Diversion, Package
from .readers import names_in, read_bytes, read_if_there, shown

_FIELD = re.compile(rb"^(Package|Status|Architecture|Version|Multi-Arch|Conffiles):[ \t]*(.*?)[ \t]*$", re.M)

#: A line that neither is a field nor goes on with one.
_NO_FIELD = re.compile(rb"\n([^ \t\n:][^:\n]*)(?=\n)")

#: States in which dpkg has unpacked the package, so that it must have a list of its files.
_UNPACKED = frozenset((b"installed", b"unpacked", b"half-configured", b"triggers-awaited", b"triggers-pending"))
#: States in which files may be on the disk, but the list may be gone.
_LEFTOVERS = frozenset((b"config-files", b"half-installed"))


#: The path in a line of an .md5sums file: 32 digits, two spaces, the path without its first slash.
_SUMMED = itemgetter(slice(34, None))


class _Stanza(NamedTuple):
    """What the status file says of a package, beside its name."""

    state: bytes
    shares_files: bool
    has_conffiles: bool


def dpkg_directory(root: bytes) -> bytes:
    """Where the dpkg database of a root is, also when the way there leads through symlinks of the root."""
    canonical = Canonical(root)
    return canonical.live(canonical.directory(b"/var/lib/dpkg"))


def has_dpkg(root: bytes) -> bool:
    """True if the root holds a dpkg status file, readable or not."""
    return os.path.lexists(os.path.join(dpkg_directory(root), b"status"))


class DpkgDatabase:
    """The packages below a root; the constructor reads everything but the lists, which are read on demand."""

    backend = "dpkg"

    def __init__(self, root: bytes) -> None:
        self._canonical = Canonical(root)
        self._directory = dpkg_directory(root)
        self._states: Dict[Package, _Stanza] = {}
        self._read_status()
        self._info = self._list_names()
        self.packages = tuple(self._states)
        self.diversions = self._read_diversions()
        self.alternatives = self._read_alternatives()
        self._check_orphans()

    def recorded(self, package: Package, checked: bool = True) -> List[bytes]:
        """The lines of the package's list (see PackageDatabase)."""
        stanza = self._states[package]
        name = self._list_name(package)
        if name is None:
            if stanza.state in _UNPACKED:
                raise ExcludeError(
                    f"package {package.label} has no list of files in {shown(self._directory)}/info: reinstall it"
                )
            return []
        path = os.path.join(self._directory, b"info", name)
        data = read_bytes(path, "list of files")
        if not data and (stanza.state not in _UNPACKED or not (stanza.has_conffiles or _sums_beside(path))):
            return []  # some packages have no files: nothing tells of any that this list lost
        # Every line is one absolute path: dpkg itself refuses a newline in a name.
        lines = data.split(b"\n")
        if data[:1] != b"/" or lines[-1] or data.count(b"\n/") + 2 != len(lines):
            raise ExcludeError(
                f"list of files {shown(path)} is truncated or damaged: reinstall package {package.label}"
            )
        self._check_against_sums(package, path, data, every=checked or stanza.shares_files)
        return lines

    def _check_against_sums(self, package: Package, path: bytes, data: bytes, every: bool) -> None:
        # A list cut between two lines looks whole; the package's own checksums, if it has any, give it away. A sum
        # for something that is not there is no proof: some packages are built with sums of files they do not have.
        sums = _sums_beside(path)
        if not sums:
            return
        if not every:
            # Both are sorted, nearly: a list that lost its end lacks the file of the last sum.
            sums = sums[sums.rfind(b"\n", 0, -1) + 1 :]
        for name in sorted(set(map(_SUMMED, sums.split(b"\n"))).difference(data[1:-1].split(b"\n/"))):
            lost = b"/" + (name[2:] if name.startswith(b"./") else name.lstrip(b"/"))
            if lost != b"/" and b"\n" + lost + b"\n" not in data and self._is_there(lost):
                raise ExcludeError(
                    f"list of files {shown(path)} is truncated, it lacks {shown(lost)}: reinstall package "
                    f"{package.label}, or remove its .md5sums file if that is the wrong one"
                )

    def _is_there(self, path: bytes) -> bool:
        return os.path.lexists(self._canonical.live(self._canonical.path(path)))

    def _read_status(self) -> None:
        path = os.path.join(self._directory, b"status")
        stanzas = dict(_packages_in(read_bytes(path, "package database"), path))
        # A dpkg that is running, or was killed, leaves the changes since the last status in numbered files.
        updates = os.path.join(self._directory, b"updates")
        for name in names_in(updates, "dpkg's journal"):
            if name.isdigit():
                entry = os.path.join(updates, name)
                for package, state in _packages_in(read_bytes(entry, "dpkg's journal"), entry):
                    for old in [p for p in stanzas if p[:2] == package[:2]]:
                        del stanzas[old]
                    stanzas[package] = state
        self._known = {os.fsencode(name) for p in stanzas for name in (p.name, p.label)}
        self._states = {p: s for p, s in stanzas.items() if s.state in _UNPACKED or s.state in _LEFTOVERS}
        if not self._states:
            raise ExcludeError(f"package database {shown(path)} names no installed package: name the root of a system")

    def _list_names(self) -> Set[bytes]:
        names = names_in(os.path.join(self._directory, b"info"), "directory of the lists")
        return {name for name in names if name.endswith(b".list")}

    def _list_name(self, package: Package) -> Optional[bytes]:
        plain = os.fsencode(package.name) + b".list"
        qualified = os.fsencode(package.label) + b".list"
        same = self._states[package].shares_files
        for name in (qualified, plain) if same else (plain, qualified):
            if name in self._info:
                return name
        return None

    def _check_orphans(self) -> None:
        # A status file cut between two packages looks whole; the lists of the lost packages give it away.
        for name in sorted(self._info):
            if name[:-5] not in self._known:
                raise ExcludeError(
                    f"package database {shown(self._directory)}/status does not name the package of "
                    f"info/{shown(name)}, it may be truncated: compare it with status-old"
                )

    def _read_diversions(self) -> Tuple[Diversion, ...]:
        path = os.path.join(self._directory, b"diversions")
        lines = (read_if_there(path, "list of diversions") or b"").split(b"\n")
        if lines.pop() or len(lines) % 3:
            raise ExcludeError(f"list of diversions {shown(path)} is truncated: compare it with diversions-old")
        return tuple(
            Diversion(lines[at], lines[at + 1], None if lines[at + 2] == b":" else os.fsdecode(lines[at + 2]))
            for at in range(0, len(lines), 3)
        )

    def _read_alternatives(self) -> Tuple[Alternative, ...]:
        directory = os.path.join(self._directory, b"alternatives")
        found: List[Alternative] = []
        for name in names_in(directory, "directory of the alternatives"):
            path = os.path.join(directory, name)
            if name.endswith(b".dpkg-tmp") or not os.path.isfile(path):
                continue
            found.extend(_alternatives_in(name, read_bytes(path, "alternatives"), path))
        return tuple(found)


def _sums_beside(path: bytes) -> Optional[bytes]:
    """The package's own checksums, if it has any, by the place of its list."""
    return read_if_there(path[: -len(b"list")] + b"md5sums", "list of checksums")


def _packages_in(data: bytes, path: bytes) -> List[Tuple[Package, _Stanza]]:
    """What each stanza of a status file says."""
    found = []
    if data.strip() and not data.endswith(b"\n"):
        raise ExcludeError(f"package database {shown(path)} is truncated: compare it with status-old")
    stray = _NO_FIELD.search(b"\n" + data)
    if stray:
        raise ExcludeError(
            f"package database {shown(path)} is truncated or damaged near {shown(stray.group(1)[:40])}: "
            f"compare it with status-old"
        )
    for stanza in data.strip(b"\n").split(b"\n\n"):
        if not stanza.strip():
            continue
        fields = dict(_FIELD.findall(stanza))
        status = fields.get(b"Status", b"").split()
        name = fields.get(b"Package", b"")
        if not name or len(status) != 3 or stanza.count(b"\nPackage:") > (not stanza.startswith(b"Package:")):
            raise ExcludeError(
                f"package database {shown(path)} is truncated or damaged near package "
                f"{shown(name) if name else '(no name)'}: compare it with status-old"
            )
        version = fields.get(b"Version", b"")
        if status[2] in _UNPACKED and not (version and fields.get(b"Architecture")):
            raise ExcludeError(
                f"package database {shown(path)} is truncated in package {shown(name)}: compare it with status-old"
            )
        package = Package(os.fsdecode(name), os.fsdecode(fields.get(b"Architecture", b"")), os.fsdecode(version))
        found.append((package, _Stanza(status[2], fields.get(b"Multi-Arch") == b"same", b"Conffiles" in fields)))
    return found


def _alternatives_in(name: bytes, data: bytes, path: bytes) -> List[Alternative]:
    """The master and the slaves of one file of update-alternatives."""
    lines = data.split(b"\n")
    damaged = ExcludeError(
        f"alternatives {shown(path)} are truncated or damaged: reinstall the packages that offer them"
    )
    try:
        position = 1
        groups: List[Tuple[bytes, bytes, List[bytes]]] = [(name, lines[position], [])]
        position += 1
        while lines[position]:
            groups.append((lines[position], lines[position + 1], []))
            position += 2
        position += 1
        while lines[position]:
            groups[0][2].append(lines[position])
            position += 2  # the choice and its priority
            for _, _, choices in groups[1:]:
                if lines[position]:
                    choices.append(lines[position])
                position += 1
    except IndexError:
        raise damaged from None
    # After the last choice comes an empty line: without it, choices may be missing.
    if lines[0] not in (b"auto", b"manual") or lines[position + 1 :] != [b""]:
        raise damaged
    return [Alternative(group, link, tuple(choices)) for group, link, choices in groups]
