"""Primary, receiver and standby together."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import process
from .primary import Primary
from .receiver import Receiver, known_host
from .standby import Standby, standby
from .waiting import wait_until


@dataclass(frozen=True)
class Pair:
    """All three; the primary is not started yet."""

    primary: Primary
    receiver: Receiver
    standby: Standby

    def wait_whole(self, timeout: float, since: float = 0.0) -> None:
        """Until the standby says that it has everything of a time after `since`."""

        def whole() -> bool:
            fresh = self.standby.freshness()
            return fresh.whole and (fresh.synced_through or 0.0) > since and not self.primary.marked

        wait_until(whole, "a whole standby", timeout)


@contextmanager
def pair(tree: Path, *, beat: float = 1.0, retry: float = 2.0, pool_source: Path | None = None) -> Iterator[Pair]:
    """A pair whose primary's files are in `tree`; everything but the tree is removed at the end."""
    # A short path, since a control socket of ssh has 108 characters at most; and none that anybody may write to, where
    # sshd would trust no keys.
    folder = Path(tempfile.mkdtemp(prefix="vcrp-", dir="/run"))
    try:
        for name in ("primary", "secondary"):
            (folder / name).mkdir()
        with standby(folder / "secondary", pool_source) as made:
            receiver = Receiver(folder / "secondary", made.state, folder / "primary/sync_key")
            primary = Primary(folder / "primary", tree, receiver.port, beat, retry)
            (folder / "primary/known_hosts").write_text(known_host(receiver))
            try:
                receiver.start()
                yield Pair(primary, receiver, made)
            finally:
                primary.kill()
                receiver.stop()
                # A receiver that lost its connection while it starts would make its folder anew.
                wait_until(lambda: not process.kill(process.having(folder)), "the end of the sessions", 60)
    finally:
        shutil.rmtree(folder)
