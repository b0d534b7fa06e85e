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
        ssh_config=str(tmp_path / "ssh_config"),
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
    assert done is not None
    standby = tmp_path / "standby"
    assert (standby / "row").read_text() == "the last one"
    assert not (standby / "old").exists()
    assert not (standby / "secret").exists()
    assert done.files >= 1
    assert heartbeat(standby) == heartbeat(tmp_path / "tree")
    assert heartbeat(standby) == {
        "at": 200.0, "good_until": None, "queue": 0, "units": None, "boot": boot_id(), "final": True,
        "sent": None,
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
def test_a_machine_that_goes_on_sends_nothing(state: str, settings: Settings, tmp_path: Path) -> None:
    """Its services write, and whoever upgrades the unit restarts it."""
    assert send_last_files(settings, lambda _command, _timeout: f"SystemState={state}\n", lambda: 200.0) is None
    assert not (tmp_path / "standby/row").exists()
    assert (tmp_path / "standby/old").exists()


def test_a_file_system_that_is_gone_is_not_emptied_in_the_standby(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "sent-mounts").write_text(f"{tmp_path}/tree/old\n")
    with pytest.raises(ProgramError, match="tree/old is not mounted any more: give it the option x-systemd"):
        send_last_files(settings, stopping, lambda: 200.0)
    assert (tmp_path / "standby/old").exists()
    assert not (tmp_path / "tree/var/lib/vcrecovery/heartbeat").exists()


@pytest.mark.parametrize("point", ["secret", "secret/below"])
def test_a_file_system_of_which_nothing_is_sent_may_be_gone(point: str, settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "sent-mounts").write_text(f"{tmp_path}/tree/{point}\n")
    assert send_last_files(settings, stopping, lambda: 200.0) is not None
    assert heartbeat(tmp_path / "standby")["final"] is True


def test_the_next_boots_first_heartbeat_takes_the_word_back(settings: Settings, tmp_path: Path) -> None:
    send_last_files(settings, stopping, lambda: 200.0)
    stamp(settings.state_dir, 300.0, None, 0, {})
    assert heartbeat(tmp_path / "tree")["final"] is False
