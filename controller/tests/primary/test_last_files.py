"""What an orderly shutdown leaves, with the real rsync, into a folder in the place of the receiver."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from vcrecovery.excludes.selection import Selection
from vcrecovery.primary.heartbeat import boot_id, stamp
from vcrecovery.primary.last_files import send_last_files
from vcrecovery.primary.programs import ProgramError
from vcrecovery.primary.settings import Settings


@pytest.fixture(name="settings")
def a_pair(tmp_path: Path) -> Settings:
    for name in ("tree/var/lib/vcrecovery", "standby/old", "run"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "list").write_text("H /secret\nP /secret\n")
    (tmp_path / "tree/secret").write_text("s")
    (tmp_path / "tree/row").write_text("the last one")
    return Settings(
        selection=Selection(),
        lists={"rsync-filter": str(tmp_path / "list"), "lsyncd": str(tmp_path / "none")},
        source=str(tmp_path / "tree"),
        target=f"{tmp_path}/standby/",
        run_dir=str(tmp_path / "run"),
        state_dir=str(tmp_path / "tree/var/lib/vcrecovery"),
    )


def stopping(command: Sequence[str], _timeout: float) -> str:
    assert command == ["systemctl", "show", "--property=SystemState"]
    return "SystemState=stopping\n"


def heartbeat(top: Path) -> dict[str, object]:
    found = json.loads((top / "var/lib/vcrecovery/heartbeat").read_text())
    assert isinstance(found, dict)
    return found


def test_all_is_sent_and_vouched_for(settings: Settings, tmp_path: Path) -> None:
    stamp(settings.state_dir, 100.0, None, 3, {})
    done = send_last_files(settings, stopping, lambda: 200.0)
    standby = tmp_path / "standby"
    assert (standby / "row").read_text() == "the last one"
    assert not (standby / "old").exists()
    assert not (standby / "secret").exists()
    assert done.files >= 1
    assert heartbeat(standby) == heartbeat(tmp_path / "tree")
    assert heartbeat(standby) == {
        "at": 200.0, "good_until": None, "queue": 0, "units": None, "boot": boot_id(), "final": True
    }  # fmt: skip


def test_what_cannot_be_sent_is_not_vouched_for(settings: Settings, tmp_path: Path) -> None:
    stamp(settings.state_dir, 100.0, None, 3, {})
    broken = settings._replace(target=f"{tmp_path}/row-of-a-file/none/")
    (tmp_path / "row-of-a-file").write_text("")
    with pytest.raises(ProgramError):
        send_last_files(broken, stopping, lambda: 200.0)
    assert heartbeat(tmp_path / "tree")["final"] is False
    assert heartbeat(tmp_path / "tree")["at"] == 100.0


@pytest.mark.parametrize("state", ["running", "maintenance", ""])
def test_a_machine_that_goes_on_vouches_for_nothing(state: str, settings: Settings, tmp_path: Path) -> None:
    send_last_files(settings, lambda _command, _timeout: f"SystemState={state}\n", lambda: 200.0)
    assert (tmp_path / "standby/row").exists()
    assert heartbeat(tmp_path / "standby")["final"] is False


def test_the_next_boots_first_heartbeat_takes_the_word_back(settings: Settings, tmp_path: Path) -> None:
    send_last_files(settings, stopping, lambda: 200.0)
    stamp(settings.state_dir, 300.0, None, 0, {})
    assert heartbeat(tmp_path / "tree")["final"] is False
