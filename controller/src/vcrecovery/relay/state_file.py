"""Small JSON files that are whole at any time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path


def write_document(file: Path, document: Mapping[str, object]) -> None:
    """Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f".{file.name}.new")
    new.write_text(json.dumps(document, indent=1) + "\n")
    new.replace(file)
