"""What every section of the plan is made of."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
)
from pydantic_core import CoreSchema, core_schema

#: Seconds. More than that is a slip of the hand, and may be more than a calendar has.
LONGEST = 36500 * 86400
NAME_PATTERN = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
DURATION_PATTERN = r"^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*$"
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
#: Bytes. No disk is larger: it is another unit.
LARGEST_SIZE = 2**60
SIZE_PATTERN = r"^\s*(\d+(?:\.\d+)?)\s*(MB|GB|TB|MiB|GiB|TiB)\s*$"
_SIZES = {"MB": 10**6, "GB": 10**9, "TB": 10**12, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def parse_duration(value: Any) -> float:
    """Seconds from `90`, `1.5s`, `200ms`, `5m`, `2h` or `1d`.

    Raises ValueError with the accepted forms.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        # Cut off first: an int may be too great for a float.
        seconds = float(min(value, 2 * LONGEST))
    elif isinstance(value, str) and (match := re.match(DURATION_PATTERN, value)):
        seconds = float(match[1]) * _UNITS[match[2]]
    else:
        raise ValueError(f"{value!r} is no duration; write 90s, 5m, 2h or 200ms")
    if not seconds > 0:  # or not a number at all
        raise ValueError(f"{value!r} is not longer than zero")
    if seconds > LONGEST:
        raise ValueError(f"{value!r:.40} is longer than 100 years")
    return seconds


def parse_size(value: Any) -> int:
    """Bytes from `512MiB`, `40GiB`, `1.5TB`.

    Raises ValueError with the accepted forms.
    """
    if isinstance(value, str) and (match := re.match(SIZE_PATTERN, value)):
        size = round(float(match[1]) * _SIZES[match[2]])
        if size > LARGEST_SIZE:
            raise ValueError(f"{value!r:.40} is more than there is")
        if not size:
            raise ValueError(f"{value!r:.40} is not more than nothing")
        return size
    raise ValueError(f"{value!r:.40} is no size; write 512MiB, 40GiB or 2TB")


def _domain_name(value: Any) -> str:
    name = str(value).rstrip(".").lower()
    label = r"(?!-)[a-z0-9_-]{1,63}(?<!-)"
    if len(name) > 253 or not re.fullmatch(rf"{label}(\.{label})*", name):
        raise ValueError(f"{value!r:.80} is no DNS name")
    return name


def _absolute(path: Path) -> Path:
    # Whoever reads it may run elsewhere than whoever tries it by hand: units, timers, another controller.
    if not path.is_absolute() or "\0" in str(path):
        raise ValueError("is no absolute path; start it with a slash")
    return path


def _absolute_text(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError(f"{path!r} is not absolute; start it with a slash")
    return path


class _Length:
    """How pydantic reads a duration, said outright: from a decorator it would find that out anew at each use."""

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(parse_duration, core_schema.float_schema())

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": ["number", "string"], "exclusiveMinimum": 0, "pattern": DURATION_PATTERN}


class _Size:
    """The same for a size."""

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(parse_size, core_schema.int_schema())

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "pattern": SIZE_PATTERN}


Duration = Annotated[float, _Length()]
Size = Annotated[int, _Size()]
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
DomainName = Annotated[str, BeforeValidator(_domain_name)]
PortNumber = Annotated[int, Field(ge=1, le=65535)]
#: A file of the machine that reads the plan, and one of another machine.
AbsolutePath = Annotated[Path, AfterValidator(_absolute)]
AbsoluteText = Annotated[str, AfterValidator(_absolute_text)]


class Section(BaseModel):
    """A mapping of the plan: unknown keys are mistakes, and nothing changes it after it was read."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def unsaid() -> Any:
    """A section that the plan does not have is as one that it leaves empty."""
    return Field({}, validate_default=True)
