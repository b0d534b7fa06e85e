"""The controller's token of Zabbix's API is replaced, at the real Zabbix: a watcher that asks is never refused."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from vcrecovery.drivers.zabbix import ZabbixServer
from vcrecovery.errors import ExternalError
from vcrecovery.plan.monitoring import ZabbixApi
from vcrecovery_lab.zabbix import Stack
from vcrecovery_lab.zabbix.laid_out import LaidOut

from .meanwhile import all_along
from .role_plays import cut_off_after
from .zabbix_stack import VERSIONS, throwaway_zabbix

pytestmark = [
    pytest.mark.lab,
    pytest.mark.network_of_its_own,
    pytest.mark.begins_first,
    pytest.mark.timeout(1500),
]

YOUNG = ("-e", "vcrecovery_keys_older_than=1h")
#: That one rotation makes.
CHANGES = 7


class Site(LaidOut):
    def __init__(self, stack: Stack, folder: Path) -> None:
        self.token_file = folder / "etc/secrets/token"
        self.api = ZabbixApi.model_validate({"url": stack.url, "token_file": self.token_file})
        plan = {
            "version": 1,
            "state_dir": str(folder / "state"),
            "hypervisors": {"hv1": {"site": "main"}},
            "zabbix": {"api": {"url": stack.url, "token_file": str(self.token_file)}},
        }
        program = folder / "vcrecovery"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        super().__init__(stack, folder, plan, program, {"monitoring_supervisor": "process"})

    def token(self) -> str:
        return self.token_file.read_text().strip()

    def rotated(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return self.playbook("keys_rotate", "--tags", "token", "--diff", *words, environment=more)

    def rotate(self, *words: str) -> int:
        """How many tasks have changed something."""
        before = self.token()
        done = self.rotated(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        for token in (before, self.token()):
            assert token not in done.stdout + done.stderr
        return sum(int(count) for count in re.findall(r"changed=(\d+)", done.stdout))

    def is_taken(self, token: str) -> bool:
        file = self.folder / "some-token"
        file.touch(mode=0o600)
        file.write_text(token)
        try:
            ZabbixServer(self.api.model_copy(update={"token_file": file}), timeout=120.0).open_problems()
        except ExternalError as error:
            if "does not take the token" not in str(error):
                raise
            return False
        return True

    def assert_rotated(self, before: str) -> None:
        assert self.token() != before
        assert (self.is_taken(self.token()), self.is_taken(before)) == (True, False)
        assert self.token_file.stat().st_mode & 0o777 == 0o600
        assert [file.name for file in self.token_file.parent.iterdir()] == ["token"]
        assert [token["name"] for token in self.stack.api().token.get(output=["name"])] == ["vcrecovery"]

    @contextmanager
    def asked(self) -> Iterator[list[str]]:
        """What has gone wrong for a watcher that asks all along."""
        wrong, server = list[str](), ZabbixServer(self.api, timeout=120.0)
        asked = 0

        def ask() -> None:
            nonlocal asked
            try:
                server.open_problems()
            except ExternalError as error:
                wrong.append(str(error))
            asked += 1

        with all_along(ask, 0.1):
            yield wrong
        assert asked > 10


# Its calls of the API are the same with the older ones.
ONE_AT_LENGTH = [VERSIONS[0], *(pytest.param(version, marks=pytest.mark.at_length) for version in VERSIONS[1:])]


@pytest.fixture(scope="module", params=ONE_AT_LENGTH)
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    with throwaway_zabbix(request.param) as stack:
        folder = stack.folder / "m"
        folder.mkdir()
        folder.chmod(0o755)
        made = Site(stack, folder)
        try:
            made.play()
            yield made
        finally:
            made.stop("zabbix-agent")


def test_a_token_is_replaced_and_who_asks_is_never_refused(site: Site) -> None:
    before = site.token()
    assert site.rotate(*YOUNG) == 0
    assert site.rotate("--check") == 1
    assert site.token() == before
    with site.asked() as wrong:
        assert site.rotate() == CHANGES
    assert wrong == []
    site.assert_rotated(before)
    assert site.rotate(*YOUNG) == 0
    # The role takes it for its own.
    assert re.findall(r"changed=(\d+)", site.play()) == ["0", "0"]


@pytest.mark.at_length
@pytest.mark.parametrize("changes", range(1, CHANGES))
def test_wherever_it_is_cut_off_the_next_run_finishes_it(site: Site, changes: int) -> None:
    before = site.token()
    with site.asked() as wrong:
        assert site.rotated(**cut_off_after(changes)).returncode == -signal.SIGKILL
        # The first change is nothing but a token in Zabbix that nobody has: it is too young to begin again.
        site.rotate(*(() if changes == 1 else YOUNG))
    assert wrong == []
    site.assert_rotated(before)
