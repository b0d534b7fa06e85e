"""A failback's word between the controller and the VM. LXD carries both, so the controller may be anywhere.

The order is a key of the container's configuration; the VM's report a file among its templates, which LXD hands out as
it is. The VM asks its secondary (see `question`), which reads the order and leaves the report. An order is open from
`VmOrders.begin` to `withdraw`; while it is, and the standby serves, the VM may read the standby's files.

Standard library only: the receiver uses it.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from vcrecovery.errors import ExternalError, RefusedError
from vcrecovery.transfer.rootfs import Rootfs

ORDER_KEY = "user.vcrecovery.order"
#: The template's name: nothing is made from it.
REPORT = "vcrecovery-fetched"
#: A report of a VM is never longer, in bytes.
AT_MOST = 4096
_BOOT = re.compile(r"[0-9a-f-]{0,64}")
_ORDER = re.compile(r"([0-9]{1,15}) (hold|copy|last) ([0-9]{1,15}\.[0-9]{1,9})")
_LONGEST = {"system": 100, "error": 300}
_LARGEST = 2**53


class Order(StrEnum):
    """What the VM is to do: wait for its turn, copy while the standby serves, copy what is left once it has stopped."""

    HOLD = "hold"
    COPY = "copy"
    LAST = "last"


class Given(NamedTuple):
    """An order, the epoch of the failback that gave it, and when its talk with the VM began, by the controller's clock.

    Only what the VM has said in this very talk says anything of now.
    """

    epoch: int
    order: Order
    since: float

    def __str__(self) -> str:
        return f"{self.epoch} {self.order} {self.since:.6f}"


class Report(NamedTuple):
    """What a VM says that it did.

    `boot` is the kernel's name for its boot, `system` that of `primary.system_name`. `epoch` and `order` are those
    of the newest pass, 0 and "" before the first; `passes` counts the whole ones of this boot and epoch. `seconds`,
    `bytes` and `files` are of the newest pass; `error` says why it failed, empty if it did not. `at` is when the
    secondary heard it, by its own clock; `since` is that of the talk in which it did, 0 for none.
    """

    boot: str
    system: str
    epoch: int
    order: str
    passes: int
    seconds: float
    bytes: int
    files: int
    error: str
    at: float
    since: float

    def has_done(self, given: Given) -> bool:
        """Whether the newest pass was of this order, and brought everything."""
        return (self.epoch, self.order, self.error) == (given.epoch, given.order, "")


def order_in(config: Mapping[str, str]) -> Given | None:
    """The open one of a container of this configuration.

    One that is damaged is none, and so is one of a failback that is over: a later epoch has claimed the container.
    """
    found = _ORDER.fullmatch(config.get(ORDER_KEY, ""))
    if found is None:
        return None
    epoch, order, since = found.groups()
    given = Given(int(epoch), Order(order), float(since))
    return None if given.epoch < int(config.get("user.vcrecovery.epoch") or 0) else given


def report_of(text: str, at: float, since: float) -> Report:
    """Understands what a VM has said. Raises RefusedError for anything but a report."""
    if len(os.fsencode(text)) > AT_MOST:
        raise RefusedError(f"refused: a report of more than {AT_MOST} bytes")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RefusedError("refused: a report that is no JSON") from error
    return _report(found, at, since)


def leave_report(rootfs: Path, report: Report) -> None:
    """Has LXD hand it out. Raises ExternalError when the disk does not take it."""
    text = json.dumps(report._asdict()) + "\n"
    try:
        Rootfs(rootfs.parent, []).file(f"/templates/{REPORT}", text.encode(), 0o600)
    except OSError as error:
        raise ExternalError(f"{rootfs.parent} cannot be read: {error.strerror}", "run the role `secondary`") from error


def report_in(left: bytes | None, given: Given) -> Report | None:
    """What was left, if the VM has said it since `given` began; a damaged one is none."""
    try:
        found = json.loads(left or b"")
        report = _report(found, found["at"], found["since"])
    except (ValueError, RecursionError, KeyError, TypeError, RefusedError):
        return None
    return report if report.since == given.since else None


def _report(found: Any, at: Any, since: Any) -> Report:
    if not isinstance(found, dict):
        raise RefusedError("refused: a report that is no object")
    report = Report(
        boot=_text(found, "boot"),
        system=_text(found, "system"),
        epoch=_count(found, "epoch"),
        order=_text(found, "order"),
        passes=_count(found, "passes"),
        seconds=_seconds(found.get("seconds"), "seconds"),
        bytes=_count(found, "bytes"),
        files=_count(found, "files"),
        error=_text(found, "error"),
        at=_seconds(at, "at"),
        since=_seconds(since, "since"),
    )
    if not _BOOT.fullmatch(report.boot):
        raise RefusedError("refused: a report with a boot that is none")
    if report.order not in ("", Order.COPY, Order.LAST) or (report.order == "") != (report.epoch == 0):
        raise RefusedError("refused: a report of an order that nobody gives")
    return report


def _text(found: Mapping[str, Any], key: str) -> str:
    value = found.get(key)
    if not isinstance(value, str) or len(value) > _LONGEST.get(key, 64):
        raise RefusedError(f"refused: a report whose {key} is no text, or too long")
    # It is shown on a terminal.
    return "".join(c if c.isprintable() else " " for c in value)


def _count(found: Mapping[str, Any], key: str) -> int:
    value: Any = found.get(key)
    if not _is_count(value):
        raise RefusedError(f"refused: a report whose {key} is no number")
    return int(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST


def _seconds(value: Any, key: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise RefusedError(f"refused: a report whose {key} is no number")
    if not (0 <= value <= _LARGEST and math.isfinite(value)):
        raise RefusedError(f"refused: a report whose {key} is out of range")
    return float(value)
