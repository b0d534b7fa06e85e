"""What people are to be told, in the journal: each event once for each way to them, also across restarts.

A way is one URL of one destination, by its number in its file: the URLs are secrets, and never come here. Before a
message is sent its way is claimed, so that of two controllers one sends; one that was killed after it had sent, and
before it wrote that down, sends it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vcrecovery.core.episode import Episode
from vcrecovery.core.notice import Notice, Topic
from vcrecovery.core.trouble import Trouble

if TYPE_CHECKING:
    from vcrecovery.store.journal import Journal

#: Seconds for which what was told is remembered.
KEPT = 30 * 86400.0
#: So many notices wait for one way at most; the oldest are given up for newer ones.
MOST_WAITING = 500
#: Seconds for which a claim holds, when whoever made it is gone.
CLAIM = 60.0
#: No pause between two tries is longer: what seems so was written before the clock was set back.
_LONGEST_PAUSE = 3600.0


@dataclass(frozen=True, order=True)
class Way:
    """One URL: `url` is its number in the file of its destination, from 1."""

    destination: str
    url: int

    def __str__(self) -> str:
        return f"{self.destination} (URL {self.url})"


@dataclass(frozen=True)
class Waiting:
    """One notice that is to be told."""

    id: int
    at: float
    title: str
    body: str


@dataclass(frozen=True)
class Claimed:
    """What is known of a way whose turn is ours. `sent`: when the messages of the last hour were."""

    waiting: tuple[Waiting, ...]
    sent: tuple[float, ...]
    failures: int


@dataclass(frozen=True)
class Unreached:
    """A way that does not work, or did not: `failing_since` is None once it works again."""

    way: Way
    failing_since: float | None
    reason: str
    waiting: int
    given_up: int


class NoticeBook:
    """The journal's part about notices. Its methods raise ExternalError when the journal cannot be used."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    # -- what has happened -------------------------------------------------------------------------------------

    def fingerprint(self) -> tuple[object, ...]:
        """Another one when an operation has begun, gone on or ended."""
        (row,) = self._journal.rows(
            "SELECT (SELECT max(id) FROM episode), (SELECT count(*) FROM episode WHERE closed_at IS NULL), "
            "(SELECT max(id) FROM step), (SELECT count(*) FROM episode WHERE outcome IS NOT NULL)"
        )
        return row

    def operations(self, since: float) -> list[tuple[Episode, Episode | None]]:
        """Those that go on, or ended since then, each with the one before it of the same service; the oldest first."""
        rows = self._journal.rows(
            "SELECT e.id, (SELECT max(b.id) FROM episode AS b WHERE b.service = e.service AND b.id < e.id) "
            "FROM episode AS e WHERE e.closed_at IS NULL OR e.closed_at >= ? ORDER BY e.id",
            since,
        )
        found = []
        for number, before in rows:
            episode = self._journal.episode(number)
            if episode is not None:
                found.append((episode, self._journal.episode(before) if before is not None else None))
        return found

    def seen_alive(self, now: float) -> float | None:
        """Notes that a watcher lives, and says when one was last known to; None where there was none yet."""
        with self._journal.transaction() as db:
            row = db.execute("SELECT at FROM watched WHERE id = 1").fetchone()
            db.execute("INSERT OR REPLACE INTO watched (id, at) VALUES (1, ?)", (now,))
        return None if row is None else float(row[0])

    def troubles(self) -> dict[tuple[str, Topic], Trouble]:
        rows = self._journal.rows("SELECT service, topic, since, urgent, gone_since FROM trouble")
        return {(name, Topic(topic)): Trouble(name, Topic(topic), at, bool(u), g) for name, topic, at, u, g in rows}

    def write_troubles(self, known: Iterable[Trouble], over: Iterable[Trouble]) -> None:
        with self._journal.transaction() as db:
            for one in over:
                db.execute("DELETE FROM trouble WHERE service = ? AND topic = ?", (one.service, one.topic.value))
            for one in known:
                # Of two controllers that see it begin, the first one's word holds: what is told is named after it.
                db.execute(
                    "INSERT INTO trouble (service, topic, since, urgent, gone_since) VALUES (?, ?, ?, ?, ?) "
                    "ON CONFLICT (service, topic) DO UPDATE SET urgent = excluded.urgent, "
                    "gone_since = excluded.gone_since, since = min(since, excluded.since)",
                    (one.service, one.topic.value, one.since, int(one.urgent), one.gone_since),
                )

    # -- what is to be told ------------------------------------------------------------------------------------

    def know(self, ways: Iterable[Way], now: float) -> None:
        """Those that are new are known from now on."""
        known = self.since()
        ways = [way for way in ways if way not in known]
        if not ways:
            return
        with self._journal.transaction() as db:
            for way in ways:
                db.execute(
                    "INSERT OR IGNORE INTO notice_way (destination, url, since) VALUES (?, ?, ?)",
                    (way.destination, way.url, now),
                )

    def since(self) -> dict[Way, float]:
        """Since when each way is known. What was before that is not told there."""
        rows = self._journal.rows("SELECT destination, url, since FROM notice_way")
        return {Way(destination, url): since for destination, url, since in rows}

    def ways(self, destination: str) -> list[Way]:
        rows = self._journal.rows("SELECT url FROM notice_way WHERE destination = ? ORDER BY url", destination)
        return [Way(destination, url) for (url,) in rows]

    def add(self, notices: Iterable[tuple[Way, Notice]]) -> None:
        """Those that are new are told. What waits for too long a queue is given up, the oldest first."""
        with self._journal.transaction() as db:
            ways = set()
            for way, notice in notices:
                ways.add(way)
                db.execute(
                    "INSERT OR IGNORE INTO notice (key, destination, url, topic, service, at, title, body) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        *(notice.key, way.destination, way.url, notice.topic.value, notice.service),
                        *(notice.at, notice.title, notice.body),
                    ),
                )
            for way in ways:
                db.execute(
                    "UPDATE notice SET ended_at = at, outcome = 'given up', reason = 'too many wait' WHERE id IN "
                    "(SELECT id FROM notice WHERE destination = ? AND url = ? AND ended_at IS NULL "
                    "ORDER BY id DESC LIMIT -1 OFFSET ?)",
                    (way.destination, way.url, MOST_WAITING),
                )

    def was_told(self, way: Way, key: str) -> bool:
        """Whether something whose key begins so was told there, or is to be."""
        return bool(
            self._journal.rows(
                "SELECT 1 FROM notice WHERE destination = ? AND url = ? AND substr(key, 1, ?) = ? LIMIT 1",
                way.destination,
                way.url,
                len(key),
                key,
            )
        )

    def to_tell(self) -> list[Way]:
        """The ways for which something waits."""
        rows = self._journal.rows("SELECT DISTINCT destination, url FROM notice WHERE ended_at IS NULL")
        return sorted(Way(destination, url) for destination, url in rows)

    def claim(self, way: Way, who: str, now: float) -> Claimed | None:
        """None while its turn has not come, or is another controller's."""
        with self._journal.transaction() as db:
            claimed = db.execute(
                "UPDATE notice_way SET claimed_by = :who, claimed_until = :until "
                "WHERE destination = :to AND url = :url "
                "AND (claimed_by IS NULL OR claimed_by = :who OR claimed_until < :now OR claimed_until > :until) "
                "AND (not_before <= :now OR not_before > :latest)",
                {
                    "who": who,
                    "until": now + CLAIM,
                    "to": way.destination,
                    "url": way.url,
                    "now": now,
                    "latest": now + _LONGEST_PAUSE,
                },
            ).rowcount
        if not claimed:
            return None
        waiting = self._journal.rows(
            "SELECT id, at, title, body FROM notice WHERE destination = ? AND url = ? AND ended_at IS NULL ORDER BY id",
            way.destination,
            way.url,
        )
        sent = self._journal.rows(
            "SELECT max(ended_at) FROM notice WHERE destination = ? AND url = ? AND outcome = 'told' "
            "AND ended_at > ? GROUP BY message",
            way.destination,
            way.url,
            now - 3600.0,
        )
        ((failures,),) = self._journal.rows(
            "SELECT failures FROM notice_way WHERE destination = ? AND url = ?", way.destination, way.url
        )
        return Claimed(tuple(Waiting(*row) for row in waiting), tuple(at for (at,) in sent), failures)

    def release(self, way: Way, who: str) -> None:
        with self._journal.transaction() as db:
            db.execute(
                "UPDATE notice_way SET claimed_by = NULL WHERE destination = ? AND url = ? AND claimed_by = ?",
                (way.destination, way.url, who),
            )

    def told(self, way: Way, who: str, notices: Sequence[int], at: float) -> None:
        """In one message."""
        with self._journal.transaction() as db:
            for number in notices:
                db.execute(
                    "UPDATE notice SET ended_at = ?, outcome = 'told', message = ? WHERE id = ? AND ended_at IS NULL",
                    (at, notices[0], number),
                )
            db.execute(
                "UPDATE notice_way SET failures = 0, failing_since = NULL, not_before = 0, "
                "claimed_by = CASE WHEN claimed_by IS ? THEN NULL ELSE claimed_by END "
                "WHERE destination = ? AND url = ?",
                (who, way.destination, way.url),
            )
            db.execute("DELETE FROM notice WHERE ended_at < ?", (at - KEPT,))

    def failed(self, way: Way, who: str, reason: str, at: float, not_before: float) -> float:
        """One more try was in vain; since when they are."""
        with self._journal.transaction() as db:
            db.execute(
                "UPDATE notice_way SET failures = failures + 1, failing_since = coalesce(failing_since, ?), "
                "not_before = ?, reason = ?, claimed_by = CASE WHEN claimed_by IS ? THEN NULL ELSE claimed_by END "
                "WHERE destination = ? AND url = ?",
                (at, not_before, reason, who, way.destination, way.url),
            )
            row = db.execute(
                "SELECT failing_since FROM notice_way WHERE destination = ? AND url = ?", (way.destination, way.url)
            ).fetchone()
        return float(row[0])

    def give_up(self, notices: Sequence[int], reason: str, at: float) -> None:
        with self._journal.transaction() as db:
            for number in notices:
                db.execute(
                    "UPDATE notice SET ended_at = ?, outcome = 'given up', reason = ? "
                    "WHERE id = ? AND ended_at IS NULL",
                    (at, reason, number),
                )

    def unreached(self, destinations: Sequence[str], now: float, within: float) -> list[Unreached]:
        """Ways of these that do not work, and those for which something was given up within so many seconds."""
        rows = self._journal.rows(
            "SELECT destination, url, failing_since, reason, "
            "(SELECT count(*) FROM notice AS n WHERE n.destination = w.destination AND n.url = w.url "
            "AND ended_at IS NULL), "
            "(SELECT count(*) FROM notice AS n WHERE n.destination = w.destination AND n.url = w.url "
            "AND outcome = 'given up' AND ended_at > ?) FROM notice_way AS w ORDER BY destination, url",
            now - within,
        )
        found = [Unreached(Way(name, url), *rest) for name, url, *rest in rows if name in destinations]
        return [one for one in found if one.failing_since is not None or one.given_up]
