"""What pydantic finds wrong with a file, in a user's words and with the key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from vcrecovery.plan.fields import NAME_PATTERN
from vcrecovery.plan.problems import Key

M = TypeVar("M", bound=BaseModel)
#: What pydantic says in its own words.
_MESSAGES = {
    "model_type": "should be a mapping of keys to values",
    "model_attributes_type": "should be a mapping of keys to values",
    "dict_type": "should be a mapping of keys to values",
    "path_type": "should be a path",
}


def _message(item: Any, what: str) -> str:
    """What one thing that pydantic found means."""
    if item["type"] == "extra_forbidden":
        return f"is no key of {what}"
    message: str = _MESSAGES.get(item["type"], item["msg"].removeprefix("Value error, "))
    if item["type"] == "string_pattern_mismatch" and item["ctx"]["pattern"] == NAME_PATTERN:
        message = "is no name: small letters, digits and dashes, at most 63"
    return message if message[1:2].isupper() else message[:1].lower() + message[1:]


def _place(raw: Any, location: tuple[int | str, ...]) -> Key:
    """The key that pydantic means: without `[key]`, and without the names that it gives to the kinds of a section."""
    key: list[str | int] = []
    for number, part in enumerate(location):
        last = number == len(location) - 1
        if part in ("[key]", "[socket]") or (isinstance(raw, dict) and not last and part not in raw):
            continue
        key.append(part)
        try:
            raw = raw[part]
        except (KeyError, IndexError, TypeError):
            raw = None
    return tuple(key)


def validated(model: type[M], raw: Any, what: str) -> tuple[M | None, list[tuple[Key, str]]]:
    """What `raw` is as `model`, or everything that keeps it from being that. `what`: the file, in a sentence."""
    try:
        return model.model_validate(raw), []
    except ValidationError as error:
        return None, list(_problems(raw, error, what))


def _problems(raw: Any, error: ValidationError, what: str) -> Iterator[tuple[Key, str]]:
    for item in error.errors():
        yield _place(raw, item["loc"]), _message(item, what)
