"""What pydantic finds wrong with a file, in a user's words and with the key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError

from vcrecovery.plan.fields import NAME_PATTERN
from vcrecovery.plan.problems import Key, near_to

M = TypeVar("M", bound=BaseModel)
#: What pydantic says in its own words.
_MESSAGES = {
    "model_type": "should be a mapping of keys to values",
    "model_attributes_type": "should be a mapping of keys to values",
    "dict_type": "should be a mapping of keys to values",
    "path_type": "should be a path",
}


def _message(model: type[BaseModel], item: Any, what: str) -> str:
    """What one thing that pydantic found means."""
    if item["type"] == "extra_forbidden":
        *where, key = item["loc"]
        known = [name for section in _sections(model, tuple(where)) for name in section.model_fields]
        return f"is no key of {what}{near_to(str(key), known)}"
    message: str = _MESSAGES.get(item["type"], item["msg"].removeprefix("Value error, "))
    if item["type"] == "string_pattern_mismatch" and item["ctx"]["pattern"] == NAME_PATTERN:
        message = "is no name: small letters, digits and dashes, at most 63"
    return message if message[1:2].isupper() else message[:1].lower() + message[1:]


def _sections(kind: Any, location: tuple[int | str, ...]) -> Iterator[type[BaseModel]]:
    """What may stand at pydantic's `location` in a value of that kind."""
    origin, parts = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        if not location:
            yield kind
        elif field := kind.model_fields.get(str(location[0])):
            yield from _sections(field.annotation, location[1:])
    elif origin is Annotated:
        yield from _sections(parts[0], location)
    elif origin in (dict, list, tuple):
        if location:
            yield from _sections(parts[-1], location[1:])
    else:  # one of several: pydantic says which
        meant = [part for part in parts if location and location[0] in _names_of(part)]
        for part in meant or parts:
            yield from _sections(part, location[1:] if meant else location)


def _names_of(kind: Any) -> set[str]:
    return {word.tag for word in get_args(kind) if isinstance(word, Tag)} | {getattr(kind, "__name__", "")}


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
        return None, [(_place(raw, item["loc"]), _message(model, item, what)) for item in error.errors()]
