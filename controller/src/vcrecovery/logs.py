"""Log lines: text for people, or JSON for machines, with the service and the episode that each is about.

What a line is about is told in two ways: by `extra={"service": ...}` at the call, or by `about(...)`, which holds for
all further lines of the same thread, so that drivers, which know nothing of episodes, are tied to them too.
"""

from __future__ import annotations

import json
import logging
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Literal

from vcrecovery.core.text import plain

Format = Literal["text", "json"]


@dataclass(frozen=True)
class Subject:
    """What a line is about. `episode` is the number that `vcrecovery explain` takes."""

    service: str | None = None
    epoch: int | None = None
    episode: int | None = None


_NOTHING = Subject()
_subject: ContextVar[Subject] = ContextVar("subject", default=_NOTHING)


def about(service: str | None = None, epoch: int | None = None, episode: int | None = None) -> None:
    """From now on, the lines of this thread are about this. Without arguments: about nothing in particular."""
    _subject.set(Subject(service, epoch, episode))


class _Tie(logging.Filter):
    """Gives each record what it is about, in the thread that logs it."""

    def filter(self, record: logging.LogRecord) -> bool:
        for name, value in asdict(_subject.get()).items():
            if not hasattr(record, name):
                setattr(record, name, value)
        return True


class TextFormatter(logging.Formatter):
    """One line each, whatever is in the message."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        record = logging.makeLogRecord(record.__dict__)
        record.msg, record.args = plain(record.getMessage()), ()
        if getattr(record, "episode", None) is not None:
            record.msg += f" [episode {record.__dict__['episode']}]"
        # The message is complete; `%` in it is text.
        return super().format(record)


class JsonFormatter(logging.Formatter):
    """One JSON object each."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields: dict[str, object] = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in asdict(_NOTHING):
            if (value := getattr(record, name, None)) is not None:
                fields[name] = value
        if record.exc_info and record.exc_info[0] is not None:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


def set_up(form: Format, *, verbose: bool = False) -> None:
    """All log lines go to stderr from now on."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    handler.addFilter(_Tie())
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler], force=True)
    # What they do by themselves is theirs.
    logging.getLogger("urllib3").setLevel(logging.WARNING)
    # That a secondary is silent is an error to whoever listens there; it would be shown here as well, with a traceback.
    logging.getLogger("websockets").setLevel(logging.CRITICAL)
    # More connections than it keeps are no trouble, only slower.
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
