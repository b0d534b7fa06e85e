"""How a server is reached: over its unix socket, or over HTTPS with certificates. Every call has a timeout."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.lxd.flavour import Flavour, expected_at, said_by
from vcrecovery.drivers.lxd.routes import AnswerError, Route
from vcrecovery.drivers.lxd.unix_socket import KEPT, UnixSocketSession
from vcrecovery.errors import ExternalError

if TYPE_CHECKING:
    from vcrecovery.drivers.lxd.https import PinnedAdapter

CALL_TIMEOUT = 10.0
T = TypeVar("T")
_FULL = "its disk is full, or its pool: remove what it can spare, then run it again"


class TryAgainError(ExternalError):
    """The instance has changed since it was read, or is busy. Reading it again and trying again is right."""


class NotThereYetError(TryAgainError):
    """A network or a pool did not come up as the server started. It tries that again once a minute."""


class InstanceBusyError(TryAgainError):
    """The server does something else with the instance, as Incus does for as long as it copies one to elsewhere."""


@dataclass(frozen=True)
class OverHttps:
    """A server on another machine. `server_certificate` is its very own: no authority is asked, no name compared."""

    url: str
    certificate: Path
    key: Path
    server_certificate: Path

    def check(self) -> None:
        """Raises ExternalError when a file cannot be used, or others may read the key."""
        for what, path in (
            ("certificate", self.certificate),
            ("key", self.key),
            ("server certificate", self.server_certificate),
        ):
            try:
                with path.open("rb") as file:
                    mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            except OSError as error:
                raise ExternalError(f"LXD's {what} {path} cannot be read: {error.strerror}", "correct that") from error
            if what == "key" and mode & 0o077:
                raise ExternalError(f"LXD's key {path} can be read by others (mode {mode:o})", f"`chmod 600 {path}`")

    def adapter(self) -> PinnedAdapter:
        """Raises ExternalError when a file is not what it should be."""
        from vcrecovery.drivers.lxd.https import PinnedAdapter

        try:
            return PinnedAdapter(self.certificate, self.key, self.server_certificate, KEPT)
        except OSError as error:
            raise ExternalError(
                f"LXD's certificate {self.certificate} and key {self.key} cannot be used: {error.strerror or error}",
                "create both again, and have the server trust the certificate",
            ) from error
        except ValueError as error:
            file = self.server_certificate
            raise ExternalError(
                f"LXD's server certificate {file} is no certificate", "copy server.crt there"
            ) from error


class Connection:
    """The way to the LXD or Incus of one secondary. Nothing is connected to before it is used."""

    def __init__(self, name: str, place: Path | OverHttps, clock: Clock) -> None:
        self.name = name
        #: As the server has said when it was connected to.
        self.flavour: Flavour = expected_at(place)
        self._place = place
        self._clock = clock
        self._api: Route | None = None
        self._one_connects = threading.Lock()
        #: When the last attempt to connect failed, and why.
        self._failure: tuple[float, Exception] | None = None

    @property
    def is_here(self) -> bool:
        """Whether it runs on this machine, so that the standbys' files are here too."""
        return isinstance(self._place, Path)

    @property
    def called(self) -> str:
        """As in `LXD on secondary sec1`."""
        return f"{self.flavour.product} on secondary {self.name}"

    @property
    def client(self) -> str:
        """What an operator calls there."""
        return self.flavour.client

    @property
    def socket(self) -> Path:
        """Raises ExternalError for a server that is reached over HTTPS."""
        if isinstance(self._place, Path):
            return self._place
        raise ExternalError(
            f"secondary {self.name} is another machine ({self._place.url}), and its files are not here",
            f"call this on the secondary itself, with a plan that names {self.flavour.product}'s unix socket",
        )

    def connect(self) -> None:
        """Whoever only wants to know who answers. Raises ExternalError when nobody does."""
        self._guard(lambda _api: None)

    def _connected(self) -> Route:
        """One for all threads: a failover of a whole site uses it from hundreds of them at the same time."""
        began = self._clock.steady()
        with self._one_connects:
            if self._api is None:
                if self._failure is not None and self._failure[0] >= began:
                    # Somebody else has just tried: a server that hangs makes nobody wait for the others' turns.
                    raise self._failure[1]
                try:
                    self._api = self._connect()
                except Exception as error:
                    self._failure = (self._clock.steady(), error)
                    raise
            return self._api

    def _connect(self) -> Route:
        if isinstance(self._place, Path):
            try:
                self._place.stat()
            except OSError as error:
                raise self._unreachable(error) from error
            address, session = str(self._place), UnixSocketSession(self._place)
            api = Route(session, "/1.0", CALL_TIMEOUT)
            try:
                server = api.get().json()["metadata"]
                trusted = server["auth"] == "trusted"
            except (KeyError, TypeError) as error:
                raise ConnectionError("it answers, but is neither LXD nor Incus") from error
        else:
            self._place.check()
            address = self._place.url.rstrip("/")
            # With all that it loads it takes as long as everything else: only who needs it pays for it.
            from vcrecovery.drivers.lxd.https import connected, expired_on

            api, server = connected(address, self._place.adapter(), CALL_TIMEOUT)
            trusted = server["auth"] == "trusted"
            if not trusted and (day := expired_on(self._place.certificate, self._clock.now())):
                raise ExternalError(
                    f"the certificate {self._place.certificate} of this controller for {self.called} ({address}) has "
                    f"expired on {day}",
                    "`ansible-playbook playbooks/keys_rotate.yml` replaces it",
                )
        if not trusted:
            raise ExternalError(
                f"{self.called} ({address}) does not know the certificate of this controller",
                "add it there: `lxc config trust add --restricted --projects default FILE`, or, for Incus, "
                "`incus config trust add-certificate` with the same",
            )
        self.flavour = said_by(server)
        return api

    def _unreachable(self, error: Exception) -> ExternalError:
        if isinstance(self._place, Path):
            said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            where, reason = str(self._place), said or type(error).__name__
            if isinstance(error, PermissionError):
                return ExternalError(f"{self.called} ({where}) does not answer: {reason}", "run it as root")
            if not os.path.lexists(self._place):
                reason = "no such socket"
        else:
            where, reason = self._place.url, _tls_reason(error)
        return ExternalError(
            f"{self.called} ({where}) does not answer: {reason}",
            f"start it, and try `{self.client} list` there",
        )

    def _guard(self, call: Callable[[Any], T]) -> T:
        """What `call` returns, given the routes. Raises ExternalError when the server cannot do it or is away."""
        try:
            # Each call has its own: another's failure may take the shared one away.
            return call(self._api or self._connected())
        except OSError as error:  # those of requests are, too
            self._api = None
            raise self._unreachable(error) from error
        except AnswerError as error:
            if error.status_code == 503:
                raise self._unreachable(error) from error
            raise error_of(self.called, str(error)) from error

    def _found(self, call: Callable[[Any], Any]) -> Any:
        """What `call` returns; None when the server says that there is no such thing."""

        def read(api: Any) -> Any:
            try:
                return call(api)
            except AnswerError as error:
                if error.status_code == 404:
                    return None
                raise

        return self._guard(read)

    def _change(self, begin: Callable[[Any], Any], timeout: float, doing: str) -> Mapping[str, Any]:
        """Begins an operation and waits for it; what it left, once it has ended well."""

        def change(api: Any) -> Mapping[str, Any]:
            number = begin(api).json()["metadata"]["id"]
            wait = {"timeout": str(max(1, int(timeout)))}
            result = _result(api.operations[number].wait.get(params=wait, timeout=timeout + CALL_TIMEOUT).json())
            if result["status_code"] == 200:
                return result["metadata"] or {}
            if result["status_code"] < 200:
                raise ExternalError(f"{self.called} did not finish {doing} within {timeout:.0f} s")
            said = " ".join(str(result["err"]).split())
            raise error_of(f"{self.called}: {doing}", said)

        return self._guard(change)


def _result(answer: Mapping[str, Any]) -> Any:
    """The operation that was waited for.

    Incus has begun its answer, with status 200, when one fails or takes too long: the error stands there instead.
    """
    if answer.get("type") != "error":
        return answer["metadata"]
    goes_on = answer["error"] == "context deadline exceeded"
    return {"status_code": 103 if goes_on else 400, "err": answer["error"]}


def error_of(what: str, said: str) -> ExternalError:
    """The error for what LXD said of `what`, by whether it passes."""
    # LXD keeps its notes of a container on that one's own disk.
    full = any(word in said.lower() for word in ("quota exceeded", "no space left"))
    return _kind_of(said)(f"{what}: {said}", _FULL if full else "")


def _kind_of(said: str) -> type[ExternalError]:
    if "unavailable on this server" in said:
        return NotThereYetError
    # "Error status" is LXD's word when a container's own monitor has not answered it for 5 s, as on a busy machine.
    return InstanceBusyError if "is busy running" in said or "in Error status" in said else ExternalError


def _tls_reason(error: Exception) -> str:
    text = str(error)
    if "Fingerprints did not match" in text:
        return "it shows another certificate than the plan's server_certificate"
    # The outermost text is of the library that retries; the reason stands in its last brackets.
    return text.rpartition(": ")[2].strip("()'\" ") or type(error).__name__
