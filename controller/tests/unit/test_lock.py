"""Who may hold a service, and for whom one waits."""

from __future__ import annotations

import fcntl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from vcrecovery.errors import BusyError, ExternalError, lock_errors
from vcrecovery.store import lock
from vcrecovery.store.lock import Holder, after_acts, is_at_work, one_act, one_keeper, service_lock


@contextmanager
def held(state_dir: Path, *, brief: bool) -> Iterator[threading.Event]:
    """Somebody else holds the service until the event is set."""
    has, over = threading.Event(), threading.Event()

    def hold() -> None:
        with service_lock(state_dir, "web", brief=brief):
            has.set()
            over.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    assert has.wait(30)
    try:
        yield over
    finally:
        over.set()
        holder.join(30)


def test_who_is_at_work_turns_the_others_away_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "PATIENCE", 60.0)
    with held(tmp_path, brief=False):
        begun = time.monotonic()
        for brief in (False, True):
            with pytest.raises(BusyError, match=r"process \d+ is already at work on web"):  # noqa: SIM117
                with service_lock(tmp_path, "web", brief=brief):
                    pytest.fail("it was held twice")
        assert time.monotonic() - begun < lock.PATIENCE / 2


@pytest.mark.parametrize(
    ("brief", "waits", "does_not_wait", "said"),
    [
        (True, {}, {"brief": True}, "at work on the standby of web"),  # a failover, and another short act
        (False, {"at_work": 60.0}, {"at_work": 0.2}, "already at work on web"),  # a word, for a while
    ],
    ids=["a failover for a short act", "a word for who is at work without it"],
)
def test_who_waits(
    brief: bool, waits: dict[str, Any], does_not_wait: dict[str, Any], said: str, tmp_path: Path
) -> None:
    got: list[float] = []

    def wait() -> None:
        with service_lock(tmp_path, "web", **waits):
            got.append(time.monotonic())

    with held(tmp_path, brief=brief) as over:
        waiting = threading.Thread(target=wait)
        waiting.start()
        with pytest.raises(BusyError, match=said), service_lock(tmp_path, "web", **does_not_wait):
            pytest.fail("it was held twice")
        assert got == []
        ended = time.monotonic()
        over.set()
        waiting.join(30)
    assert got
    assert got[0] >= ended


def test_it_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "PATIENCE", 0.2)
    with held(tmp_path, brief=True), pytest.raises(BusyError, match="still at work on the standby of web"):  # noqa: SIM117
        with service_lock(tmp_path, "web"):
            pytest.fail("it was held twice")


def test_one_whose_wait_ends_at_a_failover_is_turned_away(tmp_path: Path) -> None:
    with service_lock(tmp_path, "web", brief=True):
        pass
    with held(tmp_path, brief=False), pytest.raises(BusyError, match="already at work"):  # noqa: SIM117
        with service_lock(tmp_path, "web"):
            pytest.fail("it was held twice")


def test_an_act_on_the_container_does_not_hold_the_service(tmp_path: Path) -> None:
    with one_act(tmp_path, "web"):
        # A failover, which waits where it touches the container.
        with service_lock(tmp_path, "web", patience=0.0), pytest.raises(ExternalError, match="still at work"):  # noqa: SIM117
            with after_acts(tmp_path, "web", 0.2):
                pytest.fail("it was held twice")
        # Another act does not wait.
        with pytest.raises(BusyError), one_act(tmp_path, "web"):
            pytest.fail("it was held twice")
    with service_lock(tmp_path, "web"), after_acts(tmp_path, "web", 0.0):
        pass


def test_no_act_begins_while_a_failover_is_at_work(tmp_path: Path) -> None:
    for _ in range(2):
        with service_lock(tmp_path, "web"), pytest.raises(BusyError, match="already at work"):  # noqa: SIM117
            with one_act(tmp_path, "web"):
                pytest.fail("it was held twice")
    with one_act(tmp_path, "web"):
        pass


def test_an_act_that_could_not_write_its_name_is_waited_for(tmp_path: Path) -> None:
    with one_act(tmp_path, "web"):
        # As on a full disk.
        (tmp_path / "locks/standby/web.lock").write_text("")
        began = time.monotonic()
        with pytest.raises(ExternalError), after_acts(tmp_path, "web", 1.5):
            pytest.fail("it was held twice")
        assert time.monotonic() - began >= 1.5


def test_the_name_of_one_that_was_killed_turns_nobody_away(tmp_path: Path) -> None:
    """It stays in the file. Who only looks whether somebody is at work holds the lock for a moment, and has no name."""
    killed = subprocess.Popen(["/bin/true"])
    killed.wait()
    with service_lock(tmp_path, "web"):
        pass
    path = tmp_path / "locks/web.lock"
    path.write_bytes(Holder(killed.pid).written())
    with path.open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        over = threading.Timer(0.1, fcntl.flock, (looking, fcntl.LOCK_UN))
        over.start()
        with service_lock(tmp_path, "web"):
            pass
        over.join()


def test_a_keeper_turns_another_away_and_no_failover(tmp_path: Path) -> None:
    with one_keeper(tmp_path, "web"):
        with pytest.raises(BusyError, match=r"process \d+ is still at work on the standby of web"):  # noqa: SIM117
            with one_keeper(tmp_path, "web"):
                pytest.fail("it was held twice")
        with one_act(tmp_path, "web"), one_keeper(tmp_path, "mail"):
            pass
        with service_lock(tmp_path, "web"), after_acts(tmp_path, "web", 0.0):
            pass


def test_a_verb_waits_for_the_keeper(tmp_path: Path) -> None:
    got = threading.Event()

    def wait() -> None:
        with one_keeper(tmp_path, "web", 60.0):
            got.set()

    with one_keeper(tmp_path, "web"):
        with pytest.raises(BusyError, match="still at work on the standby of web"), one_keeper(tmp_path, "web", 0.2):
            pytest.fail("it was held twice")
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert not got.is_set()
    assert got.wait(30)
    waiting.join(30)


def test_who_is_at_work_is_seen_from_outside(tmp_path: Path) -> None:
    assert not is_at_work(tmp_path, "web")
    with held(tmp_path, brief=False):
        assert is_at_work(tmp_path, "web")
        assert not is_at_work(tmp_path, "mail")
    assert not is_at_work(tmp_path, "web")
    with held(tmp_path, brief=True), one_keeper(tmp_path, "web"):
        assert not is_at_work(tmp_path, "web")
    # Whoever looks is in nobody's way.
    with service_lock(tmp_path, "web"):
        pass


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (PermissionError(13, "Permission denied"), "call as the user to whom it belongs, root, then run it again"),
        (OSError(28, "No space left on device"), "free some space or correct its rights, then run it again"),
        (OSError(30, "Read-only file system"), "`dmesg` says why it is that, then run it again"),
    ],
)
def test_a_lock_that_cannot_be_used_says_what_helps(tmp_path: Path, error: OSError, hint: str) -> None:
    with pytest.raises(ExternalError) as caught, lock_errors(tmp_path / "web.lock"):
        raise error
    assert str(caught.value) == f"the lock {tmp_path}/web.lock cannot be used: {error.strerror}; {hint}"
