"""Does a service answer, and as it should?"""

from __future__ import annotations

import errno
import os
import re
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.probe_answer import BadAnswerError, seconds_left
from vcrecovery.drivers.process import CannotRunError, run
from vcrecovery.drivers.runtime import THREADS, Runtime, results
from vcrecovery.errors import ExternalError
from vcrecovery.plan.probes import HttpProbe, Port, tcp

#: So many probes run at once.
AT_ONCE = 32
#: Seconds for a connection to be accepted, while a port is waited for.
CONNECT_TIMEOUT = 1.0
#: Seconds between two looks at the ports, and by which a pause may be longer: whoever was held up has not seen them.
EVERY = 0.05
HELD_UP = 1.0
_HEADER_LIMIT = 8192

#: What this machine itself lacks when no socket can be had.
_OUR_OWN = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

Target = tuple[str, Port]


@dataclass(frozen=True)
class Result:
    """What came of one probe. `reason` is empty when it is good; `reached`: something accepted the connection.

    `refused`: its machine answered that nobody listens there.
    """

    label: str
    reason: str
    reached: bool
    refused: bool = False

    @property
    def ok(self) -> bool:
        return not self.reason

    def __str__(self) -> str:
        return f"{self.label}: {self.reason}" if self.reason else self.label


def label_of(address: str, port: Port) -> str:
    where = f"[{address}]:{port.number}" if ":" in address else f"{address}:{port.number}"
    if port.tls:
        return f"{where} tls"
    if port.http:
        return f"{where} {'https' if port.http.tls else 'http'} {port.http.path}"
    if port.command:
        return f"{address} {Path(port.command[0]).name}"
    return where


def ask(address: str, port: Port, timeout: float, patience: float = 0.0) -> Result:
    """One probe, which takes `timeout` seconds at most.

    `patience`: seconds for whoever has accepted the connection to answer, if that is more. For a command, which nobody
    sees connect, it is the time from its start.

    Raises ExternalError when this machine cannot ask: that says nothing about who would have answered.
    """
    label = label_of(address, port)
    if port.command:
        try:
            argv = [word.replace("{address}", address) for word in port.command]
            run(argv, timeout=max(timeout, patience))
        except CannotRunError as error:
            raise ExternalError(f"{label} cannot be asked: {error.message}", "mend that on the controller") from error
        except ExternalError as error:
            return Result(label, error.message, reached=False)
        return Result(label, "", reached=True)
    deadline, reached = time.monotonic() + timeout, False
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as sock:
            # `create_connection` looks names up, for which Python loads the tables of international ones.
            sock.settimeout(timeout)
            sock.connect((address, port.number or 0))
            reached, deadline = True, max(deadline, time.monotonic() + patience)
            if port.tls:
                from vcrecovery.drivers.probe_tls import handshake

                handshake(sock, port.tls, port.tls.name, deadline).close()
            elif port.http:
                _get(sock, address, port.http, deadline)
    except TimeoutError:
        return Result(label, f"no answer within {max(timeout, patience) if reached else timeout:g} s", reached)
    except OSError as error:
        if error.errno in _OUR_OWN and not reached:
            said = os.strerror(error.errno or 0).lower()
            raise ExternalError(f"{label} cannot be asked: {said}", "this machine itself is in need of that") from error
        refused = isinstance(error, ConnectionRefusedError) and not reached
        return Result(label, _trouble(port, error) or type(error).__name__.lower(), reached, refused)
    except BadAnswerError as error:
        return Result(label, str(error), reached)
    return Result(label, "", reached)


def _trouble(port: Port, error: OSError) -> str:
    if port.tls or (port.http and port.http.tls):
        from vcrecovery.drivers.probe_tls import trouble

        if said := trouble(error):
            return said
    return (error.strerror or str(error)).lower()


def _get(sock: socket.socket, address: str, probe: HttpProbe, deadline: float) -> None:
    stream = sock
    if probe.tls:
        from vcrecovery.drivers.probe_tls import handshake

        stream = handshake(sock, probe, probe.host or address, deadline)
    try:
        host = probe.host or (f"[{address}]" if ":" in address else address)
        if probe.port != (443 if probe.tls else 80):
            host += f":{probe.port}"
        lines = (f"GET {probe.path} HTTP/1.1", f"Host: {host}", "User-Agent: vcrecovery", "Accept: */*")
        stream.settimeout(seconds_left(deadline))
        stream.sendall("\r\n".join((*lines, "Connection: close", "", "")).encode())
        answer = b""
        while b"\n" not in answer and len(answer) < _HEADER_LIMIT:
            stream.settimeout(seconds_left(deadline))
            received = stream.recv(1024)
            if not received:
                break
            answer += received
    finally:
        stream.close()
    match = re.match(rb"HTTP/1\.[01] (\d{3})[ \r\n]", answer)
    if match is None:
        raise BadAnswerError("answers, but not in HTTP" if answer else "hangs up without an answer")
    status = int(match[1])
    good = status in probe.status if probe.status else 200 <= status < 400
    if not good:
        wanted = " or ".join(map(str, probe.status)) or "200 to 399"
        raise BadAnswerError(f"status {status}, not {wanted}")


class Probes:
    """Many probes at once. All of its methods raise ExternalError when this machine cannot ask."""

    def __init__(self, clock: Clock, runtime: Runtime = THREADS) -> None:
        self._clock = clock
        self._runtime = runtime

    def ask(self, address: str, port: Port, timeout: float, patience: float = 0.0) -> Result:
        """One probe; see the function of that name."""
        return ask(address, port, timeout, patience)

    def is_there(self, address: str, number: int, timeout: float) -> bool:
        """Whether a machine answers at that address: that nobody listens on the port is an answer."""
        result = self.ask(address, tcp(number), timeout)
        return result.ok or result.refused

    def ask_all(self, targets: Sequence[Target], timeout: float) -> list[Result]:
        """The probes of all targets, made at once; `timeout` seconds for each to be reached.

        Who is reached, and commands, get the time that the plan gives them: what answers, and slowly, lives.
        """
        return self._ask([(address, port, timeout, _patience(port)) for address, port in targets])

    def answering(self, address: str, ports: Sequence[Port], timeout: float) -> list[str]:
        """What of `ports` answers as it should, as labels, asked at once."""
        return [result.label for result in self.ask_all([(address, port) for port in ports], timeout) if result.ok]

    def ask_patiently(self, targets: Sequence[Target], at_most: float) -> list[Result]:
        """The probes of all targets, made at once; each gets the time that the plan gives it, but no more than that."""
        return self._ask([(address, port, min(at_most, _patience(port)), 0.0) for address, port in targets])

    def alive(self, address: str, ports: Sequence[Port], timeout: float) -> list[str]:
        """What of `ports` accepts a connection, as labels, whatever it then says: something lives at that address."""
        return [result.label for result in self.ask_all([(address, port) for port in ports], timeout) if result.reached]

    def _ask(self, questions: Sequence[tuple[str, Port, float, float]]) -> list[Result]:
        # Threads cost more than most answers: one question is put in the caller's own.
        return results(self._runtime, lambda question: self.ask(*question), questions, "probe", AT_ONCE)

    def wait_for_all(
        self,
        targets: Sequence[Target],
        timeout: float,
        stable_for: float,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> list[Result]:
        """Asks until all probes have been good together for `stable_for` seconds, or `timeout` seconds are over.

        Of a time in which this program was held up itself nothing is known: then it begins again. The last result of
        each; those that are not `ok` have failed. Commands are asked once all ports answer, since they cost more.
        `meanwhile` is called after each look that was not good, and may raise what ends the waiting.
        """
        clock = self._clock
        deadline = clock.steady() + timeout
        ports = [number for number, (_, port) in enumerate(targets) if not port.command]
        commands = [number for number, (_, port) in enumerate(targets) if port.command]
        last = [Result(label_of(*target), "not asked: other ports do not answer", reached=False) for target in targets]
        lost = [0] * len(targets)
        good_since: float | None = None

        def look(numbers: Sequence[int]) -> bool:
            left = max(CONNECT_TIMEOUT, deadline - clock.steady())
            found = self._ask([(*targets[n], min(left, _patience(targets[n][1])), 0.0) for n in numbers])
            for number, result in zip(numbers, found, strict=True):
                lost[number] += last[number].ok and not result.ok
                last[number] = result
            return all(result.ok for result in found)

        while True:
            good = look(ports) and look(commands)
            now = clock.steady()
            if not good:
                good_since = None
            elif good_since is None:
                good_since = now
            elif now >= good_since + stable_for:
                # Not a difference: the pause below ends exactly here, and one rounded down would never come.
                return last
            if now >= deadline and not good:
                return [_with_losses(result, times) for result, times in zip(last, lost, strict=True)]
            if not good:
                meanwhile()
            pause = EVERY if good_since is None else min(EVERY, max(0.0, good_since + stable_for - now))
            clock.sleep(pause)
            # On a machine that stands still again and again this ends, too.
            if clock.steady() - now > pause + HELD_UP and now < deadline:
                good_since = None


def _patience(port: Port) -> float:
    return CONNECT_TIMEOUT if port.tcp else port.timeout


def _with_losses(result: Result, times: int) -> Result:
    if result.ok or not times:
        return result
    said = f"{result.reason}; it answered and ceased to {times} time{'s' if times > 1 else ''}"
    return Result(result.label, said, reached=True)
