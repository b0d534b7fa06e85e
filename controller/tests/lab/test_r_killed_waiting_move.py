"""The controller is killed at changes of the move of a standby that waits; the next call goes on, and the sync too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .killable_site import KILLED, MOST, KillableSite
from .small_site import started
from .synced_site import NAME, SECONDARIES, SyncedSite

pytestmark = pytest.mark.lab

#: Of the changes: the simulation has each (`test_waiting_moves`).
SOME = range(1, MOST, 4)


class KilledSite(KillableSite, SyncedSite):
    """A real sync, and a controller that is killed anywhere."""

    def never_two(self) -> None:
        assert len(self.take_files()) <= 1


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KilledSite]:
    with started(KilledSite(tmp_path_factory.mktemp("killed"), [NAME])) as site:
        yield site


def test_at_changes_of_a_move_there_and_back(site: KilledSite) -> None:
    for number in range(50):
        site.write(f"srv/{number}", f"{number}\n")
    for turn, boundary in enumerate(SOME):
        to = SECONDARIES[(turn + 1) % 2]
        words = ["move", NAME, "--to", to]
        killed = site.run(*words, before=f"{boundary}@")
        site.never_two()
        finished = site.run(*words)
        assert finished.returncode == 0, (boundary, finished.stdout, finished.stderr)
        assert site.take_files() == [to]
        site.wait_whole(to)
        assert site.differences_on(to) == []
        site.write("srv/after", f"the move to {to}, killed at {boundary}\n")
        site.arrives("srv/after", to)
        if killed.returncode != KILLED:
            break
    # Opened; six steps with a beginning and an end; closed; LXD's changes of three passes, and of both ends.
    assert boundary > 1 + 6 * 2 + 1 + 3 * 2


def test_at_every_kind_of_change(site: KilledSite) -> None:
    to = "sec2" if site.take_files() == ["sec1"] else "sec1"
    changes = site.killed_ever_further("move", NAME, "--to", to)
    assert {"Journal.open", "Journal.begin", "Journal.end", "Journal.close"} <= set(changes)
    assert site.take_files() == [to]
    assert site.run("move", NAME, "--to", to).stdout == f"{NAME}: nothing to do: its standby waits on {to}\n"
