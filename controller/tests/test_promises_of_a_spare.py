"""The promises where a standby that serves has a spare: copies, moves and failovers, between secondaries that fail.

As in `test_promises`, whose walks these are. Beside what is promised there: no two standbys serve, but for a word of an
operator that was wrong; a move loses nothing that was written.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import seed
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from conftest import NEW_SEED
from simulated.balance import begin_balance_move
from simulated.replanned import swap_places
from simulated.world import Service
from test_promises import CLOCKS_AHEAD, NEVER, PLACES, REFUSES, SEEDS, STEPS, Walk, for_long, walk_for_long, walks
from vcrecovery.core.power import OFF, Power
from vcrecovery.core.service_state import Side
from vcrecovery.drivers.lxd.instances import STOPPED

SECONDARIES = ["sec1", "sec2"]
#: Where a kill leaves something half done.
KILLED_AT = [*PLACES, "in the middle of copy", "in the middle of copy"]


#: What its standby uses and others do is too much for either; what it uses alone is not.
BALANCE = {"do": "move", "cpu_high": 50, "target": 45, "high_for": "20s", "again_after": "30s"}
USES, OTHERS = 0.5, 0.7


class PromisesOfASpare(Walk):
    """One service, two secondaries, their controllers and operators."""

    @property
    def web(self) -> Service:
        return self.site.world.services["web"]

    @property
    def spare(self) -> Service:
        other = self.web.other
        assert other is not None
        return other

    def place(self, secondary: str) -> Service:
        return self.web if secondary == "sec1" else self.spare

    @initialize(
        seed=SEEDS,
        fence_command=st.booleans(),
        secondary_fence=st.booleans(),
        ns2=st.sampled_from([None, ""]),
        two_names=st.booleans(),
        every=st.sampled_from(["5s", "60s"]),
    )
    def begin(
        self, seed: int, fence_command: bool, secondary_fence: bool, ns2: str | None, two_names: bool, every: str
    ) -> None:
        #: Whoever brings its VM back then runs the role first, which this world has not.
        self.has_another_home = False
        world = {"fence_command": fence_command, "secondary_fence": secondary_fence, "ns2": ns2, "two_names": two_names}
        self.lay_out(
            seed,
            world={**world, "spare": "sec2", "spare_every": every},
            detection={"host_silent_for": "5s"},
            balance=BALANCE,
        )

    def passes(self, seconds: float) -> None:
        """With looks at what has been done meanwhile."""
        self.watch_until(seconds, lambda: False)

    # -- the two sides -----------------------------------------------------------------------------------------

    @rule()
    def crash(self) -> None:
        self.site.crash("web")
        self.watch(3.0)

    @precondition(lambda self: self.site.journal.state("web").side is Side.STANDBY)
    @rule()
    def the_two_change_places_in_the_plan(self) -> None:
        swap_places(self.site)
        self.has_another_home = True
        self.passes(8.0)

    @rule(seconds=st.sampled_from([3.0, 15.0]))
    def it_is_served_by_its_standby(self, seconds: float) -> None:
        """And copied, if there is time: what walks seldom get to otherwise."""
        if self.web.power not in OFF:
            self.site.crash("web")
        self.passes(seconds)

    @rule()
    def operator_starts_the_primary(self) -> None:
        if self.under_way("web"):
            self.web.is_started_by_hand()
        self.site.start_primary("web")

    @rule(secondary=st.sampled_from(SECONDARIES), seconds=st.sampled_from([0.0, 8.0, 20.0]))
    def a_machine_ends(self, secondary: str, seconds: float) -> None:
        self.site.world.machine_ends(secondary)
        if seconds:
            self.passes(seconds)

    @rule(secondary=st.sampled_from(SECONDARIES))
    def a_machine_is_back(self, secondary: str) -> None:
        if self.place(secondary).machine_is_off:
            self.site.world.machine_is_back(secondary)

    @rule(secondary=st.sampled_from(SECONDARIES), answers=st.booleans(), seconds=st.sampled_from([0.0, 8.0]))
    def lxd(self, secondary: str, answers: bool, seconds: float) -> None:
        """Its containers live on."""
        self.place(secondary).lxd_answers = answers
        if seconds:
            self.passes(seconds)

    @rule(secondary=st.sampled_from([*SECONDARIES, ""]), seconds=st.sampled_from([0.0, 20.0, 70.0]))
    def has_too_much_to_do(self, secondary: str, seconds: float) -> None:
        """So that the watcher moves what serves there, if the other one has not; or neither has any more."""
        for place in (self.web, self.spare):
            place.standby_uses, place.others_use = USES, OTHERS if place is self.place(secondary or "sec1") else 0.0
            if not secondary:
                place.others_use = 0.0
        self.passes(seconds)

    @rule(seconds=st.sampled_from([2.0, 40.0]))
    def a_copy_takes(self, seconds: float) -> None:
        self.site.world.copy_takes = seconds

    @rule(secondary=st.sampled_from(SECONDARIES), ahead=st.sampled_from(CLOCKS_AHEAD))
    def the_clock_of_a_secondary_is_off(self, secondary: str, ahead: float) -> None:
        self.place(secondary).lxd_ahead = ahead

    @rule(works=st.booleans())
    def fence_commands(self, works: bool) -> None:
        for place in (self.web, self.spare):
            place.fence_command_works = works

    @precondition(lambda self: not self.under_way("web"))
    @rule(secondary=st.sampled_from(SECONDARIES))
    def the_container_ends(self, secondary: str) -> None:
        place = self.place(secondary)
        if place.container.status != STOPPED:
            place.container_becomes(STOPPED)

    @rule(after=st.sampled_from([0.0, 1.0, 30.0, NEVER]))
    def ports(self, after: float) -> None:
        self.change(standby_ports_open_after=after)

    @rule(answers=st.booleans(), second=st.sampled_from(["", REFUSES]))
    def dns(self, answers: bool, second: str) -> None:
        self.change(dns_answers=answers)
        if self.web.ns2 is not None:
            self.change(ns2=second)

    # -- operators ---------------------------------------------------------------------------------------------

    @rule(secondary=st.sampled_from(SECONDARIES), wait=st.sampled_from([8.0, 20.0]), back=st.booleans())
    def the_one_that_serves_fails(self, secondary: str, wait: float, back: bool) -> None:
        """Served there and copied; then its machine ends, or nobody reaches its LXD any more."""
        self.everything_is_mended()
        self.it_is_served_by_its_standby(15.0)
        self.let(self.site.begin_failover(verb="move", to=secondary))
        self.passes(15.0)
        self.site.world.machine_ends(secondary)
        self.passes(wait)
        if back:
            self.a_machine_is_back(secondary)
            self.passes(15.0)

    @rule(to=st.sampled_from(SECONDARIES), place=st.sampled_from([None, None, *KILLED_AT]))
    def move(self, to: str, place: str | None) -> None:
        self.site.kill_at = place
        self.let(self.site.begin_failover(verb="move", to=to))

    @precondition(lambda self: self.site.journal.state("web").side is Side.PRIMARY)
    @rule(
        to=st.sampled_from(SECONDARIES),
        place=st.sampled_from([None, *KILLED_AT, "before receive", "after receive", "before sync"]),
        again=st.booleans(),
        reached=st.booleans(),
    )
    def move_one_that_waits(self, to: str, place: str | None, again: bool, reached: bool) -> None:
        """Its primary serves; the sync may not follow."""
        self.place(to).receiver_is_down = not reached
        self.site.kill_at = place
        self.let(self.site.begin_failover(verb="move", to=to))
        if again:
            self.let(self.site.begin_failover(verb="move", to=to))
        self.place(to).receiver_is_down = False

    @rule(to=st.sampled_from(SECONDARIES), place=st.sampled_from([None, *KILLED_AT, "after stop", "before receive"]))
    def the_balance_moves_it(self, to: str, place: str | None) -> None:
        self.site.kill_at = place
        self.let(begin_balance_move(self.site, to))

    @rule(to=st.sampled_from(SECONDARIES), place=st.sampled_from(KILLED_AT))
    def move_in_peace(self, to: str, place: str) -> None:
        """All is well, and the controller is killed."""
        self.everything_is_mended()
        self.it_is_served_by_its_standby(15.0)
        self.site.kill_at = place
        self.let(self.site.begin_failover(verb="move", to=to))
        self.let(self.site.begin_failover(verb="move", to=to))

    @rule(
        to=st.sampled_from(SECONDARIES),
        force=st.booleans(),
        word=st.booleans(),
        place=st.sampled_from([None, None, *KILLED_AT]),
    )
    def failover_to(self, to: str, force: bool, word: bool, place: str | None) -> None:
        said: dict[str, Any] = {"force": True} if force else {}
        if word:
            other = "sec2" if to == "sec1" else "sec1"
            said["secondary_is_down"] = other
            # Who says so of a machine that lives, or may be back before the end, answers for it.
            self.place(other).said_to_be_off = True
        self.site.kill_at = place
        self.let(self.site.begin_failover(to=to, **said))

    @rule(verb=st.sampled_from(["failover", "failback", "switchover"]), place=st.sampled_from([None, *KILLED_AT]))
    def another_verb(self, verb: str, place: str | None) -> None:
        if verb == "failback" and self.has_another_home:
            return
        self.site.kill_at = place
        self.let(self.site.begin_failover(verb=verb))

    @precondition(lambda self: self.site.journal.state("web").side is Side.STANDBY and not self.has_another_home)
    @rule()
    def operator_brings_the_primary_back(self) -> None:
        if self.goes_back("web"):
            return
        self.mend()
        self.site.kill_watcher()
        if self.spare.container.status != STOPPED:
            self.spare.container_becomes(STOPPED, "root over unix")
        self.web.has_everything = True
        self.site.serve_from_primary("web")
        self.web.operators_word = self.web.said_to_be_off = self.spare.said_to_be_off = False
        self.watch(3.0)

    def mend(self) -> None:
        self.all_is_well_again()
        self.site.world.copy_takes = 2.0
        for place in (self.web, self.spare):
            place.lxd_answers, place.fence_command_works, place.lxd_ahead = True, True, 0.0
        for secondary in SECONDARIES:
            self.a_machine_is_back(secondary)
        for process in self.site.operators:
            self.let(process)

    @rule()
    def everything_is_mended(self) -> None:
        """What was begun is brought to its end, and one of them serves, by its names."""
        self.mend()
        self.site.kill_watcher()
        self.watch_until(150.0, lambda: not self.under_way("web"))
        if self.under_way("web") and any("given up" in line for line in self.site.log):
            self.let(self.site.begin_failover())
        if self.under_way("web") and not self.web.operators_word:
            raise AssertionError("\n".join(["nobody brings to its end what was begun", *self.site.log[-80:]]))
        # Whatever was said, both machines are looked at by now.
        self.passes(25.0)
        self.web.said_to_be_off = self.spare.said_to_be_off = False
        self.web.look_for_two()
        self.watch_until(150.0, self.is_right)
        if not self.is_right():
            raise AssertionError("\n".join(["it does not serve by its names", *self.site.log[-80:]]))
        state = self.site.journal.state("web")
        takes = [place.secondary for place in (self.web, self.spare) if place.takes_files]
        if state.side is Side.PRIMARY and state.open_episode is None and not takes:
            raise AssertionError("\n".join(["its standby takes files nowhere", *self.site.log[-80:]]))

    def is_right(self) -> bool:
        """Its standby serves where the journal has it, if it is to, and nobody has wished for something else."""
        state = self.site.journal.state("web")
        if state.side is not Side.STANDBY or state.open_episode is not None or self.web.operators_word:
            return True
        serves = self.spare if state.standby_on == "sec2" else self.web
        if self.web.power is Power.RUNNING or any("left alone" in line or "given up" in line for line in self.site.log):
            return True
        return serves.serves and self.web.dns_address == ("spare" if serves is self.spare else "standby")


@pytest.mark.begins_first
@pytest.mark.timeout(600)
@pytest.mark.parametrize("same", [True, False], ids=["the-same", "new"])
@pytest.mark.skipif(bool(STEPS), reason="long walks were asked for")
def test_the_promises_hold(same: bool) -> None:
    walked: Any = PromisesOfASpare if same else seed(int(NEW_SEED))(PromisesOfASpare)
    run_state_machine_as_test(walked, settings=walks(100 if same else 25, same=same))


@pytest.mark.timeout(0)
@for_long
def test_the_promises_hold_for_long(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    walk_for_long(PromisesOfASpare, capsys, monkeypatch)
