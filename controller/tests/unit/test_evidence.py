"""What steps leave in the journal: typed values in, the same values out, whichever version wrote them."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from vcrecovery.core.decide import decide
from vcrecovery.core.decisions import Run
from vcrecovery.core.episode import Request, Step, Symptom
from vcrecovery.core.evidence import (
    Answered,
    Booted,
    Complete,
    Confirmation,
    Copied,
    Failed,
    Fenced,
    HandedOver,
    Kept,
    PoweredOn,
    Proof,
    ProvedBy,
    Receives,
    Restored,
    ShutDown,
    Started,
    Stopped,
    Switched,
    Synced,
    TakenBack,
    Unreadable,
    Verified,
)
from vcrecovery.core.phase import Phase, phase_of
from vcrecovery.core.policy import Policy
from vcrecovery.core.power import Power
from vcrecovery.errors import ExternalError
from vcrecovery.store.evidence_json import read, written
from vcrecovery.store.journal import Journal
from vcrecovery.store.lock import Holder

PROOFS: dict[Step, Proof] = {
    Step.CONFIRM: Confirmation(
        Power.UNREACHABLE,
        host="hv1",
        silent=("hv2",),
        neighbours=("shop (10.0.0.2:443)",),
        open_ports=("10.0.0.1:80",),
        cpu=0.5,
        fence_command=True,
        restore_asked="monday",
        restore_age=3600.0,
        summary="hv1: no answer",
    ),
    Step.SHUTDOWN: ShutDown("hv1: shutoff (shutdown)", Power.SHUTOFF, "shutdown", True),
    Step.LAST_FILES: Complete("all has arrived", "5f7b"),
    Step.TAKE_BACK: TakenBack("hv1: VM started again"),
    Step.BOOT: Booted("hv1: VM is up", "5f7b", "debian 12 x86_64"),
    Step.POWER_ON: PoweredOn("secondary sec1: LXD answers after 41.2 s", 41.2),
    Step.COPY: Copied("pass 2", "5f7b", 2.5, 3000, 3),
    Step.STOP: Stopped("container web", 1763724600.123456),
    Step.LAST_COPY: Copied("1 file", "5f7b", 0.5, 10, 1),
    Step.HAND_OVER: HandedOver("container web stands by"),
    Step.RECEIVE: Receives("container web on sec2"),
    Step.SYNC: Synced("its primary has compared everything, and sends to sec2"),
    Step.KEEP: Kept("as vcr-1-before-failback", "vcr-1-before-failback", "no room"),
    Step.FENCE: Fenced("hv1 is off", ProvedBy.FENCE_COMMAND, Power.SHUTOFF),
    Step.RESTORE: Restored("to monday", "monday", "vcr-monday", 3600.0, 1),
    Step.START: Started("container web", True, 2),
    Step.PROBE: Answered("10.20.0.10:80", "10.20.0.10"),
    Step.SWITCH: Switched("www -> 10.20.0.10", {"www.example.test": ("10.10.0.10", "10.10.0.11")}),
    Step.VERIFY: Verified("on ns1"),
}


@pytest.mark.parametrize("step", list(Step))
def test_what_is_written_is_read_back(step: Step) -> None:
    assert read(step, ok=True, text=written(PROOFS[step])) == PROOFS[step]
    assert read(step, ok=False, text=written(Failed("no route"))) == Failed("no route")


def test_what_is_written_has_its_version() -> None:
    assert json.loads(written(Verified("on ns1"))) == {"version": 1, "summary": "on ns1"}


def test_a_try_that_has_not_ended_has_left_nothing() -> None:
    assert read(Step.FENCE, ok=False, text="{}") is None


def test_a_key_of_a_later_writer_is_left_out() -> None:
    assert read(Step.VERIFY, ok=True, text='{"version": 1, "summary": "on ns1", "took": 3}') == Verified("on ns1")


@pytest.mark.parametrize("said", ['{"summary": "shutoff"}', '{"power": "on fire"}', '{"power": "shutoff", "cpu": []}'])
def test_a_confirmation_that_cannot_be_used_proves_nothing(said: str) -> None:
    assert isinstance(read(Step.CONFIRM, ok=True, text=said), Unreadable)


@pytest.mark.parametrize(
    ("alive", "data"),
    [
        (("10.0.0.1:80",), {"open_ports": ["10.0.0.1:80"]}),  # of before it was told apart who is merely reached
        (("10.0.0.1:80 http /",), {"open_ports": [], "reached": ["10.0.0.1:80 http /"]}),
        ((), {"open_ports": []}),
    ],
)
def test_what_accepts_a_connection_is_alive(alive: tuple[str, ...], data: dict[str, list[str]]) -> None:
    found = read(Step.CONFIRM, ok=True, text=json.dumps({"power": "running", **data}))
    assert isinstance(found, Confirmation)
    assert found.alive == alive


#: As the version wrote it that kept evidence as it came, under any keys.
BEFORE = """
INSERT INTO service (name, epoch) VALUES ('web', 0);
INSERT INTO episode (id, service, epoch, cause, request, opened_at) VALUES (1, 'web', 1, 'libvirt: shutoff (crashed)',
    '{"automatic": true, "force": false, "primary_is_down": false, "by": "watch", "restore_point": null,
    "symptom": ""}', 1000.0);
INSERT INTO step (episode, service, epoch, step, begun_at, ended_at, ok, evidence, sentence) VALUES
    (1, 'web', 1, 'confirm', 1000.0, 1000.2, 1, '{"restore_asked": null, "restore_problem": "", "restore_age": null,
     "host": "hv1", "power": "shutoff", "reason": "crashed", "detail": "", "starts_by_itself": "", "also_on": [],
     "silent": [], "vanished": false, "cpu": null, "heard": 3.1, "fence_command": false, "neighbours": [],
     "open_ports": [], "reached": [], "standby_problem": "", "freshness": 8.4, "freshness_detail": "",
     "summary": "hv1: shutoff (crashed); no port of 10.10.0.10 answers"}', 'asking for a second signal'),
    (1, 'web', 1, 'fence', 1000.2, 1000.3, 0, '{"error": "hypervisor hv1 does not answer"}', 'failure confirmed'),
    (1, 'web', 1, 'confirm', 1001.2, 1001.3, 1, '{"power": "shutoff", "reason": "crashed", "open_ports": [],
     "freshness": 8.4, "summary": "hv1: shutoff (crashed)"}', 'looking first'),
    (1, 'web', 1, 'fence', 1001.3, 1001.4, 1,
     '{"summary": "hv1: shutoff (crashed)", "by": "libvirt", "power": "shutoff"}', 'not proved yet');
"""


def test_a_journal_of_the_version_before_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    Journal(path)
    with sqlite3.connect(path) as before:
        before.executescript(BEFORE)
    before.close()
    episode = Journal(path).state("web").open_episode
    assert episode is not None
    assert episode.request.symptom is Symptom.ENDED
    confirm, failed, again, fence = (record.evidence for record in episode.steps)
    assert isinstance(confirm, Confirmation)
    assert (confirm.power, confirm.freshness, confirm.heard) == (Power.SHUTOFF, 8.4, 3.1)
    assert failed == Failed("hypervisor hv1 does not answer")
    assert again == Confirmation(Power.SHUTOFF, reason="crashed", freshness=8.4, summary="hv1: shutoff (crashed)")
    assert fence == Fenced("hv1: shutoff (crashed)", ProvedBy.LIBVIRT, Power.SHUTOFF)
    decision = decide(episode, Policy(), 1002.0)
    assert isinstance(decision, Run)
    assert decision.step is Step.START


def test_nothing_is_fenced_on_a_confirmation_that_cannot_be_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    episode = journal.open("web", "libvirt: shutoff (crashed)", Request(automatic=True), 1.0)
    journal.end(journal.begin(episode, Step.CONFIRM, 1.0), 1.0, ok=True, evidence=Unreadable({"seen": "something"}))
    (found,) = journal.history("web")
    assert phase_of(found) is Phase.CONFIRMING
    decision = decide(found, Policy(), 2.0)
    assert isinstance(decision, Run)
    assert decision.step is Step.CONFIRM


def test_evidence_of_a_later_version_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = Journal(path)
    episode = journal.open("web", "a test", Request(), 1.0)
    journal.end(journal.begin(episode, Step.CONFIRM, 1.0), 1.0, ok=True, evidence=PROOFS[Step.CONFIRM])
    with sqlite3.connect(path) as later:
        later.execute("""UPDATE step SET evidence = '{"version": 2}'""")
    later.close()
    with pytest.raises(ExternalError, match="evidence of version 2; use the vcrecovery that wrote it"):
        Journal(path).state("web")


@pytest.mark.parametrize("holder", [Holder(123), Holder(123, brief=True)])
def test_who_holds_a_lock_is_read_back(holder: Holder) -> None:
    assert Holder.read(holder.written()) == holder


@pytest.mark.parametrize(
    "text", [b"", b"process 123", b"process 123 for a moment", b'{"process": "x"}', b"[]", b"\xff"]
)
def test_a_holder_that_cannot_be_read_is_nobody_known(text: bytes) -> None:
    assert Holder.read(text) is None
