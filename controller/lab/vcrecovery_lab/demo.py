"""The demonstration: change a page on the primary, crash it, show how the standby takes over, and go back to the VM."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from datetime import UTC, datetime

from vcrecovery.cli import timeline
from vcrecovery.core.episode import DONE_WORD, Step

from .client import fetch
from .image import Image
from .layout import CHECKOUT, SERVICE, Layout
from .machine import qemu_pid, ssh
from .pair.waiting import Deadline
from .run import LabError, run

#: From the change of the page to the crash.
SECONDS_BEFORE_CRASH = 5.0
PATIENCE = 120.0


def controller(layout: Layout, *words: str, timeout: float = 120) -> str:
    """What `vcrecovery WORDS` prints."""
    program = str(CHECKOUT / ".venv/bin/vcrecovery")
    return run([program, *words, "--plan", layout.plan_file], timeout=timeout).stdout


def _say(text: str = "") -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def demo(layout: Layout, image: Image) -> None:
    """Raises LabError when the promised page does not come."""
    vm = layout.primary()
    url = f"http://{layout.name}/"
    if fetch(layout.name_server, url) is None:
        raise LabError(f"{url} gives no page before the crash; try `make lab-down` and again")
    page = f"written on the primary at {datetime.now(UTC).astimezone():%H:%M:%S.%f}"
    ssh(vm, image, layout.machines, ["sh", "-c", f"echo '{page}' > /var/www/html/index.html"], timeout=30)
    written = time.time()
    _say(f"\nThe page of {url} was changed on the primary:\n  {page}")
    pid = qemu_pid(vm)
    if pid is None:
        raise LabError("the primary does not run")
    # A few seconds, as promised: the point is that the sync needs no more.
    time.sleep(max(0.0, written + SECONDS_BEFORE_CRASH - time.time()))
    os.kill(pid, signal.SIGKILL)
    crashed = time.time()
    _say(f"The primary's QEMU (process {pid}) was killed {crashed - written:.1f} s later.\n")
    visible = _wait_for(layout, url, page)
    _show(layout, crashed, visible)
    _say(f"\n$ curl {url}\n{fetch(layout.name_server, url) or ''}")
    _say(controller(layout, "status").rstrip())
    _go_back(layout, url)
    _say(f"\nLook around: export VCRECOVERY_PLAN={layout.plan_file}; .venv/bin/vcrecovery history")
    _say("Remove everything: make lab-down")


def _go_back(layout: Layout, url: str) -> None:
    """Raises LabError when something that the standby has written is not on the VM."""
    page = f"written in the standby at {datetime.now(UTC).astimezone():%H:%M:%S.%f}"
    inside = ["lxc", "exec", SERVICE, "--", "sh", "-c", f"echo '{page}' > /var/www/html/index.html"]
    run(inside, timeout=30)
    _say(f"\nThe page was changed in the standby:\n  {page}\nNow back to the VM, which has been off since:\n")
    _say(f"$ vcrecovery failback {SERVICE}\n{controller(layout, 'failback', SERVICE, timeout=600).rstrip()}")
    _wait_for(layout, url, page)
    _say(f"\n$ curl {url}\n{page}\n{controller(layout, 'status').rstrip()}")


def _wait_for(layout: Layout, url: str, page: str) -> float:
    deadline, seen = Deadline(PATIENCE), None
    while not deadline.is_over:
        seen = fetch(layout.name_server, url)
        if seen is not None and seen.strip() == page:
            return time.time()
        deadline.pause(0.05)
    got = "no page" if seen is None else f"another page: {seen.strip()[:80]}"
    sys.stderr.write(controller(layout, "history"))
    raise LabError(f"{url} gives {got} {PATIENCE:.0f} s after the crash; see {layout.root}/log/vcrecovery-watch.log")


def _show(layout: Layout, crashed: float, visible: float) -> None:
    episode = json.loads(controller(layout, "history", SERVICE, "--limit", "1", "--json"))["episodes"][0]
    rows = [("crashed", crashed, "SIGKILL to QEMU"), ("detected", episode["opened_at"], episode["cause"])]
    rows += [
        (DONE_WORD[Step(step["step"])], step["ended_at"], step["evidence"].get("summary", ""))
        for step in episode["steps"]
        if step["ok"]
    ]
    rows.append(("visible", visible, f"curl through {layout.name} gives the page"))
    _say(f"{SERVICE}, epoch {episode['epoch']}")
    for word, at, detail in sorted(rows, key=lambda row: row[1]):
        _say(timeline.line(word, at, crashed, detail))
