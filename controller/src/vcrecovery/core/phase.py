"""How far a failover is, and what may follow: the table that the journal holds every controller to. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from vcrecovery.core.episode import Episode, Outcome, Step


class Phase(StrEnum):
    """How far an episode is: derived from its steps and nowhere stored.

    Those that end in -ing have begun and not ended well yet, or not for good.
    """

    OPENED = "opened"
    CONFIRMING = "confirming"
    CONFIRMED = "confirmed"
    SHUTTING_DOWN = "shutting down"
    SHUT_DOWN = "shut down"
    COMPLETING = "completing"
    COMPLETE = "complete"
    TAKING_BACK = "taking back"
    TAKEN_BACK = "taken back"
    FENCING = "fencing"
    #: It was proved off before, and may be back.
    FENCING_AGAIN = "fencing again"
    FENCED = "fenced"
    RESTORING = "restoring"
    RESTORED = "restored"
    STARTING = "starting"
    STARTED = "started"
    PROBING = "probing"
    PROBED = "probed"
    SWITCHING = "switching"
    SWITCHED = "switched"
    VERIFYING = "verifying"
    VERIFIED = "verified"
    #: Of a failback.
    BOOTING = "booting"
    UP = "up"
    COPYING = "copying"
    COPIED = "copied"
    STOPPING = "stopping"
    STOPPED = "stopped"
    COPYING_LAST = "copying the last"
    ALL_COPIED = "all copied"
    HANDING_OVER = "handing over"
    HANDED_OVER = "handed over"
    #: Of a move of a standby that waits.
    RECEIVING = "receiving"
    RECEIVES = "receives"
    SYNCING = "syncing"
    IN_SYNC = "in sync"
    SERVING_AGAIN = "serving again"
    SERVES_AGAIN = "serves again"
    KEEPING = "keeping"
    KEPT = "kept"
    CLOSED = "closed"


def phase_of(episode: Episode) -> Phase:
    """What counts is the newest finished try of each step: what failed since is to be done again."""
    if episode.closed_at is not None:
        return Phase.CLOSED
    if episode.request.back:
        return _of_failback(episode)
    if episode.request.moves:
        return _of_move(episode)
    if _is_taken_back(episode):
        return Phase.TAKEN_BACK if episode.done(Step.TAKE_BACK) is not None else Phase.TAKING_BACK
    if not episode.tried(Step.FENCE):
        if episode.tried(Step.LAST_FILES):
            return Phase.COMPLETE if episode.done(Step.LAST_FILES) is not None else Phase.COMPLETING
        if episode.tried(Step.SHUTDOWN):
            return Phase.SHUT_DOWN if episode.done(Step.SHUTDOWN) is not None else Phase.SHUTTING_DOWN
        if episode.done(Step.CONFIRM) is None:
            return Phase.CONFIRMING if episode.tried(Step.CONFIRM) else Phase.OPENED
        return Phase.CONFIRMED
    if episode.fence is None:
        return Phase.FENCING_AGAIN if episode.ever_fenced else Phase.FENCING
    if episode.started is None:
        return _before_the_start(episode)
    return _from_the_ports_on(episode)


def _from_the_ports_on(episode: Episode) -> Phase:
    if episode.done(Step.SWITCH) is not None:
        if episode.done(Step.VERIFY) is not None:
            return Phase.VERIFIED
        return Phase.VERIFYING if episode.tried(Step.VERIFY) else Phase.SWITCHED
    if episode.done(Step.PROBE) is not None:
        return Phase.SWITCHING if episode.tried(Step.SWITCH) else Phase.PROBED
    return Phase.PROBING if episode.tried(Step.PROBE) else Phase.STARTED


def _of_failback(episode: Episode) -> Phase:
    if episode.done(Step.HAND_OVER) is not None:
        if episode.tried(Step.KEEP):
            if episode.done(Step.KEEP) is None:
                return Phase.KEEPING
            waits = episode.tried(Step.VERIFY) and episode.done(Step.VERIFY) is None
            return Phase.VERIFYING if waits else Phase.KEPT
        return _from_the_ports_on(episode) if episode.tried(Step.PROBE) else Phase.HANDED_OVER
    if episode.tried(Step.START):
        return Phase.SERVES_AGAIN if episode.done(Step.START) is not None else Phase.SERVING_AGAIN
    if (stopped := _furthest(episode, Step.HAND_OVER, Step.LAST_COPY, Step.STOP)) is not None:
        return stopped
    newest = next((r for r in reversed(episode.steps) if r.step in (Step.BOOT, Step.COPY)), None)
    if newest is not None and newest.step is Step.COPY:
        return Phase.COPIED if newest.was_done else Phase.COPYING
    if newest is not None:
        return Phase.UP if newest.was_done else Phase.BOOTING
    if episode.done(Step.CONFIRM) is not None:
        return Phase.CONFIRMED
    return Phase.CONFIRMING if episode.tried(Step.CONFIRM) else Phase.OPENED


def _of_move(episode: Episode) -> Phase:
    if episode.tried(Step.TAKE_BACK):
        return Phase.TAKEN_BACK if episode.done(Step.TAKE_BACK) is not None else Phase.TAKING_BACK
    if episode.done(Step.START) is not None and episode.request.leaves is None:
        return _from_the_ports_on(episode)
    own = (Step.START,) if episode.request.leaves is None else (Step.SYNC, Step.RECEIVE)
    return _furthest(episode, *own, Step.LAST_COPY, Step.STOP, Step.COPY, Step.CONFIRM) or Phase.OPENED


#: While a step is done, and once it was.
_AROUND = {
    Step.CONFIRM: (Phase.CONFIRMING, Phase.CONFIRMED),
    Step.COPY: (Phase.COPYING, Phase.COPIED),
    Step.STOP: (Phase.STOPPING, Phase.STOPPED),
    Step.LAST_COPY: (Phase.COPYING_LAST, Phase.ALL_COPIED),
    Step.HAND_OVER: (Phase.HANDING_OVER, Phase.HANDED_OVER),
    Step.RECEIVE: (Phase.RECEIVING, Phase.RECEIVES),
    Step.SYNC: (Phase.SYNCING, Phase.IN_SYNC),
    Step.START: (Phase.STARTING, Phase.STARTED),
}


def _furthest(episode: Episode, *steps: Step) -> Phase | None:
    """Of the first of `steps` that was begun; None while none was."""
    for step in steps:
        if episode.tried(step):
            doing, done = _AROUND[step]
            return done if episode.done(step) is not None else doing
    return None


def _is_taken_back(episode: Episode) -> bool:
    """Whether that was begun, and no failover has been made of it since."""
    acts = [record.step for record in episode.steps if record.step in (Step.TAKE_BACK, Step.FENCE)]
    return bool(acts) and acts[-1] is Step.TAKE_BACK


def _before_the_start(episode: Episode) -> Phase:
    restore = episode.newest(Step.RESTORE)
    if episode.to_restore is not None or (restore is not None and not restore.ok):
        return Phase.RESTORING
    if episode.tried(Step.START):
        return Phase.STARTING
    return Phase.FENCED if restore is None else Phase.RESTORED


_NO = frozenset({Outcome.REFUSED, Outcome.FALSE_ALARM})
_GIVEN_UP = frozenset({Outcome.GIVEN_UP})
#: What an operator's failover makes of a switchover that does not come to its end.
_FAILOVER = frozenset({Step.CONFIRM, Step.FENCE})
#: Of switchovers alone: whoever has failed is not started again.
_PLANNED = frozenset({Step.SHUTDOWN, Step.LAST_FILES, Step.TAKE_BACK, Outcome.TAKEN_BACK})

#: What may begin in each phase, or end the episode in it. The journal writes nothing else: whatever is wrong above it,
#: no standby starts without a fence, or from half of a restore point, and no name moves to ports that nobody asked.
#: Before the fence a failover can be refused, and until it is proved withdrawn; after that, only finished. The operator
#: who brings the primary back gives it up at any time.
ALLOWED: Mapping[Phase, frozenset[Step | Outcome]] = {
    Phase.OPENED: _GIVEN_UP | _NO | {Step.CONFIRM},
    Phase.CONFIRMING: _GIVEN_UP | _NO | {Step.CONFIRM},
    Phase.CONFIRMED: _GIVEN_UP | _NO | {Step.CONFIRM, Step.FENCE, Step.SHUTDOWN},
    Phase.SHUTTING_DOWN: _GIVEN_UP | _FAILOVER | {Step.SHUTDOWN, Step.TAKE_BACK},
    Phase.SHUT_DOWN: _GIVEN_UP | _FAILOVER | {Step.LAST_FILES, Step.TAKE_BACK},
    Phase.COMPLETING: _GIVEN_UP | _FAILOVER | {Step.LAST_FILES, Step.TAKE_BACK},
    Phase.COMPLETE: _GIVEN_UP | _FAILOVER | {Step.TAKE_BACK},
    Phase.TAKING_BACK: _GIVEN_UP | _FAILOVER | {Step.TAKE_BACK, Outcome.WITHDRAWN},
    Phase.TAKEN_BACK: _GIVEN_UP | _FAILOVER | {Outcome.TAKEN_BACK, Outcome.WITHDRAWN},
    # Before each further try somebody looks whether it serves.
    Phase.FENCING: _GIVEN_UP | {Step.CONFIRM, Step.FENCE, Step.TAKE_BACK, Outcome.WITHDRAWN},
    Phase.FENCING_AGAIN: _GIVEN_UP | {Step.FENCE, Step.TAKE_BACK},
    # What was fenced long ago is fenced again.
    Phase.FENCED: _GIVEN_UP | {Step.FENCE, Step.POWER_ON, Step.START, Step.TAKE_BACK},
    Phase.RESTORING: _GIVEN_UP | {Step.FENCE, Step.POWER_ON, Step.RESTORE},
    Phase.RESTORED: _GIVEN_UP | {Step.FENCE, Step.POWER_ON, Step.START},
    Phase.STARTING: _GIVEN_UP | {Step.FENCE, Step.POWER_ON, Step.START, Step.TAKE_BACK},
    Phase.STARTED: _GIVEN_UP | {Step.PROBE},
    Phase.PROBING: _GIVEN_UP | {Step.PROBE},
    # Done without a switch: where no DNS name follows the service.
    Phase.PROBED: _GIVEN_UP | {Step.PROBE, Step.SWITCH, Outcome.DONE},
    Phase.SWITCHING: _GIVEN_UP | {Step.PROBE, Step.SWITCH, Outcome.DONE},
    Phase.SWITCHED: _GIVEN_UP | {Step.VERIFY},
    Phase.VERIFYING: _GIVEN_UP | {Step.PROBE, Step.VERIFY},
    Phase.VERIFIED: _GIVEN_UP | {Outcome.DONE},
    Phase.CLOSED: frozenset(),
}


_NOT_YET: frozenset[Step | Outcome] = _GIVEN_UP | {Outcome.REFUSED, Step.CONFIRM}
#: The same of a failback. The standby stops only when little is left to fetch, the VM serves only when nothing is, and
#: once it may have served, the standby does not start again. Where its secondary is lost, the operator may give it up.
ALLOWED_IN_A_FAILBACK: Mapping[Phase, frozenset[Step | Outcome]] = {
    Phase.OPENED: _NOT_YET,
    Phase.CONFIRMING: _NOT_YET,
    Phase.CONFIRMED: _NOT_YET | {Step.BOOT},
    Phase.BOOTING: _NOT_YET | {Step.BOOT},
    Phase.UP: _NOT_YET | {Step.BOOT, Step.COPY},
    Phase.COPYING: _NOT_YET | {Step.BOOT},
    Phase.COPIED: _NOT_YET | {Step.BOOT, Step.STOP},
    Phase.STOPPING: _GIVEN_UP | {Step.STOP, Step.START},
    Phase.STOPPED: _GIVEN_UP | {Step.LAST_COPY, Step.START},
    Phase.COPYING_LAST: _GIVEN_UP | {Step.LAST_COPY, Step.START},
    Phase.ALL_COPIED: _GIVEN_UP | {Step.HAND_OVER, Step.START},
    Phase.HANDING_OVER: _GIVEN_UP | {Step.HAND_OVER, Step.START},
    Phase.SERVING_AGAIN: _GIVEN_UP | {Step.START},
    Phase.SERVES_AGAIN: frozenset({Outcome.TAKEN_BACK}),
    Phase.HANDED_OVER: _GIVEN_UP | {Step.PROBE},
    Phase.PROBING: _GIVEN_UP | {Step.PROBE},
    # Without a switch where no DNS name follows the service.
    Phase.PROBED: _GIVEN_UP | {Step.PROBE, Step.SWITCH, Step.KEEP},
    Phase.SWITCHING: _GIVEN_UP | {Step.PROBE, Step.SWITCH},
    Phase.SWITCHED: _GIVEN_UP | {Step.VERIFY},
    # It does not wait for a name server that is away.
    Phase.VERIFYING: _GIVEN_UP | {Step.PROBE, Step.VERIFY, Step.KEEP},
    Phase.VERIFIED: _GIVEN_UP | {Step.KEEP},
    Phase.KEEPING: _GIVEN_UP | {Step.KEEP},
    Phase.KEPT: _GIVEN_UP | {Outcome.DONE},
    Phase.CLOSED: frozenset(),
}


_UNDONE: frozenset[Step | Outcome] = _GIVEN_UP | {Step.TAKE_BACK}
#: The same of a move. It stops only when little is left to copy, starts only where everything is, and what has served
#: on the other side by its names is not taken back.
ALLOWED_IN_A_MOVE: Mapping[Phase, frozenset[Step | Outcome]] = {
    Phase.OPENED: _NOT_YET,
    Phase.CONFIRMING: _NOT_YET,
    Phase.CONFIRMED: _NOT_YET | {Step.COPY},
    Phase.COPYING: _NOT_YET | {Step.COPY},
    Phase.COPIED: _NOT_YET | {Step.COPY, Step.STOP},
    Phase.STOPPING: _UNDONE | {Step.STOP},
    Phase.STOPPED: _UNDONE | {Step.LAST_COPY},
    Phase.COPYING_LAST: _UNDONE | {Step.LAST_COPY},
    Phase.ALL_COPIED: _UNDONE | {Step.START},
    Phase.STARTING: _UNDONE | {Step.START},
    Phase.STARTED: _UNDONE | {Step.PROBE},
    Phase.PROBING: _UNDONE | {Step.PROBE},
    # Done without a switch: where no DNS name follows the service.
    Phase.PROBED: _UNDONE | {Step.PROBE, Step.SWITCH, Outcome.DONE},
    Phase.SWITCHING: _GIVEN_UP | {Step.PROBE, Step.SWITCH},
    Phase.SWITCHED: _GIVEN_UP | {Step.VERIFY},
    Phase.VERIFYING: _GIVEN_UP | {Step.PROBE, Step.VERIFY},
    Phase.VERIFIED: _GIVEN_UP | {Outcome.DONE},
    Phase.TAKING_BACK: _GIVEN_UP | {Step.TAKE_BACK},
    Phase.TAKEN_BACK: _GIVEN_UP | {Outcome.TAKEN_BACK},
    Phase.CLOSED: frozenset(),
}


#: The same of a standby that waits. Another one takes the files only once it has all that were sent, and where nobody
#: vouches for it then, it is taken back.
ALLOWED_IN_A_WAITING_MOVE: Mapping[Phase, frozenset[Step | Outcome]] = {
    **{
        phase: ALLOWED_IN_A_MOVE[phase] | _GIVEN_UP
        for phase in (Phase.OPENED, Phase.CONFIRMING, Phase.CONFIRMED, Phase.COPYING, Phase.COPIED)
    },
    Phase.STOPPING: _UNDONE | {Step.STOP},
    Phase.STOPPED: _UNDONE | {Step.LAST_COPY},
    Phase.COPYING_LAST: _UNDONE | {Step.LAST_COPY},
    Phase.ALL_COPIED: _UNDONE | {Step.RECEIVE},
    Phase.RECEIVING: _UNDONE | {Step.RECEIVE},
    Phase.RECEIVES: _UNDONE | {Step.SYNC, Outcome.DONE},
    Phase.SYNCING: _UNDONE | {Step.SYNC, Outcome.DONE},
    Phase.IN_SYNC: _GIVEN_UP | {Outcome.DONE},
    Phase.TAKING_BACK: _GIVEN_UP | {Step.TAKE_BACK},
    Phase.TAKEN_BACK: _GIVEN_UP | {Outcome.TAKEN_BACK},
    Phase.CLOSED: frozenset(),
}


def allowed(episode: Episode) -> frozenset[Step | Outcome]:
    """What may begin now in `episode`, or end it."""
    if episode.request.back:
        return ALLOWED_IN_A_FAILBACK[phase_of(episode)]
    if episode.request.leaves is not None:
        return ALLOWED_IN_A_WAITING_MOVE[phase_of(episode)]
    if episode.request.moves:
        return ALLOWED_IN_A_MOVE[phase_of(episode)]
    found = ALLOWED[phase_of(episode)]
    if episode.request.planned:
        return found - {Outcome.WITHDRAWN}
    # The primary of a failover has failed: nobody shuts it down, or starts it again.
    return found - _PLANNED
