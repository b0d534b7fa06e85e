"""A play on this machine, as a user without rights would run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml


def plays_here(folder: Path, play: list[dict[str, Any]], *words: str, **environment: str) -> str:
    """What ansible-playbook prints, which `words` go to. Collections are those below `folder`."""
    (folder / "play.yml").write_text(yaml.safe_dump(play))
    done = subprocess.run(
        [
            Path(sys.executable).with_name("ansible-playbook"),
            "-i",
            "localhost,",
            "-c",
            "local",
            folder / "play.yml",
            *words,
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=folder,
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(folder), **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
