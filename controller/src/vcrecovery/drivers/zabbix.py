"""Zabbix's API, 6.0 and 7.0: what an event says, and where its result is told.

pyzabbix does the protocol. What it does not do is done here: a bound on the time and the size of a whole answer, and
errors that say what to do. Its debug log, which would show the token, stays off.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from queue import Empty, LifoQueue
from types import MappingProxyType
from typing import Any, TypeVar

import requests
from pydantic import BaseModel, TypeAdapter, ValidationError
from pyzabbix.api import ZabbixAPI, ZabbixAPIException

from vcrecovery.drivers.secret import read_secret
from vcrecovery.errors import ExternalError
from vcrecovery.plan.monitoring import ZabbixApi

#: Seconds for a whole call: the name's resolution, the connection and the answer, however slowly it drips.
CALL_TIMEOUT = 15.0
#: Bytes: more is no answer to a question of ours.
LARGEST_ANSWER = 16 << 20
#: Characters that an acknowledgement may have in Zabbix 6.0 and 7.0.
LONGEST_MESSAGE = 2048
#: The newest problems of which so many are told.
MOST_PROBLEMS = 1000
#: Names the events that start a recovery.
TAG = ("vcr", "recover")
#: The only methods that are called: all that the token's role has to allow.
METHODS = ("event.acknowledge", "event.get", "problem.get")

_ADD_MESSAGE, _ACKNOWLEDGE = 4, 2
_EQUALS = 1
#: pyzabbix takes any JSON for an answer, and stumbles over it like this.
_NO_ANSWER = (ValidationError, KeyError, TypeError, ValueError, AttributeError)
T = TypeVar("T")

logging.getLogger("pyzabbix").setLevel(logging.WARNING)


class NoSuchEventError(ExternalError):
    """Zabbix has no such event, or the token's user may not see its host."""


@dataclass(frozen=True)
class Message:
    """What somebody, or this controller, has written at an event."""

    user: str
    at: float
    text: str


@dataclass(frozen=True)
class ZabbixEvent:
    """An event as Zabbix describes it. `at`: when it happened, seconds since the epoch.

    `is_problem`: its problem is open still; not a recovery's event, and not resolved since.
    """

    id: str
    name: str
    tags: Mapping[str, str]
    hosts: tuple[str, ...]
    at: float
    is_problem: bool
    acknowledged: bool
    messages: tuple[Message, ...]

    def says(self, message: str) -> bool:
        """Whether the message has been added already, as `acknowledge` adds it."""
        return any(one.text.strip() == _fitting(message).strip() for one in self.messages)


class ZabbixServer:
    """The API of one Zabbix. May be used by many threads at a time."""

    def __init__(self, api: ZabbixApi, timeout: float = CALL_TIMEOUT) -> None:
        self._api = api
        self._timeout = timeout
        #: Each with its token.
        self._idle: LifoQueue[tuple[str, ZabbixAPI]] = LifoQueue()

    def event(self, number: str) -> ZabbixEvent | None:
        """None when there is no such event, or the token may not see it.

        Raises ExternalError when the API does not answer, or not as it should.
        """
        if not _possible(number):
            return None
        found = self._ask(
            lambda api: api.event.get(
                eventids=[number],
                output=["eventid", "name", "clock", "ns", "value", "r_eventid", "acknowledged"],
                selectTags=["tag", "value"],
                selectHosts=["host"],
                **{self._acknowledges(api): ["userid", "clock", "message"]},
            ),
            _EVENTS,
        )
        return next((event.read() for event in found if event.eventid == number), None)

    def acknowledge(self, number: str, message: str) -> None:
        """Acknowledges the event's problem and adds the message, as much of it as Zabbix takes.

        A second call adds a second message. Raises NoSuchEventError, and ExternalError as `event` does.
        """
        self._say(number, message, _ADD_MESSAGE | _ACKNOWLEDGE)

    def comment(self, number: str, message: str) -> None:
        """The same without acknowledging it: who looks at Zabbix sees that it is not handled yet."""
        self._say(number, message, _ADD_MESSAGE)

    def _say(self, number: str, message: str, action: int) -> None:
        try:
            if not _possible(number):
                raise _NotPermittedError("its number is none")
            self._ask(
                lambda api: api.event.acknowledge(eventids=[number], action=action, message=_fitting(message)),
                _ACKNOWLEDGED,
            )
        except _NotPermittedError as error:
            raise NoSuchEventError(
                f"Zabbix at {self._api.url} knows no event {number} that the token's user may see",
                "if there is one, let that user read the group of its host",
            ) from error

    def open_problems(self) -> Sequence[str]:
        """The ids of the events that start a recovery and whose problems are open, the oldest first.

        Hosts in maintenance are left out: for them Zabbix starts nothing either. Raises ExternalError as `event` does.
        """
        found = self._ask(
            lambda api: api.problem.get(
                output=["eventid"],
                source=0,
                object=0,
                tags=[{"tag": TAG[0], "value": TAG[1], "operator": _EQUALS}],
                suppressed=False,
                sortfield=["eventid"],
                sortorder="DESC",
                limit=MOST_PROBLEMS,
            ),
            _PROBLEMS,
        )
        return [problem.eventid for problem in reversed(found)]

    @staticmethod
    def _acknowledges(api: ZabbixAPI) -> str:
        """The parameter has a new name since 6.4."""
        old = api.version is not None and api.version.release < (6, 4)
        return "select_acknowledges" if old else "selectAcknowledges"

    def _ask(self, question: Callable[[ZabbixAPI], Any], shape: TypeAdapter[T]) -> T:
        def call() -> tuple[tuple[str, ZabbixAPI], Any]:
            token = self._token()
            client = self._take(token) or self._connected(token)
            return (token, client), question(client)

        try:
            client, answer = _within(self._timeout, call)
            found = shape.validate_python(answer)
        except (requests.RequestException, ZabbixAPIException, *_NO_ANSWER) as error:
            # The server may have been upgraded, or the token changed: the next question begins anew.
            self._idle = LifoQueue()
            raise self._told(error) from error
        self._idle.put(client)
        return found

    def _told(self, error: Exception) -> ExternalError:
        if isinstance(error, requests.RequestException):
            return self._unreachable(error)
        if isinstance(error, ZabbixAPIException):
            return self._refused(error)
        return self._garbage(type(error).__name__)

    def _take(self, token: str) -> ZabbixAPI | None:
        """One with this token. Once the file has another, Zabbix is about to forget those of before."""
        with contextlib.suppress(Empty):
            while True:
                used, client = self._idle.get_nowait()
                if used == token:
                    return client
        return None

    def _connected(self, token: str) -> ZabbixAPI:
        client = ZabbixAPI(self._api.url, session=_Session(self._api), timeout=self._timeout)
        client.login(api_token=token)
        if client.version is None or client.version.release < (6, 0):
            raise ExternalError(f"Zabbix at {self._api.url} has version {client.version}", "6.0 or newer is needed")
        return client

    def _token(self) -> str:
        path = self._api.token_file
        token = read_secret(path, "Zabbix's API token", "the token", "ascii")
        if not token.isalnum():
            raise ExternalError(f"{path} holds no API token of Zabbix", "put the token and nothing else there")
        return token

    def _unreachable(self, error: requests.RequestException) -> ExternalError:
        url = self._api.url
        if isinstance(error, requests.exceptions.SSLError):
            return ExternalError(
                f"the TLS certificate of Zabbix at {url} is not trusted: {_innermost(error)}",
                "name its CA in zabbix.api.ca_file, and the server as the certificate does in zabbix.api.url",
            )
        if isinstance(error, requests.HTTPError | requests.TooManyRedirects):
            return ExternalError(
                f"Zabbix at {url} answers {_innermost(error)}", "correct zabbix.api.url, or look into the log there"
            )
        if isinstance(error, requests.exceptions.InvalidJSONError):
            return self._garbage("no JSON")
        reason = "no answer in time" if isinstance(error, requests.Timeout) else _innermost(error)
        return ExternalError(f"Zabbix at {url} does not answer: {reason}", "start it, or correct zabbix.api.url")

    def _refused(self, error: ZabbixAPIException) -> ExternalError:
        url = self._api.url
        if not isinstance(error.error, dict):
            return self._garbage(str(error))
        text = _short(f"{error.error.get('message', '')} {error.error.get('data', '')}")
        if any(word in text for word in ("Not authori", "re-login", "API token expired")):
            return ExternalError(
                f"Zabbix at {url} does not take the token in {self._api.token_file}: {text}",
                "make a new token for the user of the role `monitoring`, and put it there",
            )
        if "No permissions to call" in text or "no permissions to" in text:
            return ExternalError(
                f"Zabbix at {url} forbids it to the token's user: {text}",
                f"let the user's role call {', '.join(METHODS)}, acknowledge problems and add comments",
            )
        if "No permissions" in text:
            return _NotPermittedError(text)
        return ExternalError(f"Zabbix at {url} answers with an error: {text}")

    def _garbage(self, what: str) -> ExternalError:
        return ExternalError(
            f"Zabbix at {self._api.url} gives an answer that is not of its API: {_short(what)}",
            "zabbix.api.url is the address of its pages, without api_jsonrpc.php",
        )


class _NotPermittedError(ExternalError):
    """To an object that is not there, or not to be seen: Zabbix makes no difference."""


class _Session(requests.Session):
    """Bounds the size of an answer, and follows no redirection, which would drop the question.

    Nothing is taken from the environment: a .netrc would replace the token, and a proxy would see it.
    """

    def __init__(self, api: ZabbixApi) -> None:
        super().__init__()
        if api.ca_file is not None and not api.ca_file.is_file():
            raise ExternalError(f"zabbix.api.ca_file is not there: {api.ca_file}", "put the CA's certificate there")
        self.verify = str(api.ca_file) if api.ca_file is not None else True
        self.trust_env = False
        # A connection that is kept may be closed there at the moment of the next question.
        self.headers["Connection"] = "close"

    def request(self, method: str, url: str | bytes, *args: Any, **kwargs: Any) -> requests.Response:
        response = super().request(method, url, *args, **{**kwargs, "stream": True, "allow_redirects": False})
        with response:
            if response.is_redirect:
                raise requests.TooManyRedirects(f"that it is at {response.headers['Location']}")
            content = bytearray()
            for piece in response.iter_content(64 << 10):
                content += piece
                if len(content) > LARGEST_ANSWER:
                    raise requests.exceptions.InvalidJSONError
        response._content = bytes(content)
        return response


def _within(seconds: float, call: Callable[[], T]) -> T:
    """What it returns. Nothing else bounds the resolution of a name, or an answer of a byte per second."""
    done: Future[T] = Future()

    def work() -> None:
        try:
            done.set_result(call())
        except Exception as error:  # noqa: BLE001 - raised again below
            done.set_exception(error)

    threading.Thread(target=work, name="zabbix-api", daemon=True).start()
    try:
        return done.result(seconds)
    except FutureTimeoutError as error:
        raise requests.Timeout from error


class _Tag(BaseModel):
    tag: str
    value: str


class _Host(BaseModel):
    host: str


class _Message(BaseModel):
    userid: str
    clock: int
    message: str


class _Event(BaseModel):
    """As event.get tells it: every number is a string."""

    eventid: str
    name: str
    clock: int
    ns: int
    value: int
    r_eventid: str
    acknowledged: int
    tags: list[_Tag]
    hosts: list[_Host]
    acknowledges: list[_Message]

    def read(self) -> ZabbixEvent:
        messages = (Message(one.userid, float(one.clock), one.message) for one in self.acknowledges if one.message)
        return ZabbixEvent(
            id=self.eventid,
            name=self.name,
            tags=MappingProxyType({one.tag: one.value for one in self.tags}),
            hosts=tuple(one.host for one in self.hosts),
            at=self.clock + self.ns / 1e9,
            is_problem=self.value == 1 and self.r_eventid == "0",
            acknowledged=self.acknowledged != 0,
            messages=tuple(sorted(messages, key=lambda message: message.at)),
        )


class _Problem(BaseModel):
    eventid: str


class _Acknowledged(BaseModel):
    eventids: list[int | str]


_EVENTS = TypeAdapter(list[_Event])
_PROBLEMS = TypeAdapter(list[_Problem])
_ACKNOWLEDGED = TypeAdapter(_Acknowledged)


def _possible(number: str) -> bool:
    """Zabbix 7.0 has an error for larger ones, 6.0 no events."""
    return number.isascii() and number.isdigit() and 0 < int(number) < 2**63


def _fitting(message: str) -> str:
    """What a database can keep of it, as long as Zabbix takes it."""
    text = "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in message)
    return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 4]} ..."


def _innermost(error: BaseException) -> str:
    """The words of the operating system or of TLS, without the libraries' own around them."""
    seen: BaseException = error
    while True:
        inner = seen.__cause__ or seen.__context__ or getattr(seen, "reason", None)
        if not isinstance(inner, BaseException):
            break
        seen = inner
    return _short(getattr(seen, "strerror", None) or str(seen) or type(seen).__name__)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else f"{line[:200]}..."
