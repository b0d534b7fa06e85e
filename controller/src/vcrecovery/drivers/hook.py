"""Runs one command of the operator's with facts on its standard input, and takes whatever it does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from vcrecovery.drivers.process import run_and_end
from vcrecovery.errors import ExternalError

#: Characters of its last line that are kept.
_LONGEST = 200


def run_hook(command: Sequence[str], facts: Mapping[str, Any], timeout: float) -> str:
    """Why it failed, in a line; empty when it has ended with status 0. Nothing of it is left after that."""
    try:
        ended = run_and_end(command, timeout=timeout, stdin=json.dumps(facts).encode() + b"\n")
    except ExternalError as error:
        return error.message
    if ended.status == 0:
        return ""
    lines = [line.strip() for line in ended.last_words.decode(errors="replace").splitlines() if line.strip()]
    words = f": {lines[-1][:_LONGEST]}" if lines else ""
    if ended.status is None:
        return f"did not finish within {timeout:g} s, and was killed{words}"
    return f"status {ended.status}{words}"
