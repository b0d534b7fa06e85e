"""One controller at a time per service. The kernel drops the lock when its holder dies, however it dies."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from vcrecovery.drivers.clock import Clock, SystemClock
from vcrecovery.errors import BusyError, ExternalError, lock_errors

#: The parts of a service that are its standby's container, for one act, and the keeping of it.
_STANDBY, _KEEPING = "standby", "keeping"
#: The whole move of a standby: one that waits lets go of the service while it is copied.
_MOVING = "moving"
#: Seconds for which somebody who holds it only for a moment is waited for.
PATIENCE = 15.0
#: Seconds for which a verb waits for another keeper: longer than the boot of a container's services may take.
KEEPER_PATIENCE = 240.0
#: Seconds for which an operator who gives their word waits for a controller that lacks it: its try ends at the fence.
WORD_PATIENCE = 30.0
#: Seconds for a holder to write who it is.
_NAMES_ITSELF_WITHIN = 0.5
_EVERY = 0.02
#: Bytes of a name at the most.
_NAME_LENGTH = 200
SYSTEM = SystemClock()


@dataclass(frozen=True)
class Holder:
    """Who holds a lock; `brief`: for something that is waited for."""

    process: int
    brief: bool = False

    def __str__(self) -> str:
        return f"process {self.process}"

    def written(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def read(cls, text: bytes) -> Holder | None:
        """None where nobody has written who holds it, or another version has."""
        try:
            found = json.loads(text)
            return cls(int(found["process"]), bool(found["brief"]))
        except (ValueError, TypeError, KeyError):
            return None


def open_lock(path: Path) -> BinaryIO:
    """Its file, which is made where it is not there. Raises ExternalError."""
    with lock_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Without a buffer: what a full disk does not take would be tried once more, and fail, when the file is closed.
        return path.open("ab+", buffering=0)


@contextmanager
def service_lock(
    state_dir: Path,
    service: str,
    *,
    brief: bool = False,
    part: str = "",
    patience: float | None = None,
    at_work: float = 0.0,
    clock: Clock = SYSTEM,
) -> Iterator[None]:
    """Holds the service for this process.

    Who holds it for one `brief` act is waited for by the others, and does not wait itself, if no `patience` is given;
    who is at work on it for longer is waited for only for `at_work` seconds. A `part` of the service has a lock of its
    own. Raises BusyError, which names the holder, when another has it, or still has it after `patience` seconds (else
    PATIENCE).
    """
    path = _path(state_dir, service, part)
    with open_lock(path) as file:
        if patience is None:
            patience = 0.0 if brief else PATIENCE
        _take(file, service, patience, clock, of_acts=part in (_STANDBY, _KEEPING), at_work=at_work)
        # The name is for people; a full disk must not stand in the way of a failover.
        with contextlib.suppress(OSError):
            file.truncate(0)
            file.write(Holder(os.getpid(), brief).written())
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                file.truncate(0)


def is_at_work(state_dir: Path, service: str) -> bool:
    """Whether a controller holds the service at this moment, and not for one brief act."""
    return _is_held(_path(state_dir, service))


def _named_in(file: BinaryIO) -> Holder | None:
    """None also for the name of one that was killed, which stays there until the next one writes its own."""
    holder = Holder.read(os.pread(file.fileno(), _NAME_LENGTH, 0))
    try:
        if holder is not None:
            os.kill(holder.process, 0)
    except (ProcessLookupError, OverflowError):
        return None
    except PermissionError:
        pass  # it lives, as another user
    return holder


def _is_held(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            try:
                # Shared: of two that look, none takes the other for one at work.
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = _named_in(file)
                return holder is None or not holder.brief
    except OSError:
        pass  # nobody has ever held it, or who wants to hold it is told what is wrong
    return False


class HeldService:
    """Holds the service as `service_lock` does, and can let go of it for a while: a failover then comes first."""

    def __init__(self, state_dir: Path, service: str, clock: Clock = SYSTEM, at_work: float = 0.0) -> None:
        self._state_dir, self._service, self._clock, self._at_work = state_dir, service, clock, at_work
        self._held = contextlib.ExitStack()

    def __enter__(self) -> HeldService:
        self._take(self._at_work)
        return self

    def __exit__(self, *_error: object) -> None:
        self._held.close()

    def _take(self, at_work: float = 0.0) -> None:
        self._held.enter_context(service_lock(self._state_dir, self._service, at_work=at_work, clock=self._clock))

    @contextmanager
    def let_go(self) -> Iterator[None]:
        """Within it, others may have it; what is known of the service has to be read anew after it.

        Raises BusyError when another has it then.
        """
        self._held.close()
        try:
            yield
        finally:
            self._take()


def one_mover(state_dir: Path, service: str, clock: Clock = SYSTEM) -> contextlib.AbstractContextManager[None]:
    """Held for as long as a move of the service's standby takes. Raises BusyError when another has it."""
    return service_lock(state_dir, service, part=_MOVING, patience=0.0, clock=clock)


def is_being_moved(state_dir: Path, service: str) -> bool:
    """Whether somebody is at work on a move of its standby at this moment."""
    return _is_held(_path(state_dir, service, _MOVING))


@contextmanager
def one_keeper(state_dir: Path, service: str, patience: float = 0.0, clock: Clock = SYSTEM) -> Iterator[None]:
    """Holds the keeping of the standby: for whoever boots, refreshes, restarts, sets up or copies its container.

    Of two that do so at once, one would freeze, stop or restart what the other is at work in. It is held for as long as
    that work takes, also while services boot. A failover does not take it: see `one_act` for how the two get along.
    What the caller knows of the container has to be read under this lock. Raises BusyError when another still has it
    after `patience` seconds.
    """
    with service_lock(state_dir, service, brief=True, part=_KEEPING, patience=patience, clock=clock):
        yield


@contextmanager
def one_act(state_dir: Path, service: str, clock: Clock = SYSTEM) -> Iterator[None]:
    """Holds the standby's container for one act of whoever keeps it.

    Not the service: a stop or a boot takes seconds, in which a failover confirms and fences. It waits for the end of
    the act where it touches the container itself (see `after_acts`). What the caller knows of the service's state has
    to be read under this lock. Raises BusyError while somebody holds the service, or another the container.
    """
    with service_lock(state_dir, service, brief=True, part=_STANDBY, clock=clock):
        # A failover that begins later finds the container held, and one that has begun is seen here.
        with service_lock(state_dir, service, brief=True, clock=clock):
            pass
        yield


@contextmanager
def after_acts(state_dir: Path, service: str, patience: float, clock: Clock = SYSTEM) -> Iterator[None]:
    """Holds the container for whoever holds the service. Raises ExternalError when an act has not ended by then."""
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(service_lock(state_dir, service, part=_STANDBY, patience=patience, clock=clock))
        except BusyError as error:
            raise ExternalError(error.message, error.hint) from error
        yield


def _path(state_dir: Path, service: str, part: str = "") -> Path:
    return state_dir / "locks" / part / f"{service}.lock"


def _take(
    file: BinaryIO, service: str, patience: float, clock: Clock, *, of_acts: bool = False, at_work: float = 0.0
) -> None:
    begun = clock.steady()
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            holder = _named_in(file)
        # On a full disk a holder has no name; the standby's container is only ever held by those who are waited for.
        nameless = patience if of_acts else min(patience, _NAMES_ITSELF_WITHIN)
        most = nameless if holder is None else patience if holder.brief else at_work
        if clock.steady() - begun >= most:
            name = holder or "another process"
            if holder is not None and holder.brief:
                raise BusyError(f"{name} is still at work on the standby of {service}", "run it again")
            raise BusyError(
                f"{name} is already at work on {service}", f"`vcrecovery status {service}` shows how far it is"
            )
        clock.sleep(_EVERY)


@contextmanager
def drill_lock(state_dir: Path, *, brief: bool = False, clock: Clock = SYSTEM) -> Iterator[None]:
    """One drill at a time; a failover never waits for it. `brief`: for who only looks whether one lives."""
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(service_lock(state_dir, "drill", part="drills", brief=brief, clock=clock))
        except BusyError as error:
            raise BusyError("another drill is at work", "wait for its end, then run it again") from error
        yield
