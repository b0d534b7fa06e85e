"""The key of the controller's Zabbix agent is replaced, at the real Zabbix: each recovery is started, and at once."""

from __future__ import annotations

import logging
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from zabbix_utils import ItemValue, Sender

from vcrecovery_lab.ports import free_port
from vcrecovery_lab.zabbix import Stack
from vcrecovery_lab.zabbix.agent import Agent, Psk
from vcrecovery_lab.zabbix.laid_out import AGENT, PATIENCE, LaidOut

from .meanwhile import all_along
from .role_plays import cut_off_after
from .waiting import wait_for
from .zabbix_stack import throwaway_zabbix

pytestmark = [
    pytest.mark.lab,
    pytest.mark.network_of_its_own,
    pytest.mark.begins_first,
    pytest.mark.timeout(1500),
]

log = logging.getLogger(__name__)
YOUNG = ("-e", "vcrecovery_keys_older_than=1h")
#: That one rotation makes, those of a loop one by one.
CHANGES = 15
#: What fails all the time.
HOST, KEY = "failing", "vcr.fails"
#: An alert's state in Zabbix, once the agent has taken the command.
TAKEN = "1"


class Site(LaidOut):
    def __init__(self, stack: Stack, folder: Path) -> None:
        token_file, state = folder / "etc/secrets/token", folder / "state"
        plan = {
            "version": 1,
            "state_dir": str(state),
            "hypervisors": {"hv1": {"site": "main"}},
            "zabbix": {"api": {"url": stack.url, "token_file": str(token_file)}},
        }
        self.spool, self.next_port = state / "events", free_port()
        program = folder / "vcrecovery"
        program.write_text(f'#!/bin/sh\necho "$2" >> {self.spool}/ran\n')
        program.chmod(0o755)
        more = {"monitoring_supervisor": "process", "monitoring_agent_next_port": self.next_port}
        super().__init__(stack, folder, plan, program, more)
        self.psk = folder / "agent/psk"

    def key(self) -> str:
        return self.psk.read_text()

    def rotated(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        done = self.playbook("keys_rotate", "--tags", "psk", "--diff", *words, timeout=700, environment=more)
        for file in self.folder.glob("agent/psk*"):
            assert file.read_text() not in done.stdout + done.stderr
        return done

    def rotate(self, *words: str) -> int:
        """How many changes it made."""
        before = self.key()
        done = self.rotated(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        assert before not in done.stdout + done.stderr
        loops = re.findall(r"^changed: .* => \(item=", done.stdout, re.MULTILINE)
        tasks = sum(int(count) for count in re.findall(r"changed=(\d+)", done.stdout))
        return tasks + len(loops) - bool(loops)

    def is_taken(self, key: str) -> bool:
        file = self.folder / "some-key"
        file.touch(mode=0o600)
        file.write_text(key)
        agent = Agent(self.stack.installation, AGENT, self.agent_port, self.folder, Psk(AGENT, file))
        return agent.ask("agent.ping") == "1"

    def assert_rotated(self, before: str) -> None:
        assert self.key() != before
        assert (self.is_taken(self.key()), self.is_taken(before)) == (True, False)
        assert self.psk.stat().st_mode & 0o777 == 0o640
        assert self.daemon("vcrecovery-agent-next") is None
        assert sorted(path.name for path in (self.folder / "agent").iterdir()) == [
            "agentd.conf",
            "conf.d",
            "psk",
            "run",
        ]
        api = self.stack.api()
        assert [host["host"] for host in api.host.get(search={"host": AGENT}, output=["host"])] == [AGENT]
        assert self.starts_by() == [AGENT]
        assert api.item.get(search={"key_": "system.localtime[utc]"}, output=["key_"]) == []

    def starts_by(self) -> list[str]:
        """The agents by which Zabbix starts recoveries."""
        api = self.stack.api()
        (action,) = api.action.get(filter={"name": "VCRecovery"}, selectOperations="extend")
        numbers = [one["hostid"] for operation in action["operations"] for one in operation["opcommand_hst"]]
        return sorted(host["host"] for host in api.host.get(hostids=numbers, output=["host"]))

    def make_what_fails(self) -> None:
        """Each value of it is a problem of its own, which wants a recovery."""
        api = self.stack.api()
        (group,) = api.hostgroup.get(filter={"name": "VCRecovery"}, output=["groupid"])
        host = api.host.create(host=HOST, groups=[group])["hostids"][0]
        api.item.create(hostid=host, name=KEY, key_=KEY, type=2, value_type=3)
        made = api.trigger.create(
            description="it fails",
            expression=f"last(/{HOST}/{KEY})>0",
            type=1,
            tags=[{"tag": "vcr", "value": "recover"}],
        )
        self.trigger = made["triggerids"][0]
        # A trigger may be known later than its item.
        wait_for(self._has_failed, "the first problem", PATIENCE, poll=0.5)
        wait_for(lambda: set(self.events()) <= set(self.ran()), "the first recovery", PATIENCE)

    def _has_failed(self) -> bool:
        self.fail()
        return bool(self.events())

    def fail(self, value: int = 1) -> None:
        Sender("127.0.0.1", self.stack.trapper_port).send([ItemValue(HOST, KEY, str(value))])

    def events(self) -> list[str]:
        found = self.stack.api().event.get(objectids=[self.trigger], value=1, output=["eventid"])
        return [event["eventid"] for event in found]

    def ran(self) -> list[str]:
        file = self.spool / "ran"
        return file.read_text().split() if file.exists() else []

    @contextmanager
    def failing(self) -> Iterator[None]:
        """New failures all along; the agent takes each one's first command, before Zabbix repeats it."""
        before = set(self.events())
        with all_along(self.fail, 0.5):
            yield
        self.fail()
        events = set(self.events()) - before
        wait_for(lambda: events <= set(self.first_commands(events)), "each failure's first command", PATIENCE)
        commands = self.first_commands(events)
        lost = {event: said for event, said in commands.items() if TAKEN not in [state for state, _ in said]}
        missed = [said for said in commands.values() if len(said) > 1 and [state for state, _ in said] != [TAKEN] * 2]
        log.info("%d failures, %d of them started by one of two agents alone", len(events), len(missed))
        assert lost == {}
        assert len(events) > 10
        wait_for(lambda: events <= set(self.ran()), "each recovery", PATIENCE)
        # That they are over ends Zabbix's further commands.
        self.fail(0)

    def first_commands(self, events: set[str]) -> dict[str, list[tuple[str, str]]]:
        """What became of each of Zabbix's commands at once, by event."""
        found: dict[str, list[tuple[str, str]]] = {}
        for one in self.stack.api().alert.get(eventids=list(events), output=["eventid", "esc_step", "status", "error"]):
            if one["esc_step"] == "1":
                found.setdefault(one["eventid"], []).append((one["status"], one["error"]))
        return found


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    with throwaway_zabbix(request.param) as stack:
        folder = stack.folder / "m"
        folder.mkdir()
        folder.chmod(0o755)
        made = Site(stack, folder)
        try:
            made.play()
            made.make_what_fails()
            yield made
        finally:
            made.stop("zabbix-agent")
            made.stop("vcrecovery-agent-next")


@pytest.mark.parametrize("site", ["7.0"], indirect=True)
def test_a_key_is_replaced_and_each_recovery_is_started(site: Site) -> None:
    before = site.key()
    assert site.rotate(*YOUNG) == 0
    assert site.rotate("--check") == 1
    assert site.key() == before
    with site.failing():
        assert site.rotate() == CHANGES
    site.assert_rotated(before)
    assert site.rotate(*YOUNG) == 0
    # The role takes it for its own.
    assert re.findall(r"changed=(\d+)", site.play()) == ["0", "0"]


@pytest.mark.at_length
# 7: Zabbix has the next key, and its agent not yet.
@pytest.mark.parametrize("changes", [7])
@pytest.mark.parametrize("site", ["6.0"], indirect=True)
def test_wherever_it_is_cut_off_the_next_run_finishes_it(site: Site, changes: int) -> None:
    before = site.key()
    with site.failing():
        assert site.rotated(**cut_off_after(changes)).returncode == -signal.SIGKILL
        site.rotate(*YOUNG)
    site.assert_rotated(before)
