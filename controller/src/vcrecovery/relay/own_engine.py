"""The relay's own SNMP engine ID, and how often it has started (RFC 3414, 2.2).

Senders of informs remember both. An engine that starts again with the same number of boots would be taken for a replay
of its own past, so the number is kept in a file.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from pathlib import Path

from vcrecovery.errors import OutsideError
from vcrecovery.relay.state_file import write_document
from vcrecovery.snmp.mib import ENTERPRISE

#: RFC 3411: the highest bit set, the enterprise, and 5 for "octets of one's own".
_PREFIX = (0x80000000 | ENTERPRISE[-1]).to_bytes(4, "big") + b"\x05"
_RANDOM = 8
_BOOTS_MAX = 2**31 - 2


@dataclass(frozen=True)
class OwnEngine:
    engine_id: bytes
    boots: int


def start_engine(file: Path) -> OwnEngine:
    """One more start of the engine that `file` knows, or a new one.

    Raises OutsideError when the file cannot be written.
    """
    engine_id, boots = _PREFIX + secrets.token_bytes(_RANDOM), 0
    try:
        known = json.loads(file.read_text())
        if (old := bytes.fromhex(known["engine_id"])).startswith(_PREFIX) and 0 <= known["boots"] < _BOOTS_MAX:
            engine_id, boots = old, int(known["boots"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # a new engine ID: senders find it out by themselves
    own = OwnEngine(engine_id, boots + 1)
    try:
        write_document(file, {"engine_id": own.engine_id.hex(), "boots": own.boots})
    except OSError as error:
        raise OutsideError(f"{file} cannot be written: {error.strerror}", "give the relay its state_dir") from error
    return own
