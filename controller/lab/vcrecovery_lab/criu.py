"""A CRIU that knows this machine's kernel: Debian's next one, with its own C library.

Debian 12's (3.17) knows no vDSO of kernels from 6.14 on, and 4.1 asks for socket options that 6.16 refuses.
"""

from __future__ import annotations

from pathlib import Path

from .other_release import unpacked

CACHE = Path("/var/cache/vcrecovery-lab-criu")
_STARTER = """\
#!/bin/sh
here={root}
exec $here/usr/lib64/ld-linux-x86-64.so.2 --library-path $here/usr/lib/x86_64-linux-gnu $here/usr/sbin/criu "$@"
"""


def criu_folder() -> Path:
    """A folder with a program `criu`. Raises LabError when it cannot be had."""
    return unpacked(CACHE, "forky", ["criu"], with_all=True, add=_add_starter) / "bin"


def _add_starter(made: Path, in_the_end: Path) -> None:
    starter = made / "bin/criu"
    starter.parent.mkdir()
    starter.write_text(_STARTER.format(root=in_the_end / "root"))
    starter.chmod(0o755)
