"""Keys and digests of SNMPv3's user-based security model (RFC 3414 appendix A, RFC 7860). Pure."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

_EXPANDED = 2**20
#: RFC 7860: how many bytes of the HMAC a message carries.
_KEPT = {"sha256": 24, "sha512": 48}


@dataclass(frozen=True)
class Master:
    """A user's authentication key, before it is made one engine's own."""

    algorithm: str
    key: bytes

    @staticmethod
    def from_passphrase(algorithm: str, passphrase: bytes) -> Master:
        """`passphrase` may not be empty."""
        text = (passphrase * (_EXPANDED // len(passphrase) + 1))[:_EXPANDED]
        return Master(algorithm, hashlib.new(algorithm, text).digest())

    def localized(self, engine_id: bytes) -> bytes:
        return hashlib.new(self.algorithm, self.key + engine_id + self.key).digest()

    def signed(self, localized: bytes, message: bytes, digest: bytes, digest_at: int) -> bool:
        """Whether `digest`, which stands at `digest_at` in `message`, is that of the message with zeros there."""
        kept = _KEPT[self.algorithm]
        if len(digest) != kept:
            return False
        zeroed = message[:digest_at] + bytes(kept) + message[digest_at + kept :]
        return hmac.compare_digest(hmac.digest(localized, zeroed, self.algorithm)[:kept], digest)
