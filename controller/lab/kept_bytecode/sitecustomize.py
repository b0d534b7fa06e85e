"""Keeps what Python compiles of archives, which it does anew each time otherwise.

Ansible sends each task's module as an archive with all that it imports. To compile that takes a third of the time of a
task, and seconds of an emulated CPU. Python imports a `sitecustomize` of its path when it starts.
"""

from __future__ import annotations

import os
import sys
import zipimport
from types import CodeType

_FOLDER = os.path.join(sys.pycache_prefix or "/run", "vcrlab-archives")
_compile = zipimport._compile_source  # type: ignore[attr-defined]


def _kept(path: str, source: bytes) -> CodeType:
    # Most programs read no archive.
    from hashlib import sha256
    from marshal import dump, load

    name = f"{sys.implementation.cache_tag} {os.path.basename(path)}\0"
    kept = os.path.join(_FOLDER, sha256(name.encode() + source).hexdigest())
    try:
        with open(kept, "rb") as file:
            code: CodeType = load(file)
            return code
    except (OSError, EOFError, ValueError, TypeError):
        pass
    code = _compile(path, source)
    mine = f"{kept}.{os.getpid()}"
    try:
        os.makedirs(_FOLDER, mode=0o700, exist_ok=True)
        with open(mine, "wb") as file:
            dump(code, file)
        os.replace(mine, kept)
    except OSError:
        pass
    return code


zipimport._compile_source = _kept  # type: ignore[attr-defined]
