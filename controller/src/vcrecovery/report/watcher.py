"""Whether anybody watches. Where no watcher has ever run, such as beside Zabbix's actions alone, none is missed."""

from __future__ import annotations

from vcrecovery.core.notice import Topic
from vcrecovery.core.text import day_and_time
from vcrecovery.operations.environment import Environment
from vcrecovery.report.findings import Finding, Level
from vcrecovery.store.watcher_beat import WatcherBeat

#: Seconds without a sign of the watcher: many times what lies between two, and more than its restart takes.
SILENT_FOR = 60.0


def of_the_watcher(env: Environment) -> list[Finding]:
    """That it has ended, or hangs."""
    last = WatcherBeat(env.plan.state_dir).last()
    # A clock that was set back is followed by the next sign.
    if last is None or abs(env.clock.now() - last) < SILENT_FOR:
        return []
    sentence = f"not at work since {day_and_time(last)}: no failure is noticed, and nothing fails over automatically"
    hint = "`systemctl status vcrecovery-watch` says why, `systemctl restart vcrecovery-watch` starts it"
    return [Finding(Level.ATTENTION, "watcher", sentence, hint, Topic.WATCHER)]
