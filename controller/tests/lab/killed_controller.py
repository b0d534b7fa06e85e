"""The real `vcrecovery`, killed with SIGKILL at a given boundary.

`python killed_controller.py N WORDS...`: boundaries are before and after each journal entry and each act.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from vcrecovery.cli.main import main
from vcrecovery.recover.journal import Journal
from vcrecovery.recover.outside import Outside


class Countdown:
    def __init__(self, boundary: int) -> None:
        self.left = boundary

    def pass_one(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self.pass_one()
            result = function(*args, **kwargs)
            self.pass_one()
            return result

        return wrapped


if __name__ == "__main__":
    countdown = Countdown(int(sys.argv.pop(1)))
    for owner, names in ((Journal, ("open", "begin", "end", "close")), (Outside, ("carry_out",))):
        for name in names:
            setattr(owner, name, countdown.around(getattr(owner, name)))
    main()
