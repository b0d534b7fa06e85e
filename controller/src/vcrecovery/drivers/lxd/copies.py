"""A container of one server, copied to another one: LXD's own copy and refresh, over HTTPS between the two servers.

What is there already is not sent again, but for pools with driver btrfs, whose streams LXD 5.0 sends whole each time.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from vcrecovery.core.text import span
from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.lxd.connection import OverHttps
from vcrecovery.drivers.lxd.instances import FROZEN, Instance, Instances
from vcrecovery.drivers.lxd.routes import AnswerError
from vcrecovery.errors import ExternalError

#: Set while files arrive: what is there then is a mixture of two states.
INCOMPLETE_KEY = "user.vcrecovery.incomplete"
#: What LXD says, all of it, of an instance that has no volume, or whose volume has no folder.
_HALF_MADE = (("Instance storage pool not found",), ("Failed to write backup file", "no such file or directory"))
#: How LXD tells of rsync's word for files that vanished; and that the source keeps its offer no more, which it does
#: for 10 s: a server that is very busy may need longer to take it up.
_VANISHED, _OFFER_GONE = "[exit status 24]", "bad handshake"
#: Seconds between two looks at a copy that goes on; less of a short one, since nobody serves during the last of a move.
_LOOK_EVERY, _LOOKS_PER_COPY = 0.3, 20
#: What LXD says of how far it is, in powers of 1,000: bytes, and bytes a second.
_RATE = re.compile(r"([0-9.]+)([kMGTPE]?)B \(([0-9.]+)([kMGTPE]?)B/s\)$")
_POWERS = " kMGTPE"
#: Seconds for the source to answer, while the copy gets on or not.
_SOURCE_WITHIN = 20.0
#: Seconds for a copy that is given up to end: LXD waits so long for a source that has gone.
_ENDS_WITHIN = 40.0
#: Seconds in which neither end moves a byte, until the copy is given up. A file of hundreds of gigabytes that is
#: compared with what is there moves none for minutes. The network alone is noticed by LXD: it waits for 30 s.
STILL_FOR = 1800.0
#: The same of an earlier copy, which nobody looks after any more, until whoever calls is told of it.
EARLIER_STILL_FOR = 60.0
#: What LXD says, among much else, where the destination has lost the source.
_LOST = (
    "connection timed out",
    "i/o timeout",
    "no route to host",
    "network is unreachable",
    "connection refused",
    "connection reset by peer",
)


class CopyAgainError(ExternalError):
    """What passes: files of the source went while they were copied, or its offer did. Another try has the rest."""


class Copies(Instances):
    """What one server gets from another one."""

    def pull(
        self,
        source: Copies,
        instance: str,
        config: Mapping[str, str],
        devices: Mapping[str, Mapping[str, str]],
        timeout: float,
        *,
        paused: bool = False,
        takes_memory: bool = False,
        tell: Callable[[str], None] = lambda _text: None,
        look: Callable[[], None] = lambda: None,
        check: Callable[[Instance], Instance] = lambda found: found,
    ) -> None:
        """Makes the stopped instance here what it is on `source`, running or not; it keeps `config` and `devices`.

        `takes_memory`: one that this makes can be started from the memory of its source. LXD asks for that when it
        makes it, and never again. `paused`: the source is frozen for the last moments, so that what arrives is of one
        moment. `tell` gets LXD's words for how far it is, and the time left; `look` is called at each look at the copy,
        and ends it by raising ExternalError. `check` gets the instance here before each change of its keys, and raises
        what keeps it as it is. One that is cut off leaves INCOMPLETE_KEY. Raises ExternalError; the source goes on in
        any case.
        """
        self.refuse_another_kind(source)
        self._let_an_earlier_one_end(instance, timeout, tell, look)
        wanted, size = {**config, INCOMPLETE_KEY: "true"}, cache(partial(source._used, instance))
        was_there = self._make_ready(instance, wanted, devices, check, by_the_copy=takes_memory)
        about = "at most" if was_there else "about"

        def tell_more(said: str) -> None:
            tell(f"{said}{time_left(said, size(), about)}")

        found = source.get(instance)
        if found is None:
            raise ExternalError(f"secondary {source.name} has no container {instance}")
        try:
            self._receive(source, instance, wanted, devices, takes_memory, paused, timeout, tell_more, look)
        finally:
            if found.running:
                with contextlib.suppress(ExternalError):  # what went wrong is told anyway
                    source._thaw(instance)
        # LXD brings some of the source's configuration along.
        done = {**config, INCOMPLETE_KEY: ""}
        self.reconfigure(lambda: check(self.must_get(instance)), lambda _found: done, devices)

    def refuse_another_kind(self, source: Copies) -> None:
        """Raises ExternalError where one of the two is LXD and the other one Incus: their copies were not tried."""
        for server in (source, self):
            server.connect()
        if self.flavour != source.flavour:
            raise ExternalError(
                f"{self.called} takes no copies from {source.called}", "have LXD or Incus on both of these secondaries"
            )

    def _make_ready(
        self,
        instance: str,
        config: Mapping[str, str],
        devices: Mapping[str, Mapping[str, str]],
        check: Callable[[Instance], Instance],
        *,
        by_the_copy: bool,
    ) -> bool:
        """Whether something was there before."""
        if (found := self.get(instance)) is not None:
            try:
                self.reconfigure(lambda: check(self.must_get(instance)), lambda _found: config, devices)
            except ExternalError as error:
                half_made = any(all(word in error.message for word in words) for words in _HALF_MADE)
                if not (half_made and found.config.get(INCOMPLETE_KEY)):
                    # Of one that was whole, its pool may not be mounted just now.
                    raise
                # LXD was itself ended while it created it: there is nothing that could be lost.
                self.delete(instance)
            else:
                return True
        if not by_the_copy:
            self.create_empty(instance, config, devices)
        return False

    def _thaw(self, instance: str) -> None:
        """One that LXD has frozen for the last moments, and was itself ended before it could thaw it."""
        found = self.get(instance)
        if found is not None and found.status == FROZEN:
            self.unfreeze(instance, 30)

    def _used(self, instance: str) -> int:
        """Bytes of its pool; 0 where that keeps no quotas, or it cannot be read."""
        with contextlib.suppress(ExternalError, AttributeError, KeyError, TypeError, ValueError):
            state = self._guard(lambda api: api.instances[instance].state.get()).json()["metadata"]
            return int(state["disk"]["root"]["usage"])
        return 0

    def _let_an_earlier_one_end(
        self, instance: str, timeout: float, tell: Callable[[str], None], look: Callable[[], None]
    ) -> None:
        """LXD goes on with one whose controller was killed, or has given it up, and lets nobody end it.

        It would write into what is started here, and remove what that has written.
        """
        began, said, still = self._clock.steady(), "", _Still(self._clock)
        while (earlier := self.filled_by(instance)) is not None:
            if still.since(_changed_at(earlier)) > EARLIER_STILL_FOR or self._clock.steady() - began > timeout:
                raise ExternalError(
                    f"an earlier copy of {instance} to {self.name} has not ended: {self.flavour.product} there goes on "
                    f"with operation {earlier['id']}",
                    f"wait for it, or restart {self.flavour.product} on {self.name} (containers go on meanwhile); then "
                    "run it again",
                )
            if (now := f"waits for an earlier copy, which goes on: {_progress(earlier)}") != said:
                said = now
                tell(said)
            look()
            self._clock.sleep(_LOOK_EVERY)

    def filled_by(self, instance: str) -> Mapping[str, Any] | None:
        """The operation of the server's own that makes or fills the instance, if one does. Raises ExternalError."""
        found = self._guard(lambda api: api.operations.get(params={"recursion": "1"})).json()["metadata"] or {}
        for operation in (one for several in found.values() for one in several):
            places = (operation.get("resources") or {}).get("instances") or ()
            names = [place.partition("?")[0].rpartition("/")[2] for place in places]
            if operation["class"] == "task" and operation["status_code"] < 200 and instance in names:
                return dict(operation)
        return None

    # -- the two ends ------------------------------------------------------------------------------------------

    def _send(self, instance: str, paused: bool) -> Mapping[str, Any]:
        """Offers the instance; the operation and its secrets."""
        body = {
            "name": instance,
            "migration": True,
            "live": False,
            "instance_only": True,
            "allow_inconsistent": not paused,
        }
        found: Mapping[str, Any] = self._guard(lambda api: api.instances[instance].post(json=body)).json()["metadata"]
        return found

    def _receive(
        self,
        source: Copies,
        instance: str,
        config: Mapping[str, str],
        devices: Mapping[str, Mapping[str, str]],
        takes_memory: bool,
        paused: bool,
        timeout: float,
        tell: Callable[[str], None],
        look: Callable[[], None],
    ) -> None:
        where, certificate = source.on_the_network()
        like = source._guard(lambda api: api.instances[instance].get()).json()["metadata"]
        # Last: LXD takes an offer back after 10 s, which is little for a server that is slow.
        sent = source._send(instance, paused)
        body = {
            "name": instance,
            "type": "container",
            "architecture": like["architecture"],
            "profiles": [],
            "stateful": takes_memory,
            "config": {key: value for key, value in config.items() if value},
            "devices": {name: dict(device) for name, device in devices.items()},
            "source": {
                "type": "migration",
                "mode": "pull",
                "refresh": True,
                "instance_only": True,
                "operation": f"{where}/1.0/operations/{sent['id']}",
                "certificate": certificate,
                "secrets": sent["metadata"],
            },
        }
        begun = self._guard(lambda api: api.instances.post(json=body)).json()["metadata"]["id"]
        try:
            self._until_it_ends(source, str(begun), str(sent["id"]), instance, timeout, tell, look)
        except ExternalError:
            with contextlib.suppress(ExternalError):
                self._end(str(begun))
            raise

    def on_the_network(self) -> tuple[str, str]:
        """Where other servers reach this one, and its certificate. Raises ExternalError when they cannot."""
        found = self._guard(lambda api: api.get()).json()["metadata"]["environment"]
        if isinstance(self._place, OverHttps):
            return self._place.url.rstrip("/"), str(found["certificate"])
        addresses = found.get("addresses") or []
        if not addresses:
            raise ExternalError(
                f"{self.called} does not listen on the network, so that no other one can fetch from it",
                f"`{self.client} config set core.https_address ADDRESS:8443` there, with the address that the "
                "others reach",
            )
        return f"https://{addresses[0]}", str(found["certificate"])

    # -- while it goes on --------------------------------------------------------------------------------------

    def _until_it_ends(
        self,
        source: Copies,
        here: str,
        there: str,
        instance: str,
        timeout: float,
        tell: Callable[[str], None],
        look: Callable[[], None],
    ) -> None:
        began = answered = self._clock.steady()
        deadline, said, still = began + timeout, "", _Still(self._clock)
        while True:
            operation = self._operation(here)
            if operation is None or operation["status_code"] >= 200:
                break
            if (now := _progress(operation)) != said:
                said = now
                tell(said)
            look()
            trouble, of_source = "", None
            try:
                of_source = source._operation(there)
                answered = self._clock.steady()
            except ExternalError as error:
                trouble = error.message
            if trouble and self._clock.steady() - answered > _SOURCE_WITHIN:
                raise ExternalError(f"the copy of {instance} from {source.name} to {self.name} was cut off: {trouble}")
            if still.since(f"{_changed_at(operation)} {_changed_at(of_source)}") > STILL_FOR:
                raise ExternalError(
                    f"the copy of {instance} from {source.name} to {self.name} stands still: no byte has moved for "
                    f"{span(STILL_FOR)}",
                    f"look at the disks of both, and at the network between them; `{self.client} operation list` there "
                    "shows what goes on",
                )
            if self._clock.steady() > deadline:
                raise ExternalError(f"{self.called} did not finish the copy of {instance} within {timeout:.0f} s")
            going_on = self._clock.steady() - began
            self._clock.sleep(min(_LOOK_EVERY, max(_LOOK_EVERY, going_on) / _LOOKS_PER_COPY))
        if operation is None or operation["status_code"] != 200:
            why = "it has forgotten it" if operation is None else " ".join(str(operation["err"]).split())
            if lost := next((word for word in _LOST if word in why), ""):
                raise ExternalError(
                    f"the copy of {instance} from {source.name} to {self.name} was cut off: {self.name} has lost "
                    f"{source.name} ({lost})",
                    "once the network between the two is mended, run it again",
                )
            if _OFFER_GONE in why:
                raise CopyAgainError(
                    f"the copy of {instance} from {source.name} to {self.name} did not begin: {self.name} took longer "
                    f"than the 10 s for which {source.flavour.product} keeps it ready ({why})",
                    f"run it again once {self.name} is less busy",
                )
            kind = CopyAgainError if _VANISHED in why else ExternalError
            raise kind(f"{self.called}: the copy of {instance} from {source.name}: {why}")

    def _operation(self, number: str) -> Mapping[str, Any] | None:
        """None when the server does not know it: it has ended a while ago, or the server was restarted."""
        found = self._found(lambda api: api.operations[number].get())
        return None if found is None else found.json()["metadata"]

    def _end(self, number: str) -> None:
        """Has an operation end, as far as LXD lets it, and waits: the instance cannot be used before."""
        self._found(lambda api: _delete(api.operations[number]))
        deadline = self._clock.steady() + _ENDS_WITHIN
        while self._clock.steady() < deadline:
            operation = self._operation(number)
            if operation is None or operation["status_code"] >= 200:
                return
            self._clock.sleep(_LOOK_EVERY)


class _Still:
    """For how long nothing has changed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen, self._changed = "", clock.steady()

    def since(self, signs: str) -> float:
        """Seconds since `signs` were others."""
        if signs != self._seen:
            self._seen, self._changed = signs, self._clock.steady()
        return self._clock.steady() - self._changed


def _delete(operation: Any) -> Any:
    try:
        return operation.delete()
    except AnswerError:
        return None  # LXD does not end that kind


def _changed_at(operation: Mapping[str, Any] | None) -> str:
    """Changes at most once a second while bytes move."""
    return str((operation or {}).get("updated_at", ""))


def _progress(operation: Mapping[str, Any]) -> str:
    """LXD's own words, such as `rootfs: 812.44MB (94.12MB/s)`; empty where it says nothing."""
    metadata = operation.get("metadata") or {}
    return next((f"{value}" for key, value in sorted(metadata.items()) if key.endswith("_progress")), "")


def time_left(said: str, size: int, about: str) -> str:
    """`, about 2 min left`, by those words and the size of all that is sent; empty where that cannot be said."""
    found = _RATE.search(said)
    if found is None or not size:
        return ""
    try:
        sent, rate = (float(found[n]) * 1000 ** _POWERS.index(found[n + 1] or " ") for n in (1, 3))
    except ValueError:
        return ""
    return f", {about} {span((size - sent) / rate)} left" if rate and sent < size else ""
