"""Tells people what happens, while the watcher runs: what is to be told comes from the journal and from `status`.

Nothing that fails over waits for it: it has threads and connections of its own, and each URL has a thread for as long
as something is sent to it.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from vcrecovery.core.health import Course
from vcrecovery.core.notice import GIVE_UP_AFTER, Notice, Topic, lines, next_message, of_episode, retry_after
from vcrecovery.core.text import day_and_time, span
from vcrecovery.core.trouble import Found, after_a_look, told, well
from vcrecovery.detect.rounds import Rounds
from vcrecovery.drivers.runtime import Event
from vcrecovery.errors import ExternalError
from vcrecovery.keeping import SayOnce, go_on
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.notify import Destination
from vcrecovery.report.findings import Finding, Level, all_findings
from vcrecovery.report.look import look
from vcrecovery.report.query_pool import QueryPool
from vcrecovery.report.secondaries import of_secondaries
from vcrecovery.store.notices import NoticeBook, Way

log = logging.getLogger("vcrecovery.watch")

#: Seconds between two looks at the journal; what waits is sent as often.
TURN = 1.0
#: Seconds between two looks as `status` does it, and for which it waits for answers.
LOOK_EVERY, LOOK_WITHIN = 60.0, 10.0
#: Seconds without a watcher that are told; a restart takes less.
GAP = 180.0
#: Seconds for which a destination cannot be reached before the others are told.
UNREACHED_FOR = 900.0
#: Seconds back to which the journal is read: what is older was told, or is no news.
_NEWS, _JUST_NOW = 86400.0, 600.0


def by_trouble(found: Iterable[Finding]) -> dict[tuple[str, Topic], Found]:
    """What `status` lists, as far as it is told to people who do not look: the most urgent first, by kind."""
    gathered: dict[tuple[str, Topic], list[Finding]] = {}
    for finding in found:
        if finding.topic is not None:
            gathered.setdefault((finding.service, finding.topic), []).append(finding)
    return {
        key: Found(
            any(finding.level is Level.ATTENTION for finding in some),
            tuple((finding.sentence, finding.hint) for finding in some),
        )
        for key, some in gathered.items()
    }


def concerns(destination: Destination, notice: Notice, services: Iterable[str]) -> bool:
    """Whether it is told there. What is about no service of the plan is told whoever's services it asks for."""
    if notice.topic.value not in destination.about:
        return False
    return not destination.services or notice.service in destination.services or notice.service not in set(services)


class Notifier:
    """Of one watcher. `courses`: whether each service answers, as the watcher knows."""

    def __init__(self, env: Environment, courses: Callable[[], Mapping[str, Course]], rounds: Rounds) -> None:
        self._env, self._courses, self._rounds = env, courses, rounds
        self._book = NoticeBook(env.journal)
        self._now = env.clock.now
        self._asker = QueryPool(runtime=env.runtime, steady=env.clock.steady)
        self._who = uuid.uuid4().hex
        self._say = SayOnce(log)
        self._by_name = {str(destination.url_file): destination for destination in env.plan.notify}
        self._busy: set[Way] = set()
        self._seen: object = None
        self._looked = False
        self._told_hanging: set[str] = set()

    def start(self, stop: Event) -> None:
        """Goes on until `stop` is set."""
        if why := self._env.notifier.missing():
            log.error("notify: %s", why)
        spawn = self._env.runtime.spawn
        spawn(partial(self._keep, self._tell_operations, "notify: operations", TURN, stop), "notices")
        spawn(partial(self._keep, self._tell_troubles, "notify: services", LOOK_EVERY, stop), "notices of troubles")
        spawn(partial(self._keep, self._send, "notify: sending", TURN, stop), "notices to send")

    def _keep(self, turn: Callable[[Event], None], about: str, every: float, stop: Event) -> None:
        def one() -> None:
            turn(stop)
            self._say.well(about)
            stop.wait(every)

        def trouble(error: str) -> str:
            return f"{about}: {error}; going on"

        go_on(one, stop=stop, say=self._say, about=about, trouble=trouble, again_after=every)

    # -- what is to be told ------------------------------------------------------------------------------------

    def _tell_operations(self, _stop: Event) -> None:
        now = self._now()
        if self._seen is None:
            self._know()
            self._after_a_gap(now)
        self._tell_hanging(now)
        seen = self._book.fingerprint()
        if seen == self._seen and not seen[1]:
            return
        # The first time, also what happened while no watcher ran.
        since = now - (_NEWS if self._seen is None else _JUST_NOW)
        self._tell([n for episode, before in self._book.operations(since) for n in of_episode(episode, before, now)])
        self._seen = seen

    def _after_a_gap(self, now: float) -> None:
        before = self._book.seen_alive(now)
        if before is None or now - before < GAP:
            return
        gap = f"from {day_and_time(before)} to {day_and_time(now)}"
        text = f"No watcher ran {gap}: what failed meanwhile is looked at now."
        hint = "Next: `journalctl -u vcrecovery-watch` says why; `vcrecovery status` lists what needs attention."
        title = f"VCRecovery: nobody watched for {span(now - before)}"
        self._tell([Notice(f"watcher gap {before:.0f}", Topic.WATCHER, "", now, title, lines(text, hint))])

    def _tell_hanging(self, now: float) -> None:
        for task in [task for task in self._rounds.hanging if task not in self._told_hanging]:
            hint = "Next: `journalctl -u vcrecovery-watch`; systemd restarts it if it goes on."
            title = "VCRecovery: the watcher hangs"
            body = lines(f"No progress in: {task}. A failure may go unnoticed.", hint)
            self._tell([Notice(f"watcher hangs {now:.0f} {task}", Topic.WATCHER, "", now, title, body)])
        self._told_hanging = set(self._rounds.hanging)

    def _tell_troubles(self, stop: Event) -> None:
        if not self._looked and stop.wait(LOOK_EVERY / 2):
            return
        # Only now the watcher itself has found out who answers.
        self._looked = True
        views = look(self._env, list(self._env.plan.services), self._asker, LOOK_WITHIN, courses=self._courses())
        now, found, known = (
            self._now(),
            by_trouble(all_findings(views, of_secondaries(self._env))),
            self._book.troubles(),
        )
        self._book.seen_alive(now)
        seen = [after_a_look(known.get(key), *key, found.get(key), now) for key in {**known, **found}]
        over = [trouble for trouble in seen if trouble is not None and trouble.is_over(now)]
        self._book.write_troubles([one for one in seen if one is not None and one not in over], over)
        # As it is written: another controller may have seen it begin.
        known, ways = self._book.troubles(), self._know()
        pairs = [
            (way, notice)
            for key, what in found.items()
            if key in known
            for way in ways
            if (notice := told(known[key], what, self._by_name[way.destination].after, now)) is not None
        ]
        pairs += [(way, well(one, now)) for one in over for way in ways if self._book.was_told(way, one.key)]
        self._add(pairs)

    # -- to whom -----------------------------------------------------------------------------------------------

    def _know(self) -> list[Way]:
        """The ways that there are now."""
        ways: list[Way] = []
        for name, destination in self._by_name.items():
            try:
                ways += [Way(name, number + 1) for number in range(self._env.notifier.count(destination.url_file))]
                self._say.well(name)
            except ExternalError as error:
                self._say(name, f"notify: {error}", logging.ERROR)
                # It may come back.
                ways += self._book.ways(name) or [Way(name, 1)]
        self._book.know(ways, self._now())
        return ways

    def _tell(self, notices: Sequence[Notice], but: Way | None = None) -> None:
        """Everybody, but one way."""
        if notices:
            ways = [way for way in self._book.since() if way.destination in self._by_name and way != but]
            self._add([(way, notice) for way in sorted(ways) for notice in notices])

    def _add(self, pairs: Sequence[tuple[Way, Notice]]) -> None:
        services, since = self._env.plan.services, self._book.since()
        wanted = [
            (way, notice)
            for way, notice in pairs
            if notice.at >= since.get(way, 0.0) and concerns(self._by_name[way.destination], notice, services)
        ]
        if wanted:
            self._book.add(wanted)

    # -- sending -----------------------------------------------------------------------------------------------

    def _send(self, _stop: Event) -> None:
        for way in self._book.to_tell():
            if way in self._busy or way.destination not in self._by_name:
                continue
            self._busy.add(way)
            try:
                self._env.runtime.spawn(partial(self._send_there, way), f"notices to {way}")
            except RuntimeError:
                self._busy.discard(way)
                raise

    def _send_there(self, way: Way) -> None:
        """What waits for one URL, as far as it may be sent now."""
        try:
            while self._send_one(way):
                pass
        except ExternalError as error:
            self._say(f"{way} in the journal", f"notify: {error}", logging.ERROR)
        finally:
            self._busy.discard(way)

    def _send_one(self, way: Way) -> bool:
        """Whether there may be more to send at once."""
        now, book, destination = self._now(), self._book, self._by_name[way.destination]
        claimed = book.claim(way, self._who, now)
        if claimed is None:
            return False
        old = [one for one in claimed.waiting if claimed.failures and now - one.at > GIVE_UP_AFTER]
        waiting = [one for one in claimed.waiting if one not in old]
        if old:
            reason = f"could not be told within {span(GIVE_UP_AFTER)}"
            book.give_up([one.id for one in old], reason, now)
            log.error("notify: %s: %d notice(s) given up, the first: %s", way, len(old), old[0].title)
        message = next_message([(one.title, one.body) for one in waiting], claimed.sent, now, destination.most_per_hour)
        if message is None:
            book.release(way, self._who)
            return False
        try:
            self._env.notifier.send(Path(way.destination), way.url, message.title, message.body)
        except ExternalError as error:
            self._not_sent(way, error, claimed.failures + 1)
            return False
        book.told(way, self._who, [one.id for one in waiting[: message.of]], self._now())
        self._say.well(str(way))
        log.info("notify: %s: told: %s", way, message.title)
        return len(waiting) > message.of

    def _not_sent(self, way: Way, error: ExternalError, failures: int) -> None:
        now = self._now()
        since = self._book.failed(way, self._who, str(error), now, now + retry_after(failures))
        self._say(str(way), f"notify: {way}: {error}; tried again for {span(GIVE_UP_AFTER)}", logging.ERROR)
        if now - since < UNREACHED_FOR:
            return
        title = "VCRecovery: a destination of notices cannot be reached"
        body = lines(f"{way}, since {day_and_time(since)}: {error}.", "Next: fix that, then `vcrecovery notify test`.")
        self._tell([Notice(f"unreached {way} {since:.0f}", Topic.WATCHER, "", now, title, body)], but=way)
