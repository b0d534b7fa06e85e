"""A failback's word between the controller and the VM: an order lies here, and the VM's answer comes to lie beside it.

The VM asks its secondary (see `question`), which reads the order and leaves the VM's report. An order is open from
`give` to `withdraw`; while it is, and the standby serves, the VM may read the standby's files.

Standard library only: the receiver uses it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from vcrecovery.errors import ExternalError, RefusedError

#: A report of a VM is never longer, in bytes.
AT_MOST = 4096
_BOOT = re.compile(r"[0-9a-f-]{0,64}")
_LONGEST = {"system": 100, "error": 300}
_LARGEST = 2**53


class Order(StrEnum):
    """What the VM is to do: wait for its turn, copy while the standby serves, copy what is left once it has stopped."""

    HOLD = "hold"
    COPY = "copy"
    LAST = "last"


@dataclass(frozen=True)
class Given:
    """An order, and the epoch of the failback that gave it."""

    epoch: int
    order: Order


@dataclass(frozen=True)
class Report:
    """What a VM says that it did.

    `boot` is the kernel's name for its boot, `system` that of `primary.system_name`. `epoch` and `order` are those
    of the newest pass, 0 and "" before the first; `passes` counts the whole ones of this boot and epoch. `seconds`,
    `bytes` and `files` are of the newest pass; `error` says why it failed, empty if it did not. `at` is when the
    secondary heard it, by its own clock.
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

    def has_done(self, given: Given) -> bool:
        """Whether the newest pass was of this order, and brought everything."""
        return (self.epoch, self.order, self.error) == (given.epoch, given.order, "")


def _order_file(state_dir: Path, service: str) -> Path:
    return state_dir / "standbys" / f"{service}.failback"


def _report_file(state_dir: Path, service: str) -> Path:
    return state_dir / "standbys" / f"{service}.fetched"


def give(state_dir: Path, service: str, epoch: int, order: Order) -> None:
    """Replaces the order at once. Raises ExternalError when the disk does not take it."""
    _write(_order_file(state_dir, service), {"epoch": epoch, "order": order.value})


def withdraw(state_dir: Path, service: str) -> None:
    """No order is open any more, and nothing is known of the VM. Raises ExternalError when the disk does not do it."""
    for path in (_order_file(state_dir, service), _report_file(state_dir, service)):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise _trouble(path, "removed", error) from error


def read_order(state_dir: Path, service: str) -> Given | None:
    """The open one; one that is damaged is none. Raises ExternalError when the disk does not give it."""
    found = _read(_order_file(state_dir, service))
    try:
        epoch = found["epoch"]
        return Given(epoch, Order(found["order"])) if _is_count(epoch) else None
    except (KeyError, ValueError):
        return None


def read_report(state_dir: Path, service: str) -> Report | None:
    """The VM's newest; None if none has come, or a damaged one. Raises ExternalError when the disk does not give it."""
    found = _read(_report_file(state_dir, service))
    try:
        return _report(found, found["at"])
    except (KeyError, RefusedError):
        return None


def take_report(state_dir: Path, service: str, text: str, at: float) -> Report:
    """Understands what a VM has said, and keeps it while an order is open.

    Raises RefusedError for anything but a report, and ExternalError when the disk does not take it.
    """
    if len(os.fsencode(text)) > AT_MOST:
        raise RefusedError(f"refused: a report of more than {AT_MOST} bytes")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RefusedError("refused: a report that is no JSON") from error
    report = _report(found, at)
    if read_order(state_dir, service) is not None:
        path = _report_file(state_dir, service)
        _write(path, asdict(report))
        if read_order(state_dir, service) is None:
            # It was withdrawn in between: see there.
            path.unlink(missing_ok=True)
    return report


def _report(found: Any, at: Any) -> Report:
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


def _read(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(2 * AT_MOST))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _trouble(path, "read", error) from error
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(path: Path, values: Mapping[str, Any]) -> None:
    # A name of its own: two sessions of one VM may report at the same time.
    scratch = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(scratch, flags, 0o600), "w") as out:
                json.dump(values, out)
                out.write("\n")
                out.flush()
                os.fsync(out.fileno())
            scratch.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                scratch.unlink()
            raise
    except OSError as error:
        raise _trouble(path, "written", error) from error


def _trouble(path: Path, what: str, error: OSError) -> ExternalError:
    return ExternalError(
        f"{path} cannot be {what}: {error.strerror}", "free some space or correct its rights, then run it again"
    )
