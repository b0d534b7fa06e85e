"""What a package database offers to the rest of this package, whatever its format."""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Protocol, Sequence, Tuple


class Package(NamedTuple):
    """One installed package; two architectures of one name are two packages."""

    name: str
    arch: str
    version: str

    @property
    def label(self) -> str:
        """The name with its architecture, as the package managers write it."""
        return self.name + ":" + self.arch if self.arch else self.name


class Diversion(NamedTuple):
    """Files recorded at `original` are at `diverted`, except those of `owner` (None: of every package)."""

    original: bytes
    diverted: bytes
    owner: Optional[str]


class Alternative(NamedTuple):
    """A link that one of several files stands behind: `link` -> /etc/alternatives/`name` -> a choice."""

    name: bytes
    link: bytes
    choices: Tuple[bytes, ...]


class PackageDatabase(Protocol):
    """An installed-package database below one root; all of its paths are absolute and as recorded."""

    @property
    def backend(self) -> str:
        """`dpkg` or `rpm`."""

    @property
    def packages(self) -> Sequence[Package]:
        """Every package that can have files on the disk."""

    @property
    def diversions(self) -> Sequence[Diversion]:
        """The diversions in force."""

    @property
    def alternatives(self) -> Sequence[Alternative]:
        """The alternatives, masters and slaves alike."""

    def recorded(self, package: Package, checked: bool = True) -> List[bytes]:
        """The paths recorded for one package, directories included; may hold empty lines and `/.`.

        ExcludeError if the record is damaged. If it does not have to be `checked`, since the package's regular files
        are its alone, some ways to be damaged are not looked for.
        """
