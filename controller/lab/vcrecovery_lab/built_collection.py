"""The collection as others get it: built into an archive, and installed from that into a place of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .layout import CHECKOUT
from .run import LabError


@dataclass(frozen=True)
class BuiltCollection:
    """`folder` holds the archive, the collections and Ansible's home; none of them is the checkout's."""

    folder: Path

    @property
    def archive(self) -> Path:
        (archive,) = self.folder.glob("vcrecovery-standby-*.tar.gz")
        return archive

    @property
    def collections(self) -> Path:
        return self.folder / "collections"

    @property
    def installed(self) -> Path:
        return self.collections / "ansible_collections/vcrecovery/standby"

    def ansible(
        self, program: str, *words: str | Path, before: Sequence[str] = (), timeout: float = 300, **environment: str
    ) -> str:
        """What `program` prints; `before` is put before it. Raises LabError with all of that when it fails."""
        command = [*before, str(Path(sys.executable).with_name(program)), *map(str, words)]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
                cwd=self.folder,
                env=self._environment() | environment,
            )
        except subprocess.TimeoutExpired as error:
            said = (error.stdout or b"") + (error.stderr or b"")
            raise LabError(
                f"{said.decode(errors='replace')}\n{' '.join(command)}: no end after {timeout:g} s"
            ) from error
        if done.returncode:
            raise LabError(done.stdout + done.stderr)
        return done.stdout

    def build(self) -> None:
        self.ansible("ansible-galaxy", "collection", "build", "--output-path", self.folder, CHECKOUT)

    def install(self) -> None:
        """Its dependencies are the checkout's own copies: nobody asks Galaxy."""
        install = ("collection", "install", "--no-deps", "--collections-path", self.collections)
        self.ansible("ansible-galaxy", *install, self.archive)
        for public in (CHECKOUT / ".ansible/collections/ansible_collections").iterdir():
            if public.name != "vcrecovery":
                (self.collections / "ansible_collections" / public.name).symlink_to(public)

    def _environment(self) -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")} | {
            "ANSIBLE_COLLECTIONS_PATH": str(self.collections),
            "ANSIBLE_HOME": str(self.folder / "ansible"),
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_PYTHON_INTERPRETER": "/usr/bin/python3",
        }


def build_and_install(folder: Path) -> BuiltCollection:
    built = BuiltCollection(folder)
    built.build()
    built.install()
    return built
