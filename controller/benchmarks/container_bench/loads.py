"""The loads: shell commands that are the same on every side, and the figure in what they print. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .scale import Scale

#: Where files are written, on every side.
FOLDER = "/srv/bench"
_FROM, _TO, _FIO, _YAML = (f"{FOLDER}/{name}" for name in ("from", "to", "fio", "stress.yml"))
#: stress-ng skips `exec` where it is root; all run as this one, on every side.
_NOBODY = "setpriv --reuid=65534 --regid=65534 --clear-groups"
#: As many open files on every side, whoever has started the shell.
_LIMITS = "ulimit -n 1024 && "


class NoFigureError(Exception):
    """A load printed none; the message says what it printed."""


@dataclass(frozen=True)
class Load:
    """`figure` reads it out of what `command` printed: the more, the better."""

    name: str
    unit: str
    command: str
    figure: Callable[[str], float]


#: Operations of UnixBench, and the stressor of stress-ng that does nearly the same.
STRESSORS = {
    "integer arithmetic": "--cpu 1 --cpu-method int64",
    "floating point": "--cpu 1 --cpu-method double",
    "pipe": "--pipe 1",
    "context switch": "--switch 1",
    "system call": "--dup 1",
    "fork": "--fork 1",
    "exec": "--exec 1",
}
#: Bytes of UnixBench's buffers.
BUFFERS = (256, 1024, 4096)
COPIES = tuple(f"file copy, {size} B" for size in BUFFERS)
UNIXBENCH = (*STRESSORS, *COPIES)
FIO = {"sequential read": "read", "sequential write": "write", "random read": "randread", "random write": "randwrite"}
NETWORK = "TCP to it"


def prepare(scale: Scale) -> str:
    """Makes the files that the loads use, so that no load's time has it in it."""
    size = f"bs=1M count={max(scale.copied_mib, 1)}"
    return (
        f"mkdir -p {FOLDER} && chmod 1777 {FOLDER} && "
        f"dd if=/dev/urandom of={_FROM} {size} status=none && cp {_FROM} {_TO} && "
        f"dd if=/dev/urandom of={_FIO} bs=1M count={scale.file_mib} status=none && "
        "sync && (pgrep iperf3 || iperf3 -s -D)"
    )


def loads(scale: Scale) -> list[Load]:
    """Those that run on the side itself; the network's is asked from outside."""
    found = [
        Load(name, "operations/s", _LIMITS + _stress(words, scale.seconds), bogo_operations)
        for name, words in STRESSORS.items()
    ]
    # stress-ng's copy-file has no buffer to choose, and copy_file_range, which it calls, copies nothing on btrfs.
    for name, size in zip(COPIES, BUFFERS, strict=True):
        count = scale.copied_mib * 2**20 // size
        copy = f"dd if={_FROM} of={_TO} bs={size} count={count} conv=notrunc"
        found.append(Load(name, "MB/s", f"LC_ALL=C {copy} 2>&1", copied))
    for name, direction in FIO.items():
        found.append(Load(name, "MB/s", _fio(direction, scale), transferred))
    return found


def _stress(words: str, seconds: int) -> str:
    # A stressor that is skipped writes nothing and ends well: the one before it must not answer for it.
    return (
        f"rm -f {_YAML}; {_NOBODY} stress-ng -q {words} --temp-path {FOLDER} -t {seconds} --metrics --yaml {_YAML}; "
        f"cat {_YAML}"
    )


def _fio(direction: str, scale: Scale) -> str:
    block = "4k" if direction.startswith("rand") else "1M"
    return (
        f"fio --name={direction} --filename={_FIO} --size={scale.file_mib}M --rw={direction} --bs={block} --direct=1 "
        f"--ioengine=psync --time_based --runtime={scale.seconds} --output-format=json"
    )


def bogo_operations(printed: str) -> float:
    found = re.search(r"^\s*bogo-ops-per-second-real-time: ([\d.]+)$", printed, re.MULTILINE)
    return _positive(found[1] if found else None, "stress-ng", printed)


def copied(printed: str) -> float:
    found = re.search(r"^(\d+) bytes .*copied, ([\d.e-]+) s,", printed, re.MULTILINE)
    return _positive(found and float(found[1]) / 1e6 / max(float(found[2]), 1e-9), "dd", printed)


def transferred(printed: str) -> float:
    """fio may say something before its JSON."""
    try:
        job = json.loads(printed[printed.index("{") :])["jobs"][0]
        return _positive((job["read"]["bw_bytes"] + job["write"]["bw_bytes"]) / 1e6, "fio", printed)
    except (ValueError, LookupError, TypeError) as error:
        raise NoFigureError(f"fio printed no figure: {_shown(printed)}") from error


def received(printed: str) -> float:
    """Megabits per second, as iperf3's receiver counts them."""
    try:
        found: Mapping[str, float] = json.loads(printed)["end"]["sum_received"]
        return _positive(found["bits_per_second"] / 1e6, "iperf3", printed)
    except (ValueError, LookupError, TypeError) as error:
        raise NoFigureError(f"iperf3 printed no figure: {_shown(printed)}") from error


def _positive(figure: str | float | None, program: str, printed: str) -> float:
    """Nothing at all is no figure either: a ratio to it would be none."""
    if figure is None or float(figure) <= 0:
        raise NoFigureError(f"{program} printed no figure: {_shown(printed)}")
    return float(figure)


def _shown(printed: str) -> str:
    return " ".join(printed.split())[-160:] or "nothing"
