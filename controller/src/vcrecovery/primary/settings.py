"""The file that the role `primary` leaves in the VM: what the sync there is made from."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, NamedTuple, Optional, Tuple

from ..excludes.errors import ExcludeError
from ..excludes.selection import Selection, selection_from

DEFAULT_PATH = "/etc/vcrecovery/sync.json"


class Hook(NamedTuple):
    """Two commands of the operator's, for `sh -c`, and the seconds that each may take."""

    before: str
    after: str
    timeout: float


class Consistency(NamedTuple):
    """See the plan's section of that name."""

    kind: str = "files"
    mounts: Tuple[str, ...] = ("/",)
    hook: Optional[Hook] = None

    @property
    def belongs_together(self) -> bool:
        """Whether a pass brings the state of one moment, so that half of it is worth nothing."""
        return self.kind in ("hook", "snapshot")


class Settings(NamedTuple):
    """`lists` are the paths of the exclude list's files by dialect; `bandwidth` is in KiB/s, None for no limit.

    `source` is the tree that is synced. `run_dir` holds marks that a boot forgets, `state_dir` what is synced too:
    the heartbeat and the report of the last reconcile. `units` are those behind the service's ports.
    `unanswered`: what a VM does at its boot when nobody says who serves, `serve` or `wait`. `receivers`: the
    secondaries at which its standby may be, where it is at home first; empty where there is one only.
    """

    selection: Selection
    lists: Dict[str, str]
    engine: str = "lsyncd"
    source: str = "/"
    target: str = "receiver:/"
    ssh_config: str = "/etc/vcrecovery/ssh_config"
    bandwidth: Optional[int] = None
    run_dir: str = "/run/vcrecovery"
    state_dir: str = "/var/lib/vcrecovery"
    consistency: Consistency = Consistency()
    units: Tuple[str, ...] = ()
    unanswered: str = "serve"
    receivers: Tuple[str, ...] = ()

    @property
    def config_dir(self) -> str:
        """Never synced: what lies there is this machine's, and outlives its boot."""
        return os.path.dirname(self.ssh_config)


def read_settings(path: str) -> Settings:
    """ExcludeError names the file and what is wrong with it."""
    try:
        with open(path, encoding="utf-8") as file:
            values: Any = json.load(file)
        values["selection"] = selection_from(values.pop("exclude"), path)
        if not all(isinstance(place, str) for place in values["lists"].values()):
            raise TypeError("lists")
        if "consistency" in values:
            values["consistency"] = _consistency(values["consistency"])
        values["receivers"] = tuple(str(name) for name in values.get("receivers", ()))
        values["units"] = tuple(str(unit) for unit in values.get("units", ()))
        return Settings(**values)
    except OSError as error:
        raise ExcludeError(f"{path} cannot be read ({error.strerror}): run the role `primary` again") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ExcludeError(f"{path} is damaged ({error!r}): run the role `primary` again") from None


def _consistency(values: Dict[str, Any]) -> Consistency:
    hook = values.get("hook")
    return Consistency(
        kind=values.get("kind", "files"),
        mounts=tuple(values.get("mounts", ("/",))),
        hook=Hook(hook["before"], hook.get("after", "true"), float(hook.get("timeout", 60))) if hook else None,
    )
