"""What people are told of an operation, in their mail or chat: when, and in which words. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from vcrecovery.core.episode import Episode, Outcome, Step
from vcrecovery.core.evidence import Answered
from vcrecovery.core.failback import kept_until
from vcrecovery.core.text import day_and_time, plain, span, took

#: Seconds after which an operation one of whose steps has failed is told to be stuck; and one that is just not done.
STUCK_AFTER, TAKES_LONG = 30.0, 300.0
#: Seconds within which the same refusal again is the same event: a watcher tries for as long as the failure lasts.
SAME_REFUSAL = 3600.0


class Topic(StrEnum):
    """What a notice is about: what a destination chooses by."""

    FAILOVER = "failover"
    REFUSED = "refused"
    DOWN = "down"
    UNPROTECTED = "unprotected"
    DRILL = "drill"
    POOL = "pool"
    LOAD = "load"
    WATCHER = "watcher"


@dataclass(frozen=True)
class Notice:
    """One event, in words. Of two with the same `key` only one is told. `service` is empty where it is about none."""

    key: str
    topic: Topic
    service: str
    at: float
    title: str
    body: str


def lines(*said: str) -> str:
    """The body of a notice: each a line, whatever is in it."""
    return "\n".join(plain(text) for text in said if text)


_BEGUN = {
    "failover": "failing over",
    "switchover": "switching over to its standby",
    "failback": "going back to its VM",
    "move": "moving to another secondary",
}


def of_episode(episode: Episode, before: Episode | None, now: float) -> list[Notice]:
    """All that is to be told of it up to now. `before`: the one before it, of the same service."""
    if episode.outcome is None:
        return [*_begun(episode), *_stuck(episode, now)]
    return list(_ended(episode, before))


def _notice(episode: Episode, what: str, topic: Topic, at: float, title: str, *said: str) -> Notice:
    title = plain(f"{episode.service}: {title}")
    return Notice(f"episode {episode.id} {what}", topic, episode.service, at, title, lines(*said))


def _begun(episode: Episode) -> Iterator[Notice]:
    """Not before something is done to whoever serves, or is booted: most alarms that are none end before that."""
    if not (episode.has_acted or episode.tried(Step.BOOT)):
        return
    name, verb = episode.service, episode.request.verb
    to = episode.request.to
    again = episode.request.again and to is None
    doing = "bringing its standby up again" if again else f"{_BEGUN[verb]}{f', to {to}' if to else ''}"
    by = "" if episode.request.automatic else f"Asked for by {episode.request.by}."
    yield _notice(
        episode,
        "begun",
        Topic.FAILOVER,
        episode.opened_at,
        doing,
        f"Epoch {episode.epoch}: {episode.cause}.",
        by,
        f"Next: nothing; `vcrecovery explain {name}` shows how far it is.",
    )


def _stuck(episode: Episode, now: float) -> Iterator[Notice]:
    age, name, verb = now - episode.opened_at, episode.service, episode.request.verb
    newest = next((record for record in reversed(episode.steps) if record.ended_at is not None), None)
    failed = newest if newest is not None and not newest.was_done else None
    if episode.request.ends_the_standby and not episode.has_acted and failed is None:
        # To copy may take hours, and the standby serves.
        return
    if age < (STUCK_AFTER if failed is not None else TAKES_LONG):
        return
    where = f" at step {failed.step}" if failed is not None else ""
    yield _notice(
        episode,
        f"stuck{where}",
        Topic.REFUSED,
        now,
        f"{verb} is stuck{where}",
        f"Not done after {span(age)}: {failed.error or 'the step left nothing'}." if failed is not None else "",
        f"Not done after {span(age)}." if failed is None else "",
        "The service may be down." if episode.has_acted else "Nothing was done to whoever serves.",
        f"Next: `vcrecovery explain {name}`, then `vcrecovery {episode.request.typed(name)}` goes on with it.",
    )


def _ended(episode: Episode, before: Episode | None) -> Iterator[Notice]:
    """A false alarm is told by the log alone."""
    at = episode.closed_at if episode.closed_at is not None else episode.opened_at
    name, verb = episode.service, episode.request.verb
    match episode.outcome:
        case Outcome.DONE:
            yield _done(episode, at)
        case Outcome.REFUSED if not same_refusal(episode, before):
            next_step = f"Next: `vcrecovery explain {name}` says what to do."
            what = "its standby is not started again" if episode.request.keeps_up else f"{verb} refused"
            by = "" if episode.request.automatic else f"It was asked for by {episode.request.by}."
            yield _notice(
                episode,
                "refused",
                Topic.REFUSED,
                at,
                what,
                f"{episode.reason}.",
                by,
                f"Nothing was done. {episode.cause}." if episode.request.automatic else "Nothing was done.",
                next_step,
            )
        case Outcome.WITHDRAWN:
            hint = f"Next: see why its fence was not proved: `vcrecovery explain {name}`."
            yield _notice(
                episode, "withdrawn", Topic.REFUSED, at, f"{verb} withdrawn: its VM serves", f"{episode.reason}.", hint
            )
        case Outcome.TAKEN_BACK:
            yield _notice(
                episode,
                "taken back",
                Topic.REFUSED,
                at,
                f"{verb} taken back",
                f"{episode.reason}.",
                "Whoever served before serves again.",
                f"Next: fix that, then `vcrecovery {episode.request.typed(name)}`.",
            )
        case Outcome.GIVEN_UP:
            yield _notice(episode, "given up", Topic.REFUSED, at, f"{verb} given up", f"{episode.reason}.")


def _done(episode: Episode, at: float) -> Notice:
    name, request = episode.service, episode.request
    seconds = took(episode.opened_at, at)
    probe = episode.done(Step.PROBE)
    address = probe.evidence.address if probe is not None and isinstance(probe.evidence, Answered) else ""
    where = f" at {address}" if address else ""
    if request.back:
        until = kept_until(episode)
        undo = "" if until is None else f"`vcrecovery rollback {name}` undoes it until {day_and_time(until)}."
        said = (
            f"Served by its VM{where}; its standby takes the VM's files again.",
            undo,
            f"Next: nothing; `vcrecovery status {name}` says when it is protected.",
        )
        return _notice(episode, "done", Topic.FAILOVER, at, f"failed back in {seconds}", *said)
    if request.leaves is not None:
        return _notice(
            episode,
            "done",
            Topic.FAILOVER,
            at,
            f"its standby was moved to {request.to} in {seconds}",
            f"It waits there for a failure of its VM. {episode.cause}.",
            "Next: nothing.",
        )
    if request.to is not None:
        return _notice(
            episode,
            "done",
            Topic.FAILOVER,
            at,
            f"{'moved' if request.planned else 'failed over'} to {request.to} in {seconds}",
            f"Served by its standby on {request.to}{where}, epoch {episode.epoch}. {episode.cause}.",
            f"Next: `vcrecovery status {name}` says where its copy is, and how old.",
        )
    title = "switched over" if request.planned else "failed over"
    if request.again:
        title = "its standby serves again, after"
    first = "when the work is over" if request.planned else "repair the VM, then"
    said = (
        f"Served by its standby{where}, epoch {episode.epoch}. {episode.cause}.",
        "Unprotected: nothing stands in for the standby.",
        f"Next: {first} `vcrecovery failback {name}`.",
    )
    joint = "" if request.again else " in"
    return _notice(episode, "done", Topic.FAILOVER, at, f"{title}{joint} {seconds}", *said)


def same_refusal(episode: Episode, before: Episode | None) -> bool:
    """Whether it is the one before again, of the same service: no event of its own."""
    if before is None or before.outcome is not episode.outcome or before.closed_at is None:
        return False
    soon = 0 <= episode.opened_at - before.closed_at < SAME_REFUSAL
    return soon and _without_figures(before.reason) == _without_figures(episode.reason)


def _without_figures(reason: str) -> str:
    return re.sub(r"\d+", "#", reason)


# -- several at once -------------------------------------------------------------------------------------------

#: More notices than these that wait at the same time are one message.
SINGLY = 3
#: Titles in one message.
_LISTED = 20


@dataclass(frozen=True)
class Message:
    """What is sent at once; `of`: so many of the notices that wait, the oldest first."""

    title: str
    body: str
    of: int


def next_message(waiting: Sequence[tuple[str, str]], sent: Sequence[float], now: float, most: int) -> Message | None:
    """What to send of these titles and bodies, the oldest first; None while nothing may be sent.

    `sent`: when the messages of the last hour were; `most` of them are sent in an hour, and the rest waits to be one.
    """
    recent = [at for at in sent if 0 <= now - at < 3600.0]
    if not waiting or len(recent) >= most:
        return None
    if len(waiting) <= SINGLY and len(recent) < most - 1:
        title, body = waiting[0]
        return Message(title, body, 1)
    if len(waiting) == 1:
        title, body = waiting[0]
        later = f"More than {most} messages in an hour: further ones are gathered into one."
        return Message(title, f"{body}\n{later}", 1)
    told = [f"- {title}" for title, _ in waiting[:_LISTED]]
    more = len(waiting) - len(told)
    told += [f"- and {more} more"] if more else []
    body = "\n".join([*told, "Next: `vcrecovery status` lists what needs attention."])
    return Message(f"VCRecovery: {len(waiting)} events, the first: {waiting[0][0]}", body, len(waiting))


#: Seconds for which a notice is tried. Who reads it after that has learned of it otherwise.
GIVE_UP_AFTER = 4 * 3600.0


def retry_after(failures: int) -> float:
    """Seconds until a destination that was not reached so often is tried again: 5, 15, 45, ... 900."""
    return float(min(900.0, 5.0 * 3.0 ** max(0, min(failures, 10) - 1)))
