"""The real `vcrecovery`, killed with SIGKILL at a given boundary of what it does to LXD.

`python killed_keeper.py N WORDS...`: boundaries are before and after each change of a container.
"""

from __future__ import annotations

import sys

from vcrecovery.cli.main import main
from vcrecovery.drivers.lxd import LxdServer

if __name__ == "__main__":
    sys.path.insert(0, sys.path[0].rpartition("/")[0])
    from lab.killed_controller import Countdown

    countdown = Countdown(int(sys.argv.pop(1)))
    for name in ("start", "freeze", "unfreeze", "shut_down", "configure", "ask"):
        setattr(LxdServer, name, countdown.around(getattr(LxdServer, name)))
    main()
