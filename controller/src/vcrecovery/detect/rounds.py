"""Whether the watcher's tasks still go round. One that hangs goes unnoticed: its hypervisor only seems quiet."""

from __future__ import annotations

#: Seconds between two signs of life of the watcher.
BEAT_EVERY = 5.0
#: Seconds without a new round after which a task hangs. Whatever a round waits for is given up in time, the most for a
#: call to libvirt: 10 s for its turn, 10 s for its answer. A slow libvirt, or one that is away, is no hung task.
HUNG_AFTER = 60.0


class Rounds:
    """When each task began its latest round. An operator is told their names.

    Counted in signs of life instead of seconds: a program that stood still as a whole, and goes on, does not hang.
    """

    def __init__(self) -> None:
        self._beats = 0
        self._began: dict[str, int] = {}
        #: What `hung` has found last.
        self.hanging: list[str] = []

    def begin(self, task: str) -> None:
        """A task is known from the first time on."""
        self._began[task] = self._beats

    def hung(self) -> list[str]:
        """Called every BEAT_EVERY seconds."""
        self._beats += 1
        self.hanging = sorted(
            task for task, began in list(self._began.items()) if (self._beats - began - 1) * BEAT_EVERY >= HUNG_AFTER
        )
        return self.hanging
