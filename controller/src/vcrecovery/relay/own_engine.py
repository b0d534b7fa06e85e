"""The relay's own SNMP engine ID, and how often it has started (RFC 3414, 2.2).

Senders of informs remember both, and some of them for as long as they run. So the ID follows from the machine and the
address, and the number never goes back, even when the file that holds it is lost: it is at least the time in minutes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass
from pathlib import Path

from vcrecovery.errors import ExternalError
from vcrecovery.relay.state_file import write_document
from vcrecovery.snmp.mib import ENTERPRISE

#: RFC 3411: the highest bit set, the enterprise, and 5 for "octets of one's own".
PREFIX = (0x80000000 | ENTERPRISE[-1]).to_bytes(4, "big") + b"\x05"
_OWN_OCTETS = 8
_BOOTS_MAX = 2**31 - 2
#: 2024-01-01, as seconds of Unix: minutes since then last for 4,000 years.
_BEGIN = 1704067200


@dataclass(frozen=True)
class OwnEngine:
    engine_id: bytes
    boots: int


def machine_id(file: Path = Path("/etc/machine-id")) -> str:
    """Empty where the machine has none."""
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def start_engine(file: Path, machine: str, listen: str, now: float) -> OwnEngine:
    """One more start of this machine's engine for the address `listen`. `now` is Unix time.

    Without a `machine` the ID is random, and kept in the file alone. Raises ExternalError when that cannot be written.
    """
    known_id, boots = b"", 0
    try:
        known = json.loads(file.read_text())
        if (old := bytes.fromhex(known["engine_id"])).startswith(PREFIX) and 0 <= known["boots"] < _BOOTS_MAX:
            known_id, boots = old, int(known["boots"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    # machine-id(5): it is not to be shown to others as it is.
    mark = hmac.digest(machine.encode(), f"vcrecovery relay {listen}".encode(), hashlib.sha256)[:_OWN_OCTETS]
    engine_id = PREFIX + mark if machine else known_id or PREFIX + secrets.token_bytes(_OWN_OCTETS)
    minutes = max(1, min(int(now - _BEGIN) // 60, _BOOTS_MAX))
    own = OwnEngine(engine_id, max(boots + 1, minutes))
    try:
        write_document(file, {"engine_id": own.engine_id.hex(), "boots": own.boots})
    except OSError as error:
        raise ExternalError(f"{file} cannot be written: {error.strerror}", "give the relay its state_dir") from error
    return own
