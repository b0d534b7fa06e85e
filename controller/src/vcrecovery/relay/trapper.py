"""Zabbix's trapper: one request and one answer for each connection (the protocol of zabbix_sender).

Our own instead of zabbix-utils' sender, since that bounds neither the time nor the size of an answer.
"""

from __future__ import annotations

import asyncio
import json
import re
import struct
from collections.abc import Sequence

from vcrecovery.errors import ExternalError
from vcrecovery.relay.outbox import Value

_HEADER = struct.Struct("<4sBII")
_MAGIC, _PLAIN = b"ZBXD", 1
_LONGEST_ANSWER = 65536
_INFO = re.compile(r"processed: (\d{1,9}); failed: (\d{1,9}); total: (\d{1,9})\b")
#: Seconds for one request: a Zabbix whose database hangs still accepts connections.
TIMEOUT = 5.0


def request(batch: Sequence[Value]) -> bytes:
    data = []
    for value in batch:
        clock = int(value.at)
        data.append(
            {
                "host": value.host,
                "key": value.key,
                "value": value.text,
                "clock": clock,
                "ns": int((value.at - clock) * 1e9),
            }
        )
    body = json.dumps({"request": "sender data", "data": data}).encode()
    return _HEADER.pack(_MAGIC, _PLAIN, len(body), 0) + body


class Trapper:
    """A Zabbix server or proxy."""

    def __init__(self, address: str, port: int, timeout: float = TIMEOUT) -> None:
        self._address, self._port, self._timeout = address, port, timeout

    def _trouble(self, what: str) -> ExternalError:
        return ExternalError(
            f"Zabbix's trapper {self._address}:{self._port} {what}", "start the server, or correct zabbix.trapper"
        )

    async def send(self, batch: Sequence[Value]) -> int:
        """How many of the values Zabbix refused.

        Raises ExternalError when it cannot be reached or answers anything else.
        """
        try:
            async with asyncio.timeout(self._timeout):
                answer = await self._exchange(request(batch))
        except TimeoutError as error:
            raise self._trouble(f"gives no answer within {self._timeout:.0f} s") from error
        except (OSError, EOFError) as error:
            raise self._trouble(
                f"does not answer: {getattr(error, 'strerror', None) or 'it closed the connection'}"
            ) from error
        found = _INFO.search(str(answer.get("info"))) if answer.get("response") == "success" else None
        processed, failed, total = map(int, found.groups()) if found is not None else (0, 0, -1)
        # Of each value it says what became of it: one of which it does not would be lost.
        if not processed + failed == total == len(batch):
            raise self._trouble(f"answers {json.dumps(answer)[:200]}")
        return failed

    async def _exchange(self, message: bytes) -> dict[str, object]:
        reader, writer = await asyncio.open_connection(self._address, self._port)
        try:
            writer.write(message)
            await writer.drain()
            magic, flags, length, _ = _HEADER.unpack(await reader.readexactly(_HEADER.size))
            if magic != _MAGIC or flags != _PLAIN or length > _LONGEST_ANSWER:
                raise self._trouble("answers in another protocol")
            body = await reader.readexactly(length)
        finally:
            writer.close()
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise self._trouble("answers in another protocol") from error
        if not isinstance(answer, dict):
            raise self._trouble("answers in another protocol")
        return answer
