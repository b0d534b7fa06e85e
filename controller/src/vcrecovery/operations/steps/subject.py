"""The service that the steps of one failover act for, and what they have just read of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from vcrecovery.core.episode import Episode
from vcrecovery.core.policy import Policy
from vcrecovery.core.power import OFF
from vcrecovery.core.service_state import Side
from vcrecovery.core.sighting import Place
from vcrecovery.core.text import plain
from vcrecovery.drivers.lxd import Instance
from vcrecovery.errors import ExternalError, RefusedError
from vcrecovery.operations import records
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.policy import policy_for
from vcrecovery.standby.container import EPOCH_KEY, READY_KEY, epoch_of

if TYPE_CHECKING:
    from vcrecovery.drivers.libvirt import LibvirtHost
    from vcrecovery.drivers.lxd import LxdServer

#: Seconds for which what was read or seen counts for the next step, so that it is not asked for again.
JUST_NOW = 3.0


def last_words(lxd: LxdServer, container: str) -> str:
    """What a container said before it ended, to be put behind a sentence; empty when that is not known."""
    with suppress(ExternalError):
        if words := lxd.last_words(container):
            return f"; its last words: {plain(words)}"
    return ""


class Subject:
    """Service `name` of the plan: its primary, wherever that is, and its standby."""

    def __init__(self, env: Environment, name: str) -> None:
        self.env = env
        self.name = name
        self.service = env.plan.services[name]
        self.secondary = env.plan.secondaries[self.service.standby.secondary]
        self.lxd = env.lxd[self.service.standby.secondary]
        #: By the steady clock: when its standby was started here.
        self.started_at: float | None = None
        #: Where the primary was found at the newest look.
        self._place: Place | None = None
        #: When the container was read, and as what.
        self._read: tuple[float, Instance | None] | None = None

    @cached_property
    def names(self) -> list[records.Name]:
        return records.names_of(self.env, self.service)

    def names_after(self, episode: Episode) -> list[records.Name]:
        """Each with what points it at the side that serves in the end."""
        if not episode.request.back:
            return self.names
        return records.names_of(self.env, self.service, Side.PRIMARY)

    @cached_property
    def policy(self) -> Policy:
        return policy_for(self.env, self.name)

    # -- the primary -------------------------------------------------------------------------------------------

    @property
    def uuid(self) -> str:
        return str(self.service.primary.uuid)

    @property
    def host(self) -> LibvirtHost:
        """The hypervisor that has the primary, as far as is known."""
        name = self._place.host if self._place is not None else self.env.whereabouts.home(self.name)
        return self.env.hosts[name]

    def find_primary(self) -> Place:
        self._place = self.env.whereabouts.find(self.name)
        return self._place

    def find_one_to_start(self) -> Place:
        """Where it is, for who starts it if it is off. Raises ExternalError where that would make a second one."""
        place = self.find_primary()
        if place.reading.power in OFF and place.reading.reason == "migrated":
            raise ExternalError(
                f"VM {self.uuid} was migrated from {place.host}: it may run elsewhere",
                "add the hypervisor that has it to the plan, then run it again",
            )
        return place

    # -- the standby -------------------------------------------------------------------------------------------

    def read_standby(self) -> Instance | None:
        found = self.lxd.get(self.name)
        self._read = (self.env.clock.steady(), found)
        return found

    def last_words(self) -> str:
        """Of its container."""
        return last_words(self.lxd, self.name)

    def standby_just_read(self) -> Instance | None:
        """The container, if it was read so short a time ago that it need not be read again."""
        if self._read is None or self.env.clock.steady() - self._read[0] > JUST_NOW:
            return None
        return self._read[1]

    def forget_standby(self) -> None:
        """What was read of it came from elsewhere."""
        self._read = None

    def startable(self, episode: Episode, known: Instance | None = None) -> Instance:
        """The standby, if this episode may start it. `known`: as it was read a moment ago."""
        instance = known or self.read_standby()
        if instance is None:
            raise ExternalError(
                f"secondary {self.lxd.name} has no container {self.name}",
                "`vcrecovery standby apply` makes it, but its files must come from a sync",
            )
        if instance.config.get(READY_KEY) != "true":
            raise ExternalError(f"the standby of {self.name} was never made ready", "run the role `secondary`")
        if epoch_of(instance) > episode.epoch:
            raise RefusedError(
                f"container {self.name} belongs to epoch {instance.config[EPOCH_KEY]}; "
                f"this controller is at {episode.epoch}",
                "another controller has failed over since: see its `vcrecovery history`",
            )
        return instance

    def claim(
        self, episode: Episode, keys: Mapping[str, str], check: Callable[[Instance], None] = lambda _found: None
    ) -> Instance:
        """Sets these keys, if this episode may and `check` raises nothing; the container as it was then."""

        def read() -> Instance:
            instance = self.startable(episode)
            check(instance)
            return instance

        def missing(found: Instance) -> Mapping[str, str]:
            return keys if any((found.config.get(key) or "") != value for key, value in keys.items()) else {}

        return self.lxd.reconfigure(read, missing)
