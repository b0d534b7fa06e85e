"""Keeps standbys that serve serving: a container that has ended without anybody's wish is started again.

LXD tells when one ends, and who asked for that. What it tells while nobody listens is lost, so a service that does not
answer makes us look too. Nothing else is asked: as long as all is well, this costs nothing. How a container is brought
up is an episode of its own, with all promises of a failover.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from vcrecovery.core.episode import Symptom
from vcrecovery.core.health import Health
from vcrecovery.core.service_state import Serving, Side
from vcrecovery.core.standby_end import GRACE, StandbyEnd, starts_in_a_row, wait_before
from vcrecovery.core.text import plain, span
from vcrecovery.detect.attempts import Attempts
from vcrecovery.detect.health_watch import HealthWatch
from vcrecovery.detect.rounds import Rounds
from vcrecovery.detect.watch import Recover
from vcrecovery.drivers.lxd.instances import FROZEN, STOPPED, Instance
from vcrecovery.drivers.lxd.lifecycle import Happening
from vcrecovery.drivers.runtime import Event, Inbox
from vcrecovery.errors import BusyError, ExternalError
from vcrecovery.keeping import SayOnce, go_on
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.steps.subject import Subject
from vcrecovery.operations.written_off import end_written_off, is_written_off
from vcrecovery.standby.container import epoch_of, has_gone_back
from vcrecovery.standby.copies import is_left_paused, thaw
from vcrecovery.store.lock import one_keeper
from vcrecovery.store.standby_ends import StandbyEnds

log = logging.getLogger("vcrecovery.watch")

TURN = 1.0
#: Seconds until a server that cannot be listened to is tried again.
LISTEN_AGAIN_AFTER = 2.0
#: Seconds that LXD gets to tell who has ended one that does not run: its stop ends a while before its word comes.
TOLD_WITHIN = 10.0
#: Seconds that LXD gets, from when it answers, to start by itself what is to start with its machine.
LXD_STARTS_WITHIN = 30.0
#: Seconds between two looks at a container that runs, and whose service does not answer.
LOOK_EVERY = 5.0
#: So many episodes are read to see how often a container has ended.
_READ = 20
CAUSE = "its standby, which serves, has ended, and nobody asked for that"
WAS_AWAY = "its standby, which serves, has ended with its secondary, which is back"
#: Seconds from when a secondary answers again, in which what does not run there has ended with it.
JUST_BACK = 60.0
#: Seconds without a look, after which a secondary that does not answer has begun not to.
SILENT_AGAIN_AFTER = 30.0
NO_SECONDARY = "the secondary on which its standby serves does not answer, nor does the standby"
TASK = "look at the standbys that serve"
#: Seconds between two looks for a container that is to serve no more. That its secondary is back is heard, and what
#: that starts by itself comes after.
COMES_BACK_EVERY = 30.0
_ANSWERS_WITHIN = 1.0


@dataclass(frozen=True)
class _Heard:
    """Of one secondary; `happening` is None when it begins to tell, or ceases to."""

    secondary: str
    at: float
    happening: Happening | None


@dataclass
class _Seen:
    """What is known of one container that does not run. Steady times; `at` is by the wall clock.

    `at`: when it ended, if it was seen to serve up to then.
    """

    since: float
    at: float | None = None
    asked_by: str = ""
    told: bool = False


class StandbyWatch:
    """All standbys of a plan."""

    def __init__(self, env: Environment, recover: Recover, health: HealthWatch, rounds: Rounds) -> None:
        self._env, self._recover, self._health, self._rounds = env, recover, health, rounds
        self._steady, self._now = env.clock.steady, env.clock.now
        self._inbox: Inbox[_Heard] = env.runtime.inbox()
        self._ends = StandbyEnds(env.journal)
        self._say = SayOnce(log)
        self._attempts = {name: Attempts(name, env.runtime, env.clock.steady) for name in env.plan.services}
        #: When each secondary began to tell, or ceased to, or was seen to answer again.
        self._heard_since: dict[str, float] = {}
        self._seen: dict[str, _Seen] = {}
        #: As which each was seen to answer.
        self._answered: dict[str, Serving] = {}
        #: When those that run are looked at again.
        self._not_before: dict[str, float] = {}
        #: Since when each secondary has not answered, and when it was seen last not to.
        self._silent_since: dict[str, tuple[float, float]] = {}
        #: What the journal has of those that do not run.
        self._written: dict[str, StandbyEnd] = {}
        #: When those that are to serve no more are looked for again; and on a secondary that did not answer, any.
        self._look_back_at: dict[str, float] = {}
        self._ask_back_at: dict[str, float] = {}

    def run(self, stop: Event) -> None:
        """Returns when `stop` is set."""
        self._written = dict(self._ends.all())
        while not stop.is_set():
            self._rounds.begin(TASK)
            with suppress(queue.Empty):
                self._take(self._inbox.get(timeout=self._until_the_next()))
                while True:
                    self._take(self._inbox.get_nowait())
            away: dict[str, ExternalError] = {}
            for name, serving in self._to_serve().items():
                # A server that is away takes its time to be seen to be.
                self._rounds.begin(TASK)
                self._consider(name, serving, away)
            for name in [name for name, serving in self._health.serving.items() if is_written_off(serving)]:
                self._rounds.begin(TASK)
                self._end_if_back(name)

    def _until_the_next(self) -> float:
        """Seconds until somebody is to be looked at."""
        now = self._steady()
        left = [seen.since + GRACE - now for seen in self._seen.values()]
        return min([TURN, *(seconds for seconds in left if seconds > 0)])

    # -- what comes in -----------------------------------------------------------------------------------------

    def listen(self, secondary: str, stop: Event) -> None:
        """To one server, again after each loss, until `stop` is set."""
        server, say, clock = self._env.lxd[secondary], SayOnce(log), self._env.clock

        def turn() -> None:
            with server.lifecycle() as happenings:
                say.well(secondary)
                self._inbox.put(_Heard(secondary, clock.now(), None))
                try:
                    while not stop.is_set():
                        if (happening := happenings.next(TURN)) is not None:
                            self._inbox.put(_Heard(secondary, clock.now(), happening))
                finally:
                    self._inbox.put(_Heard(secondary, clock.now(), None))

        def trouble(error: str) -> str:
            return f"secondary {secondary} does not tell who stops its containers: {error}"

        go_on(turn, stop=stop, say=say, about=secondary, trouble=trouble, again_after=LISTEN_AGAIN_AFTER)

    def _take(self, heard: _Heard) -> None:
        happening = heard.happening
        if happening is None:
            self._heard_since[heard.secondary] = self._steady()
            self._look_back_at.clear()
            self._ask_back_at.pop(heard.secondary, None)
            # With its machine: then it starts them itself.
            for name in [name for name in self._seen if self._secondary_of(name) == heard.secondary]:
                self._seen[name].told = False
            return
        name = happening.instance
        if name not in self._attempts or self._secondary_of(name) != heard.secondary:
            return
        if happening.what == "started":
            self._seen.pop(name, None)
            self._look_back_at.pop(name, None)
        else:
            self._seen[name] = _Seen(self._steady(), heard.at, happening.asked_by, told=True)

    def _secondary_of(self, name: str) -> str:
        return self._env.plan.services[name].standby.secondary

    def _to_serve(self) -> Mapping[str, Serving]:
        """Those whose standby is to serve, and may not."""
        found = {}
        for name, serving in self._health.serving.items():
            if name not in self._attempts or serving.side is not Side.STANDBY or serving.at_work:
                continue
            course = self._health.courses[name]
            health = course.health
            # What a failover of before has left says nothing of now.
            if health in (Health.ANSWERS, Health.SLOW) and course.seconds is not None:
                self._answered[name] = serving
            is_due = self._not_before.get(name, 0.0) <= self._steady()
            if name in self._seen or (is_due and (health is Health.DOWN or name in self._written)):
                found[name] = serving
        return found

    # -- what is done about it ---------------------------------------------------------------------------------

    def _consider(self, name: str, serving: Serving, away: dict[str, ExternalError]) -> None:
        """`away`: the secondaries that do not answer in this turn, and why."""
        attempts, secondary = self._attempts[name], self._secondary_of(name)
        if attempts.busy or self._recover.at_work(name):
            return
        if (known := away.get(secondary)) is not None:
            self._silent(name, secondary, attempts, known)
            return
        try:
            found = self._env.lxd[secondary].get(name)
        except ExternalError as error:
            away[secondary] = error
            self._silent(name, secondary, attempts, error)
            return
        self._answers(secondary)
        try:
            self._look(name, serving, found, attempts)
        except ExternalError as error:
            self._say(name, f"{name}: whether its standby runs is not known: {error}", logging.ERROR, service=name)

    def _answers(self, secondary: str) -> None:
        """Also where it does not tell yet, it has just begun to start what is to start with its machine."""
        _, last = self._silent_since.pop(secondary, (0.0, float("-inf")))
        if self._steady() - last <= SILENT_AGAIN_AFTER:
            self._heard_since[secondary] = self._steady()

    def _silent(self, name: str, secondary: str, attempts: Attempts, error: ExternalError) -> None:
        """The secondary does not answer, nor does the service: after a while its spare takes over, if it has one."""
        now = self._steady()
        since, last = self._silent_since.get(secondary, (now, now))
        if now - last > SILENT_AGAIN_AFTER:
            # Nobody has looked since: that was another time.
            since = now
        self._silent_since[secondary] = (since, now)
        said = f"{name}: whether its standby runs is not known: {error}"
        spare, limit = self._env.plan.services[name].standby.spare, self._env.plan.detection.host_silent_for
        if spare is None:
            self._say(name, said, logging.ERROR, service=name)
            return
        if self._env.plan.secondaries[secondary].fence is None:
            hint = f"once {secondary} is off for certain: `vcrecovery failover {name} --to {spare.secondary} "
            self._say(name, f"{said}; {hint}--secondary-is-down {secondary}`", logging.ERROR, service=name)
            return
        self._say(name, f"{said}; after {span(limit)} it goes on on {spare.secondary}", logging.ERROR, service=name)
        if now < since + limit or self._health.courses[name].health is not Health.DOWN:
            return
        if self._env.journal.state(name).suspension_at(self._now()) is None and attempts.is_due(NO_SECONDARY):
            began_at = self._health.courses[name].since
            start = partial(
                self._recover, name, NO_SECONDARY, self._now(), Symptom.SECONDARY, began_at=began_at, to=spare.secondary
            )
            attempts.begin(NO_SECONDARY, start)

    def _look(self, name: str, serving: Serving, found: Instance | None, attempts: Attempts) -> None:
        if found is not None and is_left_paused(found):
            self._seen.pop(name, None)
            self._thaw(name)
            return
        if found is None or found.running:
            self._seen.pop(name, None)
            self._not_before[name] = self._steady() + LOOK_EVERY
            self._say.well(name)
            attempts.no_cause(healthy=True)
            if self._written.pop(name, None) is not None:
                self._ends.forget(name)
            return
        if has_gone_back(found, serving.epoch):
            self._leave_one_that_stands_by(name, serving)
            return
        of = epoch_of(found)
        if not self._env.journal.may_be_who_serves(name, of, serving.epoch):
            self._leave_one_of_another(name, of)
            return
        seen = self._seen.setdefault(name, self._unheard(name, serving, found))
        if found.status == FROZEN or seen.asked_by:
            what = "frozen" if found.status == FROZEN else "stopped"
            self._leave(name, serving, seen, what, found)
        elif found.status == STOPPED:
            self._bring_up(name, serving, seen, found, attempts)

    def _leave_one_of_another(self, name: str, of: int) -> None:
        """Unless an operation has claimed it since who serves was read."""
        state = self._env.journal.state(name)
        if state.standby_serves and of > state.epoch:
            self._say(
                name,
                f"{name}: the standby is to serve and has ended, and its container is of epoch {of}, not "
                f"{state.epoch}: another controller has failed over since; `vcrecovery failover {name}` "
                "has it serve again",
                logging.ERROR,
                service=name,
            )

    def _leave_one_that_stands_by(self, name: str, serving: Serving) -> None:
        """Unless who serves was another one when that was read."""
        state = self._env.journal.state(name)
        if state.standby_serves and state.epoch == serving.epoch:
            self._say(
                name,
                f"{name}: by the journal the standby serves since epoch {state.epoch}, and its container stands by: "
                "another controller has gone back to its VM, or this journal is an older one; "
                f"`vcrecovery standby reset {name}` has this one know",
                logging.ERROR,
                service=name,
            )

    def _thaw(self, name: str) -> None:
        """Unless the copy goes on that has frozen it."""
        plan, lxd = self._env.plan, self._env.lxd[self._secondary_of(name)]
        with suppress(BusyError), one_keeper(plan.state_dir, name, clock=self._env.clock):
            if thaw(lxd, name, plan.services[name].timeouts.start):
                log.warning("%s: a copy of it was cut off and had left it frozen: thawed", name)

    def _end_if_back(self, name: str) -> None:
        """Its secondary was lost, its VM serves, and the operator has given up what it had."""
        now, about = self._steady(), f"{name} come back"
        if name not in self._attempts or self._look_back_at.get(name, 0.0) > now:
            return
        secondary = self._secondary_of(name)
        if self._ask_back_at.get(secondary, 0.0) > now:
            return
        self._look_back_at[name] = now + LOOK_EVERY
        try:
            ended = end_written_off(self._env, name)
        except BusyError:
            return
        except ExternalError as error:
            self._say(
                about,
                f"{name}: its container on {secondary} has come back beside its VM, which serves, and "
                f"does not end: {error}",
                logging.ERROR,
                service=name,
            )
            return
        self._say.well(about)
        if not ended and self._steady() - now > _ANSWERS_WITHIN:
            # It hangs: it is not waited for once for each of its containers.
            self._ask_back_at[secondary] = self._steady() + COMES_BACK_EVERY
        just_back = self._steady() - self._heard_since.get(secondary, float("-inf")) <= JUST_BACK
        self._look_back_at[name] = self._steady() + (LOOK_EVERY if just_back else COMES_BACK_EVERY)
        if ended:
            log.warning(
                "%s: its container on %s has come back, and its VM serves: stopped, its files are kept until "
                "`vcrecovery standby reset %s` has it stand by again",
                name,
                secondary,
                name,
            )

    def _unheard(self, name: str, serving: Serving, found: Instance) -> _Seen:
        """Of one that ended while nobody listened."""
        written = self._written.get(name)
        if written is not None and written.epoch == serving.epoch and written.is_of(found.started_at):
            return _Seen(self._steady(), None, written.asked_by)
        answered = self._answered.get(name) == serving
        return _Seen(self._steady(), self._health.courses[name].since if answered else None)

    def _leave(self, name: str, serving: Serving, seen: _Seen, what: str, found: Instance) -> None:
        by = plain(seen.asked_by) or "somebody"
        self._say(
            name,
            f"{name}: the standby is to serve, and was {what} by {by}: left alone; `vcrecovery failover {name}` has it "
            "serve again",
            service=name,
        )
        self._write(name, StandbyEnd(serving.epoch, seen.at or self._now(), seen.asked_by, started_at=found.started_at))

    def _bring_up(self, name: str, serving: Serving, seen: _Seen, found: Instance, attempts: Attempts) -> None:
        state = self._env.journal.state(name)
        ended_at = seen.at if seen.at is not None else self._now()
        if state.suspension_at(self._now()) is not None:
            self._say(name, f"{name}: the standby is to serve and has ended; suspended, so left alone", service=name)
            return
        was_away = self._was_away(name, seen)
        starts = 0
        if not was_away:
            starts = starts_in_a_row(self._env.journal.history(name, _READ), ended_at, state.acknowledged_at)
        wait = wait_before(starts)
        if wait is None:
            self._give_up(name, serving, ended_at, starts, found)
            return
        patience = GRACE if seen.told or was_away else TOLD_WITHIN
        if self._steady() < max(seen.since + max(patience, wait), self._lxd_starts_until(name, seen, found)):
            if wait:
                self._say(
                    name,
                    f"{name}: the standby, which serves, has ended again: it is started in {span(wait)}",
                    service=name,
                )
            return
        cause = WAS_AWAY if was_away else CAUSE
        if attempts.is_due(cause):
            self._say(name, f"{name}: {cause}", logging.WARNING, service=name)
            symptom = Symptom.SECONDARY if was_away else Symptom.STANDBY_ENDED
            attempts.begin(cause, partial(self._recover, name, cause, self._now(), symptom, began_at=seen.at))

    def _was_away(self, name: str, seen: _Seen) -> bool:
        """Whether its secondary has just come back, and leaves the start to us: LXD may have one elsewhere serve."""
        since = self._heard_since.get(self._secondary_of(name))
        if seen.told or since is None or self._env.plan.services[name].standby.spare is None:
            return False
        return 0 <= seen.since - since <= JUST_BACK

    def _lxd_starts_until(self, name: str, seen: _Seen, found: Instance) -> float:
        """A machine that boots starts them one after the other. Who was heard to end since is none of those."""
        if seen.told or found.config.get("boot.autostart") != "true":
            return 0.0
        since = self._heard_since.get(self._secondary_of(name))
        return 0.0 if since is None else since + LXD_STARTS_WITHIN

    def _give_up(self, name: str, serving: Serving, ended_at: float, starts: int, found: Instance) -> None:
        written = self._written.get(name)
        if written is not None and written.epoch == serving.epoch and written.given_up:
            return
        why = f"it ended again after each of {starts} starts{Subject(self._env, name).last_words()}"
        self._say(
            name,
            f"{name}: the standby, which serves, is not started again: {why}; find out why, then "
            f"`vcrecovery failover {name}`",
            logging.ERROR,
            service=name,
        )
        self._write(name, StandbyEnd(serving.epoch, ended_at, given_up=why, started_at=found.started_at))

    def _write(self, name: str, end: StandbyEnd) -> None:
        written = self._written.get(name)
        if written is not None and (written.epoch, written.asked_by) == (end.epoch, end.asked_by) and not end.given_up:
            return
        self._ends.write(name, end)
        self._written[name] = end


def keep_serving_standbys(watch: StandbyWatch, env: Environment, stop: Event) -> None:
    """One turn that breaks is followed by the next: a standby that ends would stay down."""
    for secondary in env.plan.secondaries:
        env.runtime.spawn(partial(watch.listen, secondary, stop), f"events of {secondary}")
    go_on(
        lambda: watch.run(stop),
        stop=stop,
        say=SayOnce(log),
        about="standbys that serve",
        trouble=lambda error: f"standbys that serve are not looked at: {error}; going on",
        again_after=TURN,
    )
