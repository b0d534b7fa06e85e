"""`vcrecovery standby wait` where controllers are on other machines: the container says what the journal does not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from vcrecovery.cli import standby
from vcrecovery.core.service_state import Side
from vcrecovery.standby.container import ACTIVE, ROLE_KEY, SPARE, STANDBY, WAITS_ON_KEY

SERVES = "web: its standby serves: nothing is synced before `vcrecovery failback web`\n"
WAITS = "web: its standby waits on sec2: see `vcrecovery status web` on its controller\n"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({ROLE_KEY: ACTIVE}, SERVES),
        ({ROLE_KEY: SPARE, WAITS_ON_KEY: "sec2"}, WAITS),
        ({ROLE_KEY: STANDBY}, "web: in sync, files 3 s old\n"),
    ],
    ids=["serves", "waits elsewhere", "stands by"],
)
def test_it_waits_only_for_one_that_stands_by_here(
    plan_file: Path, monkeypatch: pytest.MonkeyPatch, config: dict[str, str], said: str
) -> None:
    lxd = SimpleNamespace(get=lambda service: SimpleNamespace(config=config))
    journal = SimpleNamespace(state=lambda service: SimpleNamespace(side=Side.PRIMARY))
    here = SimpleNamespace(journal=journal, lxd={"sec1": lxd}, clock=None)
    monkeypatch.setattr(standby, "Environment", lambda plan: here)
    monkeypatch.setattr(standby, "wait_for_sync", lambda *words, **more: 3.0)
    done = CliRunner().invoke(standby.standby, ["wait", "web", "--plan", str(plan_file)])
    assert (done.exit_code, done.output) == (0, said)
