"""Instances: read, create, configure, start, freeze, stop, run a command in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from vcrecovery.drivers.lxd.connection import Connection, InstanceBusyError, NotThereYetError, TryAgainError
from vcrecovery.drivers.lxd.routes import AnswerError
from vcrecovery.errors import ExternalError

STOPPED, RUNNING, FROZEN = "Stopped", "Running", "Frozen"
#: LXD cannot tell: the container's own monitor has not answered it for 5 s. It passes, unless the monitor hangs.
ERROR = "Error"
AT_REST = (STOPPED, RUNNING, FROZEN)
#: Seconds between two looks at a server that is busy with an instance.
_BUSY_DELAY = 0.05
#: Seconds between two tries, and for a network or a pool that was not there when the server started.
_COMES_DELAY, _COMES_WITHIN = 1.0, 70.0
#: Seconds for a change of an instance with which the server is busy.
_FREE_WITHIN = 10.0
#: Seconds from the end of one that is stopped with its memory to LXD's note of that.
_NOTED_WITHIN = 10.0
#: So often an instance is started that ends right after.
_STARTS = 2
#: Bytes that a disk gets beyond its limit when it is full, for what LXD itself writes there.
_FOR_NOTES = 16 << 20
#: So often a write begins anew when the instance was changed by somebody else.
_TRIES = 5


class EndsAtOnceError(ExternalError):
    """The server has started an instance, and that has ended: what it said last may tell why."""


@dataclass(frozen=True)
class Instance:
    """A container as the server describes it. `etag` guards the next write.

    `running`: its processes run, so not while it is frozen. `started_at`: its last start, seconds since the epoch by
    the server's clock; 0 when it was never started. `stateful`: it was stopped with its memory, or can be
    started from that of another one.
    """

    name: str
    running: bool
    status: str
    config: Mapping[str, str]
    devices: Mapping[str, Mapping[str, str]]
    etag: str = field(default="", compare=False)
    started_at: float = 0.0
    stateful: bool = False


class Instances(Connection):
    """The instances of one server."""

    def get(self, instance: str) -> Instance | None:
        """None when there is no such instance. Raises ExternalError when the server does not answer."""
        response = self._found(lambda api: api.instances[instance].get())
        if response is None:
            return None
        return _instance(instance, response.json()["metadata"], response.headers.get("ETag", ""))

    def must_get(self, instance: str) -> Instance:
        """Raises ExternalError also where there is none."""
        found = self.get(instance)
        if found is None:
            raise ExternalError(f"secondary {self.name} has no container {instance}", "run it again")
        return found

    def at_rest(self, known: Instance, timeout: float) -> Instance | None:
        """As it is once the server can tell, and it is not changing; `known` is what was read of it a moment ago.

        Raises TryAgainError where that takes more than `timeout` seconds.
        """
        deadline, found = self._clock.steady() + timeout, self.get(known.name) if known.status not in AT_REST else known
        while found is not None and found.status not in AT_REST:
            if self._clock.steady() >= deadline:
                raise TryAgainError(
                    f"{self.called}: container {found.name} has status {found.status} for over {timeout:.0f} s",
                    f"wait until `{self.client} info {found.name}` shows another one, then run it again",
                )
            self._clock.sleep(_BUSY_DELAY)
            found = self.get(found.name)
        return found

    def all_with(self, key: str, value: str) -> list[Instance]:
        """Those whose configuration has this value of the key; not to be written by, since they have no ETag."""
        return [found for found in self.all() if found.config.get(key) == value]

    def all(self) -> list[Instance]:
        """All of them, as those."""
        found = self._guard(lambda api: api.instances.get(params={"recursion": "1"})).json()["metadata"]
        return [_instance(data["name"], data, "") for data in found]

    def create_empty(self, instance: str, config: Mapping[str, str], devices: Mapping[str, Mapping[str, str]]) -> None:
        """A container without an image; its files come from elsewhere."""
        body = {
            "name": instance,
            "type": "container",
            "source": {"type": "none"},
            "profiles": [],
            "config": {key: value for key, value in config.items() if value},
            "devices": {name: dict(device) for name, device in devices.items()},
        }
        self._change(lambda api: api.instances.post(json=body), 60, f"the creation of {instance}")

    def copy(
        self,
        source: str,
        instance: str,
        config: Mapping[str, str],
        devices: Mapping[str, Mapping[str, str]],
        timeout: float,
    ) -> None:
        """A copy of `source`, whatever that does, with this configuration and these devices over what it has.

        The source goes on, also where its pool copies file by file: so each file is as it was when its turn came. The
        server finishes a copy also when nobody waits for it any more.
        """
        body = {
            "name": instance,
            "type": "container",
            "source": {"type": "copy", "source": source, "instance_only": True, "allow_inconsistent": True},
            # Not the source's, which may bring devices along.
            "profiles": [],
            "config": dict(config),
            "devices": {name: dict(device) for name, device in devices.items()},
        }
        self._change(lambda api: api.instances.post(json=body), timeout, f"the copy of {source}")

    def configure(
        self,
        instance: Instance,
        config: Mapping[str, str],
        devices: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """Sets these keys and devices, if nobody has changed the instance since it was read.

        Raises TryAgainError when somebody has.
        """
        body: dict[str, Any] = {"config": dict(config)}
        if devices:
            body["devices"] = {name: dict(device) for name, device in devices.items()}

        def patch(api: Any) -> None:
            try:
                api.instances[instance.name].patch(json=body, headers={"If-Match": instance.etag})
            except AnswerError as error:
                if error.status_code == 412:
                    raise TryAgainError(
                        f"container {instance.name} was just changed by another client", "run it again"
                    ) from error
                raise

        try:
            self._guard(patch)
        except ExternalError as error:
            if (
                isinstance(error, TryAgainError)
                or "quota exceeded" not in error.message.lower()
                or "root" in (devices or {})
            ):
                raise
            self._give_room(instance)
            raise TryAgainError(f"the disk of container {instance.name} is full", "raise its limits.disk") from error

    def _give_room(self, instance: Instance) -> None:
        """LXD keeps its own notes of an instance on that one's disk: one that is full could not even be claimed."""
        root = dict(instance.devices.get("root", {}))
        size = root.get("size", "").removesuffix("B")
        if not size.isdigit():
            return
        root["size"] = f"{int(size) + _FOR_NOTES}B"
        self._guard(lambda api: api.instances[instance.name].patch(json={"devices": {"root": root}}))

    def reconfigure(
        self,
        read: Callable[[], Instance],
        config: Callable[[Instance], Mapping[str, str]],
        devices: Mapping[str, Mapping[str, str]] | None = None,
    ) -> Instance:
        """Sets what `config` says of the instance that `read` gives; the instance as it was then. No keys: no write.

        LXD writes keys of its own at times, as after a stop: then all begins anew, so `read` is the place for checks.
        Raises what these two raise, and ExternalError when it is changed all the time, or the server is busy with it.
        """
        deadline, tries = self._clock.steady() + _FREE_WITHIN, 0
        while tries < _TRIES:
            instance = read()
            wanted = config(instance)
            try:
                if wanted:
                    self.configure(instance, wanted, devices)
                return instance
            except InstanceBusyError:
                if self._clock.steady() >= deadline:
                    raise
                self._clock.sleep(_BUSY_DELAY)
            except TryAgainError:
                tries += 1
        raise ExternalError(f"container {instance.name} keeps being changed by another client", "run it again")

    def set_keys(self, read: Callable[[], Instance], keys: Mapping[str, str]) -> Instance:
        """As `reconfigure`: those of these keys that the instance does not have so."""
        return self.reconfigure(
            read, lambda now: {key: value for key, value in keys.items() if (now.config.get(key) or "") != value}
        )

    def start(self, instance: str, timeout: float, known: Instance | None = None, *, from_memory: bool = False) -> None:
        """Starts or thaws it; nothing happens to one that runs.

        Waits while the server is busy with it, and for a network or a pool that comes after the server's own start.

        `from_memory`: what it was when it was stopped goes on; without, the server forgets that.

        `known` is what was read of it a moment ago; one that is not what it was then is read again.
        Raises ExternalError with the server's reason.
        """
        begun = self._clock.steady()
        deadline = begun + timeout
        found = known or self.get(instance)
        started = 0
        hint = f"see `{self.client} info --show-log {instance}`, then run it again"
        while found is None or not found.running:
            if started >= _STARTS or (started and self._clock.steady() >= deadline):
                raise EndsAtOnceError(f"container {instance} stops right after its start", hint)
            action = "unfreeze" if found is not None and found.status == FROZEN else "start"
            try:
                from_there = from_memory and action == "start"
                self._set_state(instance, action, timeout, f"the start of {instance}", stateful=from_there)
                started += 1
                if action == "unfreeze":
                    # The server's word is enough: what was booted long ago does not end right after.
                    return
            except NotThereYetError as error:
                if self._clock.steady() >= max(deadline, begun + _COMES_WITHIN):
                    raise NotThereYetError(error.message, hint) from error
                self._clock.sleep(_COMES_DELAY)
            except TryAgainError as error:
                if self._clock.steady() >= deadline:
                    raise TryAgainError(error.message, hint) from error
                self._clock.sleep(_BUSY_DELAY)
            except ExternalError as error:
                now = self.get(instance)
                if now is None or found is None or now.status == found.status or self._clock.steady() >= deadline:
                    # Its init could not even be run.
                    kind = EndsAtOnceError if "forkstart" in error.message else ExternalError
                    raise kind(error.message, hint) from error
                found = now
                continue
            found = self.get(instance)

    def freeze(self, instance: str, timeout: float) -> None:
        """Stops the processes of a running instance where they are. Raises ExternalError when it does not run."""
        self._set_state(instance, "freeze", timeout, f"the freezing of {instance}")

    def unfreeze(self, instance: str, timeout: float) -> None:
        """Lets a frozen instance go on. Raises ExternalError when it is not frozen."""
        self._set_state(instance, "unfreeze", timeout, f"the thawing of {instance}")

    def stop(self, instance: str, timeout: float) -> None:
        """Stops it at once. For containers that hold nothing.

        The server may say that it failed, and have stopped it: on a full disk it cannot tidy up.
        """
        try:
            self._set_state(instance, "stop", timeout, f"the stop of {instance}", force=True)
        except ExternalError:
            found = self.get(instance)
            if found is None or found.status != STOPPED:
                raise

    def shut_down(self, instance: str, timeout: float) -> None:
        """Lets it end by itself; one that has not within `timeout` seconds is stopped at once. It may be frozen.

        Where the server could not ask it to, or has restarted meanwhile, it is asked again: it may be one that serves.
        """
        deadline, left = self._clock.steady() + timeout, timeout
        while True:
            found = self.get(instance)
            if found is not None and found.status == FROZEN:
                self.unfreeze(instance, timeout)
            try:
                self._set_state(instance, "stop", left, f"the stop of {instance}", patience=5)
                return
            except ExternalError:
                found = self.get(instance)
                if found is None or found.status == STOPPED:
                    return
            left = deadline - self._clock.steady()
            if left <= 0:
                break
            self._clock.sleep(min(_COMES_DELAY, left))
        self.stop(instance, timeout)

    def stop_with_memory(self, instance: str, timeout: float) -> None:
        """Has CRIU write down what it is, and ends it; nothing happens to one that has ended, with it or without.

        Raises ExternalError when that cannot be done: it goes on then.
        """
        deadline = self._clock.steady() + timeout
        ended_at: float | None = None
        while (found := self.get(instance)) is not None and not (found.status == STOPPED and found.stateful):
            now = self._clock.steady()
            if found.status == STOPPED:
                # LXD notes the memory a moment after the end: one may be under way, for a controller that was killed.
                ended_at = now if ended_at is None else ended_at
                if now - ended_at > _NOTED_WITHIN:
                    return
                self._clock.sleep(_BUSY_DELAY)
                continue
            try:
                self._set_state(instance, "stop", timeout, f"the stop of {instance}", stateful=True)
            except TryAgainError:
                if self._clock.steady() >= deadline:
                    raise
                self._clock.sleep(_BUSY_DELAY)

    def restart(self, instance: str, timeout: float) -> None:
        """Shuts it down and starts it; one that does not shut down within `timeout` seconds is stopped at once."""
        self.shut_down(instance, timeout)
        self.start(instance, timeout)

    def _set_state(
        self,
        instance: str,
        action: str,
        timeout: float,
        doing: str,
        *,
        force: bool = False,
        patience: float = 0,
        stateful: bool = False,
    ) -> None:
        body = {"action": action, "force": force, "timeout": max(1, int(timeout)), "stateful": stateful}
        self._change(lambda api: api.instances[instance].state.put(json=body), timeout + patience, doing)

    def execute(self, instance: str, command: Sequence[str], timeout: float) -> None:
        """Runs a command in a running instance. Raises ExternalError when it fails; its output is LXD's to keep."""
        if status := self.status_of(instance, command, timeout):
            raise ExternalError(
                f"`{' '.join(command)[:80]}` in container {instance} of {self.name}: exit status {status}",
                f"try it by `{self.client} exec {instance}`",
            )

    def status_of(self, instance: str, command: Sequence[str], timeout: float) -> int:
        """Runs a command in a running instance, without its output; its exit status."""
        return self._execute(instance, command, timeout, record=False)[0]

    def ask(self, instance: str, command: Sequence[str], timeout: float, *, errors: bool = False) -> tuple[int, str]:
        """Runs a command in a running instance; its exit status and what it printed, with `errors` behind that."""
        status, logs = self._execute(instance, command, timeout, record=True)
        printed = b""
        for number, address in sorted(logs.items()):
            printed += self._take_log(str(address), keep=number == "1" or errors)
        return status, printed.decode(errors="replace")

    def _take_log(self, address: str, *, keep: bool) -> bytes:
        """What is in one of the server's logs, if `keep`; it is removed there."""

        def take(api: Any) -> bytes:
            for part in address.removeprefix("/1.0/").split("/"):
                api = api[part]
            content = bytes(api.get().content) if keep else b""
            api.delete()
            return content

        return self._guard(take)

    def _execute(
        self, instance: str, command: Sequence[str], timeout: float, *, record: bool
    ) -> tuple[int, Mapping[str, str]]:
        body = {"command": list(command), "wait-for-websocket": False, "interactive": False, "record-output": record}
        left = self._change(
            lambda api: api.instances[instance].exec.post(json=body), timeout, f"`{command[0]}` in {instance}"
        )
        return int(left["return"]), left.get("output") or {}

    def delete(self, instance: str, timeout: float = 60.0) -> None:
        self._change(lambda api: api.instances[instance].delete(), timeout, f"the removal of {instance}")


def _instance(name: str, data: Mapping[str, Any], etag: str) -> Instance:
    return Instance(
        name=name,
        running=data["status"] in (RUNNING, "Ready"),
        status=RUNNING if data["status"] == "Ready" else data["status"],
        config=data["config"],
        devices=data["devices"],
        etag=etag,
        started_at=seconds_of(data.get("last_used_at", "")),
        stateful=bool(data.get("stateful")),
    )


def seconds_of(text: str) -> float:
    """LXD's time, with nine digits after the point or none; 0 for one that it has never set."""
    whole, _, part = text.rstrip("Z").partition(".")
    try:
        at = datetime.fromisoformat(f"{whole}+00:00").timestamp()
    except ValueError:
        return 0.0
    return max(0.0, at) + (float(f"0.{part}") if part.isdigit() and at > 0 else 0.0)
