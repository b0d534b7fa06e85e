"""The operator's own command that makes machines and ends them. What it says is believed once it is said again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

from vcrecovery.core.text import plain
from vcrecovery.drivers.process import run_and_end
from vcrecovery.errors import ExternalError

#: Where LXD listens, if the command does not say another port.
_PORT = 8443
#: Characters of what it says that are kept; machines that are read.
_LONGEST, _MOST = 200, 100


@dataclass(frozen=True)
class Made:
    """A machine that exists. `id`: the cloud's word for it; `address`: empty while it has none."""

    id: str
    address: str = ""
    port: int = _PORT


class CommandProvisioner:
    """`timeout`: seconds for each call."""

    def __init__(self, command: Sequence[str], timeout: float) -> None:
        self._command, self._timeout = list(command), timeout

    def create(self, order: Mapping[str, Any]) -> list[Made]:
        """The machines of this lease that exist then. Raises ExternalError when that is not known."""
        return self._call("create", order)

    def describe(self, order: Mapping[str, Any]) -> list[Made]:
        """Those that exist. Raises as above."""
        return self._call("describe", order)

    def destroy(self, order: Mapping[str, Any]) -> list[Made]:
        """Those that exist in spite of it. Raises as above."""
        return self._call("destroy", order)

    def by_hand(self, order: Mapping[str, Any]) -> str:
        return f"printf '%s\\n' {shlex.quote(_given(order))} | {shlex.join(self._command)} destroy"

    def _call(self, verb: str, order: Mapping[str, Any]) -> list[Made]:
        said = f"`{self._command[0]} {verb}`"
        ended = run_and_end([*self._command, verb], timeout=self._timeout, stdin=f"{_given(order)}\n".encode())
        lines = [line.strip() for line in ended.last_words.decode(errors="replace").splitlines() if line.strip()]
        last = plain(lines[-1])[:_LONGEST] if lines else "it printed nothing"
        if ended.status is None:
            raise ExternalError(f"{said} did not finish within {self._timeout:g} s, and was killed: {last}")
        if ended.status != 0:
            raise ExternalError(f"{said} failed with status {ended.status}: {last}")
        try:
            machines = json.loads(lines[-1] if lines else "")["machines"]
            if not isinstance(machines, list) or len(machines) > _MOST:
                raise TypeError
            return [_made(one) for one in machines]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ExternalError(f"{said} answers with something else than machines: {last}") from error


def _given(order: Mapping[str, Any]) -> str:
    return json.dumps({"version": 1, **order})


def _made(said: Any) -> Made:
    address, port = said.get("address") or "", said.get("port", _PORT)
    if not isinstance(said["id"], str) or not said["id"] or isinstance(port, bool) or not isinstance(port, int):
        raise TypeError
    if not 0 < port < 65536:
        raise ValueError
    return Made(plain(said["id"])[:_LONGEST], str(IPv4Address(address)) if address else "", port)
