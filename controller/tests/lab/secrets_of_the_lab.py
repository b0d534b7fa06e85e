"""What nobody may ever read in an output of the lab, and where it was seen."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .conftest import Lab
from .meanwhile import all_along


def secrets_of(lab: Lab) -> dict[str, bytes]:
    """What it is -> its most telling line."""
    config = lab.layout.config_dir
    files = {path.name: path.read_text() for path in [*config.glob("tsig/*.key"), *config.glob("**/*host*key")]}
    files["the VM's sync key"] = lab.primary("cat /etc/vcrecovery/sync_key")
    assert len(files) > 2, f"the lab keeps its secrets elsewhere by now: {sorted(files)}"
    return {what: max(text.splitlines(), key=len).strip().encode() for what, text in files.items()}


def told(secrets: dict[str, bytes], outputs: Iterable[tuple[str, bytes]]) -> set[str]:
    """Which secret is where: as it is, or as Ansible's `slurp` brings it."""
    found = set()
    for where, output in outputs:
        for what, secret in secrets.items():
            # Whatever comes before it in the file, one of the three is what base64 makes of it.
            encoded = [base64.b64encode(b"x" * before + secret)[4 * bool(before) : -4] for before in range(3)]
            if any(form in output for form in (secret, *encoded)):
                found.add(f"{what} in {where}")
    return found


@contextmanager
def command_lines() -> Iterator[set[bytes]]:
    """Those of all processes that run within, as far as one can look quickly enough."""
    seen: set[bytes] = set()

    def look() -> None:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                seen.add(path.read_bytes())

    with all_along(look, 0.1):
        yield seen
