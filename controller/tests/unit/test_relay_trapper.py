"""What is believed of who answers as Zabbix."""

from __future__ import annotations

import asyncio
import struct

import pytest

from vcrecovery.errors import ExternalError
from vcrecovery.relay.outbox import Value
from vcrecovery.relay.trapper import Trapper

TWO = [Value("hv1", "vcr.state[a]", "running", 1.0), Value("hv1", "vcr.state[b]", "crashed", 1.0)]


def sent(answer: bytes) -> int:
    """What `send` says of two values when it is answered so."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(struct.pack("<4sBII", b"ZBXD", 1, len(answer), 0) + answer)
        await writer.drain()
        writer.close()

    async def ask() -> int:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            return await Trapper("127.0.0.1", server.sockets[0].getsockname()[1]).send(TWO)

    return asyncio.run(ask())


def said(processed: int, failed: int, total: int | str) -> bytes:
    info = f"processed: {processed}; failed: {failed}; total: {total}; seconds spent: 0.000041"
    return f'{{"response": "success", "info": "{info}"}}'.encode()


def test_how_many_were_refused() -> None:
    assert [sent(said(2 - failed, failed, 2)) for failed in range(3)] == [0, 1, 2]


@pytest.mark.parametrize(
    "answer",
    [
        b"[" * 60000,
        said(2, 0, "2" * 5000),
        said(0, 0, 2),  # these two values would be gone
        said(2, 7, 2),
        said(1, 0, 1),
        b'{"response": "failed"}',
        b'{"a": "\xff"}',
        b"[]",
    ],
)
def test_any_other_answer_is_none_and_ends_nothing(answer: bytes) -> None:
    with pytest.raises(ExternalError):
        sent(answer)
