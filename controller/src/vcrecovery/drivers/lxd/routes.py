"""The routes of LXD's API: `api.instances["web"].state.get()` asks for /1.0/instances/web/state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

_GOOD = (200, 201, 202)


class Session(Protocol):
    """Has the words of requests. What it raises when there is no answer is an OSError."""

    def request(
        self,
        method: str,
        url: str,
        *,
        timeout: float,
        params: Mapping[str, str] | None = None,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
        data: bytes | None = None,
    ) -> Any: ...


class AnswerError(Exception):
    """The server has answered that it will not, or cannot; `str()` is what it says."""

    def __init__(self, response: Any) -> None:
        super().__init__(_said(response))
        self.status_code: int = response.status_code


def _said(response: Any) -> str:
    try:
        return str(response.json()["error"])
    except (OSError, KeyError, TypeError):  # requests, too, has an OSError for what is no JSON
        return str(response.content.decode(errors="replace"))


class Route:
    """One place of the API. Its verbs raise AnswerError, and OSError when there is no answer."""

    def __init__(self, session: Session, place: str, timeout: float) -> None:
        """`timeout` is for calls that name none, in seconds."""
        self._session = session
        self._place = place
        self._timeout = timeout

    def __getattr__(self, name: str) -> Route:
        return self[name.replace("_", "-")]

    def __getitem__(self, name: str) -> Route:
        return Route(self._session, f"{self._place}/{name}", self._timeout)

    def get(self, **words: Any) -> Any:
        return self._ask("GET", words)

    def post(self, **words: Any) -> Any:
        return self._ask("POST", words)

    def put(self, **words: Any) -> Any:
        return self._ask("PUT", words)

    def patch(self, **words: Any) -> Any:
        return self._ask("PATCH", words)

    def delete(self, **words: Any) -> Any:
        return self._ask("DELETE", words)

    def _ask(self, method: str, words: dict[str, Any]) -> Any:
        response = self._session.request(method, self._place, **{"timeout": self._timeout, **words})
        if response.status_code not in _GOOD:
            raise AnswerError(response)
        return response
