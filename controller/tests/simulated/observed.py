"""A site whose acts are looked at by somebody who knows the true time, and what the README promises."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

from simulated.scheduler import Process
from simulated.site import Site
from simulated.world import Service
from vcrecovery.core.episode import Episode, Outcome, Step, Symptom
from vcrecovery.core.evidence import Kept
from vcrecovery.core.policy import Policy
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import Side
from vcrecovery.core.standby_end import STEADY, WAITS
from vcrecovery.standby.restore_points import named

#: What the plan of an observed site says; the rest is the plan's default.
POLICY = Policy(max_staleness=60.0, cool_down=600.0)
#: Seconds by which a watcher may notice later than it could.
SLACK = 10.0
#: Seconds from the last look at a hypervisor's ports to the command that powers it off: the look counts for 3 s.
ASKED_BEFORE = 5.0


class Observed(Site):
    """Reports each breach as a violation, at the moment of the act."""

    def __init__(self, folder: Path, services: Mapping[str, Mapping[str, Any]] | None = None, **how: Any) -> None:
        self._looked: dict[int, float] = {}
        self._tried: dict[int, float] = {}
        #: How long the look before the newest one took.
        self._took_before: dict[int, float] = {}
        self._done: dict[str, float] = {}
        self._known: set[int] = set()
        self._seen_done: set[int] = set()
        #: When the clock did.
        self.jumped_at = -math.inf
        self.acknowledged: set[str] = set()
        #: Service -> the process that has it start now.
        #: By whom, and when.
        self._starting: dict[str, tuple[Process, float]] = {}
        super().__init__(folder, services, **how)
        for service in self.world.places:
            service.on_end, service.on_start = self._is_ended, self._starts

    def boundary(self, place: str, episode: Episode | None) -> None:
        if episode is not None:
            self._look(place, episode)
        super().boundary(place, episode)

    def _look(self, place: str, episode: Episode) -> None:
        service, now = self.world.services[episode.service], self.scheduler.time
        match place:
            case "journalled confirm":
                self._opened(episode)
                before = episode.last(Step.CONFIRM)
                if before is not None and before.ended_at is not None:
                    self._took_before[episode.id] = before.ended_at - before.begun_at
                self._looked[episode.id] = now
            case "journalled fence":
                self._opened(episode)
                if not episode.ever_fenced and not episode.request.planned:
                    self._may_fence(episode, now)
                self._tried[episode.id] = now
            case "ended keep":
                # Who goes back has seen the failover.
                self.acknowledged.add(episode.service)
                self._is_kept(service, episode)
            case "ended probe":
                self._starting.pop(episode.service, None)
                there = self._place(episode).answered
                answered = service.vm_answered if episode.request.back else episode.epoch in there
                if not answered:
                    self._violated(f"the ports of {service.name} are said to be open, and were not asked")

    def _is_kept(self, service: Service, episode: Episode) -> None:
        """What is kept for a rollback is in the journal: nothing else would ever remove it."""
        ended = self.journal.episode(episode.id)
        kept, stopped = (ended.done(step) if ended is not None else None for step in (Step.KEEP, Step.STOP))
        assert kept is not None
        assert isinstance(kept.evidence, Kept)
        of_then = named(stopped.ended_at or 0.0 if stopped is not None else 0.0, kept=True).name
        if (of_then in service.restore_points) is not (of_then == kept.evidence.restore_point):
            self._violated(f"what a failback of {service.name} keeps is not what it says")

    def _place(self, episode: Episode) -> Service:
        """Where its container is to serve."""
        service = self.world.services[episode.service]
        on = episode.request.to or self.journal.state(service.name).standby_on
        other = service.other
        return other if other is not None and on == other.secondary else service

    def _opened(self, episode: Episode) -> None:
        """No service is failed over automatically twice within the cool-down; what keeps it up is limited by itself."""
        if episode.id in self._known:
            return
        self._known.add(episode.id)
        if episode.request.keeps_up:
            self._kept_up(episode)
            return
        done = self._done.get(episode.service)
        if done is None or not episode.request.automatic or episode.service in self.acknowledged:
            return
        if self.jumped_at < done and self.scheduler.time - done < POLICY.cool_down - 1:
            self._violated(f"a second failover of {episode.service} by itself")

    def _kept_up(self, episode: Episode) -> None:
        """What ends again and again is not started for ever."""
        history = self.journal.history(episode.service, 50)
        row = list(takewhile(lambda e: e.request.keeps_up, [e for e in history if e.outcome in (None, Outcome.DONE)]))
        # Of a machine that was away, its containers are not to blame.
        row = [e for e in row if e.request.symptom is not Symptom.SECONDARY]
        recent = [e for e in row if episode.opened_at - e.opened_at < STEADY]
        if not self.jumped and episode.service not in self.acknowledged and len(recent) > len(WAITS):
            self._violated(f"the standby of {episode.service} is started again and again")

    @property
    def jumped(self) -> bool:
        return self.jumped_at > -math.inf

    def _may_fence(self, episode: Episode, now: float) -> None:
        looked, tried = self._looked.get(episode.id), self._tried.get(episode.id)
        if looked is None:
            self._violated(f"what nobody has looked at is fenced: {episode.service}")
        elif tried is not None and looked < tried:
            self._violated(f"nobody has looked at {episode.service} again before the next try")
        elif self._took_before.get(episode.id, 0.0) > POLICY.look_takes:
            pass  # answers that are slow each time get no quicker
        elif not self.jumped and now - looked > POLICY.confirmation_valid_for + SLACK:
            self._violated(f"somebody has looked at {episode.service} long ago")
        if tried is None:
            self._is_fresh(episode)

    def _is_fresh(self, episode: Episode) -> None:
        request, service = episode.request, self.world.services[episode.service]
        if request.force or request.restore_point is not None or self.jumped or service.beaten_at is None:
            return
        if service.container.config.get("user.vcrecovery.role") in ("active", "spare"):
            # What it has served since is newer than anything that its primary has.
            return
        # What the failure has cost is counted up to when it began, which is at most this long ago.
        since = POLICY.confirmation_valid_for + SLACK + POLICY.noticed_after(request.symptom)
        began_at = request.began_at if request.began_at is not None else episode.opened_at
        opened = max(0.0, self.scheduler.wall - began_at)
        age = self.scheduler.time - service.beaten_at - service.off_up_to_now
        # By a clock that is ahead, what it has sent is younger than it is.
        if age > POLICY.max_staleness + since + opened + max(0.0, service.beaten_ahead):
            self._violated(f"a standby of {episode.service} of {age:.0f} s takes over")

    def _is_ended(self, service: Service, by: str, begun: float) -> None:
        """By itself it never ends a primary that is seen to serve, nor a hypervisor on which something answers."""
        state = self.journal.state(service.name)
        episode = state.open_episode
        if by == "power-off" and episode is None and state.side is Side.PRIMARY:
            self._is_ended_with_its_host(service, begun)
        if episode is None or episode.request.force or episode.request.primary_is_down or episode.ever_fenced:
            return
        since = service.well_since if by == "destroy" else service.answers_since
        # What comes back during a look may go unnoticed; before a power-off, all ports there are asked once more.
        seen = self._looked.get(episode.id) if by == "destroy" else begun - ASKED_BEFORE
        if seen is not None and since is not None and since < seen:
            self._violated(f"{service.name} was seen to serve, and is ended by {by}")

    def _is_ended_with_its_host(self, service: Service, begun: float) -> None:
        """Nothing has befallen it, and others there are failed over."""
        there = [self.journal.state(other.name).open_episode for other in self.world.on(service.host)]
        if any(e is not None and (e.request.force or e.request.primary_is_down) for e in there):
            # Whoever says that weighs the one against the other.
            return
        since = service.answers_since
        if since is not None and since < begun - ASKED_BEFORE:
            self._violated(f"{service.name} answers, and is ended with its hypervisor")

    def _starts(self, service: Service) -> None:
        if self.scheduler.current is None:
            # LXD has, with its machine.
            return
        episode = self.journal.state(service.name).open_episode
        if episode is not None and episode.request.moves:
            other = service.other
            assert other is not None
            if episode.done(Step.TAKE_BACK) is None and not episode.tried(Step.TAKE_BACK):
                lost = service.written - 1 < other.written
                if lost and episode.done(Step.START) is None:
                    self._violated(f"a move of {service.name} loses what it wrote last")
        elif episode is not None and episode.request.planned:
            complete = service.final and service.told_boot == service.boots_so_far
            # Who starts the VM by hand after its fence answers for what that writes.
            lost = not complete and not service.operators_word
            if lost and episode.done(Step.START) is None:
                self._violated(f"a switchover of {service.name} loses what its VM wrote last")
        task = self.scheduler.current
        assert task is not None
        if task.process.knows_needs:
            for need in self.plan.services[service.name].needs:
                other = self.world.services[need]
                # It is asked before the start, and may end between the two.
                just_now = other.answered_until > self.scheduler.time - ASKED_BEFORE
                if not (other.open_ports or just_now or (other.serves and other.answered)):
                    self._violated(f"{service.name} starts without {need}")
        if service.mode not in ("cold", "warm"):
            return
        self._starting = {
            name: (of, since)
            for name, (of, since) in self._starting.items()
            # That a step has failed may be what could not be written.
            if of.alive and not self._has_failed(name) and self.world.unwritten_at < since
        }
        self._starting[service.name] = task.process, self.scheduler.time
        names = [name for name in self._starting if self.world.services[name].secondary == service.secondary]
        there = [self._starting[name][0] for name in names]
        if there.count(task.process) > self.starts_at_once:
            self._violated("too many start at once")

    def _has_failed(self, name: str) -> bool:
        """Whether a step did since its last start was begun, or it was given up: then its place is another's.

        Whoever looks at its ports again takes no place for that.
        """
        episode = self.journal.state(name).open_episode
        if episode is None:
            return True
        start = episode.newest(Step.START)
        since = episode.steps[episode.steps.index(start) if start is not None else -1 :]
        return any(record.ended_at is not None and not record.ok for record in since)

    def closed(self) -> None:
        """After something was done: what the journal says of failovers that are over."""
        for name in self.world.services:
            newest = self.journal.newest_done(name)
            if newest is None or newest.id in self._seen_done:
                continue
            self._seen_done.add(newest.id)
            if not newest.request.planned:
                # What was planned is no failure. It may have ended a while ago, by a clock that has not jumped since.
                ago = 0.0 if self.jumped else max(0.0, self.scheduler.wall - (newest.closed_at or self.scheduler.wall))
                self._done[name] = self.scheduler.time - ago
                if not self._has_gone_back_since(newest):
                    self.acknowledged.discard(name)
            needed = [Step.CONFIRM, Step.FENCE, Step.START, Step.PROBE, Step.SWITCH, Step.VERIFY]
            assert newest.outcome is Outcome.DONE
            if newest.request.planned:
                needed += [Step.SHUTDOWN, Step.LAST_FILES]
            if not all(newest.done(step) for step in needed):
                self._violated(f"a failover of {name} is done without every step")
            split = self.world.services[name].dns_address == "several places"
            if split and self.journal.state(name).open_episode is None:
                self._violated(f"an operation of {name} is done, and its names lead to different sides")

    def _has_gone_back_since(self, failover: Episode) -> bool:
        """Within the time that is looked at together: who did has seen it."""
        back = self.journal.failbacks(failover.service, 1)
        return bool(back) and back[0].id > failover.id and back[0].done(Step.KEEP) is not None

    def one_live_copy(self) -> None:
        for service in self.world.services.values():
            if service.power is Power.RUNNING:
                service.look_for_two()
