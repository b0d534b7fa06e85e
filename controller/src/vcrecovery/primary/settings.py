"""The file that the role `primary` leaves in the VM: what the sync there is made from."""

from __future__ import annotations

import json
from typing import Any, Dict, NamedTuple

from ..excludes.errors import ExcludeError
from ..excludes.selection import Selection, selection_from

DEFAULT_PATH = "/etc/vcrecovery/sync.json"


class Settings(NamedTuple):
    """`lists` are the paths of the exclude list's files by dialect."""

    selection: Selection
    lists: Dict[str, str]


def read_settings(path: str) -> Settings:
    """ExcludeError names the file and what is wrong with it."""
    try:
        with open(path, encoding="utf-8") as file:
            values: Any = json.load(file)
        lists = values["lists"]
        if not isinstance(lists, dict) or not all(isinstance(place, str) for place in lists.values()):
            raise TypeError("lists")
        return Settings(selection_from(values["exclude"], path), lists)
    except OSError as error:
        raise ExcludeError(f"{path} cannot be read ({error.strerror}): run the role `primary` again") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ExcludeError(f"{path} is damaged ({error!r}): run the role `primary` again") from None
