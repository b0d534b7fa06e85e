"""Looking for a primary on several hypervisors, some of which may be down; and ending and holding it where it is."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from vcrecovery.core.domain import Destroyed, DomainReading, DomainUsage
from vcrecovery.core.episode import Episode, Request, Step
from vcrecovery.core.power import Power
from vcrecovery.core.sighting import Sighting
from vcrecovery.drivers.libvirt import Guest
from vcrecovery.errors import ExternalError
from vcrecovery.operations import whereabouts
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.failover_steps import FailoverSteps
from vcrecovery.operations.serve_from_primary import serve_from_primary
from vcrecovery.plan.load import load_plan
from vcrecovery.store.quarantines import QuarantineBook

UUID = "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0001"
PLAN = """\
version: 1
state_dir: {folder}/state
detection: {{embedded: {embedded}}}
hypervisors: {{hv1: {{site: east}}, hv2: {{site: west}}}}
secondaries:
  sec1:
    network: {{bridge: vcr0, address: 10.20.0.1/24}}
    receiver: {{address: 10.10.0.1}}
services:
  web:
    primary: {{hypervisor: hv1, uuid: 6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0001, address: 127.0.0.1}}
    standby: {{secondary: sec1, address: 10.20.0.11}}
    ports: [80]
    timeouts: {{fence: 1s}}
"""
#: libvirt's numbers of states.
STATE = {Power.RUNNING: 1, Power.PAUSED: 3, Power.SHUTOFF: 5}


class FakeHost:
    """A hypervisor that has the VM in this state, or does not know it."""

    def __init__(self, name: str, power: Power = Power.ABSENT, reason: str = "") -> None:
        self.name, self.reading = name, DomainReading(power, reason)
        self.listed = self.destroyed = self.resumed = 0
        self.hangs: threading.Event | None = None

    def _answer(self) -> None:
        if self.reading.power is Power.UNREACHABLE:
            raise ExternalError(f"hypervisor {self.name} does not answer")

    def read(self, _uuid: str) -> DomainReading:
        self._answer()
        return self.reading

    def guests(self) -> list[Guest]:
        self.listed += 1
        if self.hangs is not None:
            self.hangs.wait(30)
        self._answer()
        if self.reading.power is Power.ABSENT:
            return []
        return [Guest(UUID, "web", STATE[self.reading.power], reason=self.reading.reason)]

    def usage(self, _uuids: Sequence[str]) -> dict[str, DomainUsage]:
        self._answer()
        return {UUID: DomainUsage(self.reading)}

    def destroy(self, _uuid: str, _timeout: float | None = None) -> Destroyed:
        self._answer()
        self.destroyed += 1
        if self.reading.power not in (Power.RUNNING, Power.PAUSED):
            return Destroyed()
        self.reading = DomainReading(Power.SHUTOFF, "destroyed")
        return Destroyed(ended=True)

    def resume(self, _uuid: str) -> bool:
        self.resumed += 1
        return True


class Stage:
    def __init__(self, folder: Path, embedded: str = "true") -> None:
        (folder / "plan.yml").write_text(PLAN.format(folder=folder, embedded=embedded))
        self.env = Environment(load_plan(folder / "plan.yml"))
        self.hv1, self.hv2 = FakeHost("hv1", Power.RUNNING), FakeHost("hv2")
        self.env.hosts = {"hv1": self.hv1, "hv2": self.hv2}  # type: ignore[dict-item]

    def seen_on(self, host: str) -> None:
        self.env.journal.saw({"web": (Sighting(Power.RUNNING, "", 1.0, 1.0, host), None)})

    def find(self) -> tuple[str, Power]:
        place = self.env.whereabouts.find("web")
        return place.host, place.reading.power

    def fence(self) -> str:
        episode = Episode(1, "web", 1, "a test", Request(), 0.0)
        return str(FailoverSteps(self.env, "web").carry_out(Step.FENCE, episode).summary)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_its_home_is_where_it_was_seen_last(stage: Stage) -> None:
    places = stage.env.whereabouts
    assert (places.home("web"), places.on({"hv1"}), places.on({"hv2"})) == ("hv1", ["web"], [])
    stage.seen_on("hv2")
    assert (places.home("web"), places.on({"hv1"}), places.on({"hv2"})) == ("hv2", [], ["web"])
    # One that has left the plan since is nowhere to look.
    stage.seen_on("hv9")
    assert places.home("web") == "hv1"


def test_one_that_its_home_has_waits_for_nobody_else(stage: Stage) -> None:
    stage.hv2.hangs = threading.Event()
    try:
        assert stage.find() == ("hv1", Power.RUNNING)
    finally:
        stage.hv2.hangs.set()


@pytest.mark.parametrize(
    ("home", "other", "found"),
    [
        (Power.ABSENT, Power.RUNNING, ("hv2", Power.RUNNING)),
        (Power.SHUTOFF, Power.RUNNING, ("hv2", Power.RUNNING)),
        (Power.UNREACHABLE, Power.RUNNING, ("hv2", Power.RUNNING)),
        (Power.UNREACHABLE, Power.ABSENT, ("hv1", Power.UNREACHABLE)),
        # That it is silent is no sign that it has the VM, and must not have it powered off.
        (Power.ABSENT, Power.UNREACHABLE, ("hv1", Power.ABSENT)),
        (Power.ABSENT, Power.ABSENT, ("hv1", Power.ABSENT)),
        (Power.SHUTOFF, Power.ABSENT, ("hv1", Power.SHUTOFF)),
    ],
)
def test_one_that_its_home_does_not_have_is_looked_for(
    stage: Stage, home: Power, other: Power, found: tuple[str, Power]
) -> None:
    stage.hv1.reading, stage.hv2.reading = DomainReading(home), DomainReading(other)
    assert stage.find() == found


def test_all_who_ask_at_once_share_one_question(stage: Stage) -> None:
    stage.hv1.reading = DomainReading(Power.ABSENT)
    for _ in range(3):
        stage.find()
    assert stage.hv2.listed == 1


def test_whatever_breaks_in_a_question_is_an_answer(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks() -> list[Guest]:
        raise RuntimeError("can't start new thread")

    stage.hv1.reading = DomainReading(Power.ABSENT)
    monkeypatch.setattr(stage.hv2, "guests", breaks)
    assert stage.env.whereabouts.find("web").silent == ("hv2",)


def test_the_fence_ends_it_where_it_is(stage: Stage) -> None:
    stage.seen_on("hv2")
    stage.hv1.reading, stage.hv2.reading = DomainReading(Power.SHUTOFF, "migrated"), DomainReading(Power.RUNNING)
    assert stage.fence() == "hv2: shutoff (destroyed)"
    assert (stage.hv1.destroyed, stage.hv2.destroyed) == (0, 1)


def test_the_fence_ends_every_copy(stage: Stage) -> None:
    stage.hv2.reading = DomainReading(Power.PAUSED)
    assert stage.fence() == "hv1: shutoff (destroyed); hv2: shutoff (destroyed)"


def test_the_fence_believes_nothing_that_was_said_before_it(stage: Stage) -> None:
    """Somebody starts the VM elsewhere between the look and the fence."""
    stage.hv1.reading = DomainReading(Power.SHUTOFF, "crashed")
    assert stage.find() == ("hv1", Power.SHUTOFF)
    stage.hv2.reading = DomainReading(Power.RUNNING)
    assert stage.fence() == "hv1: shutoff (crashed); hv2: shutoff (destroyed)"


def test_the_fence_says_who_was_not_asked(stage: Stage) -> None:
    stage.hv2.reading = DomainReading(Power.UNREACHABLE)
    assert stage.fence() == "hv1: shutoff (destroyed); hv2 not asked: no answer"


def test_nobody_waits_for_one_that_is_known_to_be_silent(stage: Stage) -> None:
    stage.hv1.reading, stage.hv2.hangs = DomainReading(Power.SHUTOFF), threading.Event()
    stage.env.whereabouts.silent = frozenset({"hv2"})
    try:
        begun = time.monotonic()
        assert stage.find() == ("hv1", Power.SHUTOFF)
        assert time.monotonic() - begun < whereabouts.OTHERS_WITHIN
    finally:
        stage.hv2.hangs.set()


def test_one_that_was_started_elsewhere_after_its_crash_is_found_there(stage: Stage) -> None:
    stage.hv1.reading, stage.hv2.reading = DomainReading(Power.SHUTOFF, "crashed"), DomainReading(Power.RUNNING)
    assert stage.find() == ("hv2", Power.RUNNING)


def test_where_only_zabbix_looks_a_vm_that_is_seen_nowhere_else_may_be_there(tmp_path: Path) -> None:
    stage = Stage(tmp_path, embedded="false")
    assert stage.env.whereabouts.may_be_on("hv2") == []
    # It was migrated, and nobody wrote that down.
    stage.hv1.reading = DomainReading(Power.SHUTOFF, "migrated")
    env = stage.env
    fresh = whereabouts.Whereabouts(env.plan, env.clock, env.journal, lambda: env.hosts, env.runtime)
    assert fresh.may_be_on("hv2") == ["web"]


def test_a_copy_that_cannot_be_ended_proves_nothing(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.hv2.reading = DomainReading(Power.PAUSED)
    monkeypatch.setattr(stage.hv2, "destroy", lambda *_words: Destroyed())
    with pytest.raises(ExternalError, match="is still paused on hv2 after its destroy"):
        stage.fence()


def test_one_that_left_between_the_look_and_the_fence_is_not_proved_off(stage: Stage) -> None:
    stage.hv1.reading, stage.hv2.reading = DomainReading(Power.ABSENT), DomainReading(Power.RUNNING)
    stage.hv2.destroy = lambda *_words: Destroyed()  # type: ignore[method-assign]
    with pytest.raises(ExternalError, match=r"(is on hv2 now|is still running on hv2)"):
        stage.fence()


def test_the_one_that_is_held_is_resumed_where_it_is(stage: Stage) -> None:
    book = QuarantineBook(stage.env.journal)
    book.held(book.begin("web", 1, UUID, 2.0, ["hv2"]), 3.0)
    assert serve_from_primary(stage.env, "web")
    assert (stage.hv1.resumed, stage.hv2.resumed) == (0, 1)
    assert book.all_open("web") == []


def test_of_two_that_are_held_the_operator_chooses(stage: Stage) -> None:
    book = QuarantineBook(stage.env.journal)
    for host in ("hv1", "hv2"):
        book.held(book.begin("web", 1, UUID, 2.0, [host]), 3.0)
    with pytest.raises(ExternalError, match=r"quarantined \(paused\) on hv1 and hv2: which of them is to serve"):
        serve_from_primary(stage.env, "web")
    assert (stage.hv1.resumed, stage.hv2.resumed, len(book.all_open("web"))) == (0, 0, 2)
