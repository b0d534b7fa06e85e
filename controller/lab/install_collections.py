"""Puts the Ansible collections where ansible.cfg looks for them.

The public ones are pinned in requirements.yml. They come from Galaxy where Galaxy can be reached; where only a Python
package index can, the same releases are taken out of the PyPI package `ansible` (only the wanted folders: 5 MB
instead of 500). The checkout itself becomes vcrecovery.standby by links, so that FQCNs resolve.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
TARGET = CHECKOUT / ".ansible" / "collections" / "ansible_collections"
# The release of the PyPI package `ansible` that carries the versions pinned in requirements.yml.
BUNDLE = "ansible==12.3.0"
OWN_PARTS = ("galaxy.yml", "meta", "playbooks", "plugins", "roles", "templates")


def installed(name: str) -> str | None:
    manifest = TARGET / name.replace(".", "/") / "MANIFEST.json"
    if not manifest.is_file():
        return None
    return str(json.loads(manifest.read_text())["collection_info"]["version"])


def link_checkout() -> None:
    own = TARGET / "vcrecovery" / "standby"
    own.mkdir(parents=True, exist_ok=True)
    for part in OWN_PARTS:
        link = own / part
        if link.is_symlink() and link.resolve() == CHECKOUT / part:
            continue
        link.unlink(missing_ok=True)
        link.symlink_to(CHECKOUT / part)


def take_from_bundle(wanted: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--dest", scratch, BUNDLE], check=True, timeout=600)
        (wheel,) = Path(scratch).glob("*.whl")
        prefixes = tuple(f"ansible_collections/{name.replace('.', '/')}/" for name in wanted)
        with zipfile.ZipFile(wheel) as archive:
            members = [name for name in archive.namelist() if name.startswith(prefixes)]
            archive.extractall(TARGET.parent, members)


def main() -> int:
    TARGET.mkdir(parents=True, exist_ok=True)
    link_checkout()
    pins = {c["name"]: c["version"] for c in yaml.safe_load((CHECKOUT / "requirements.yml").read_text())["collections"]}
    wanted = {name: version for name, version in pins.items() if installed(name) != version}
    if wanted:
        sys.stderr.write(f"Ansible collections: {', '.join(wanted)}\n")
        take_from_bundle(wanted)
    wrong = [f"{n} is {installed(n)}, not {v}" for n, v in pins.items() if installed(n) != v]
    if wrong:
        sys.stderr.write(f"setup: {BUNDLE} does not carry what requirements.yml pins: {'; '.join(wrong)}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
