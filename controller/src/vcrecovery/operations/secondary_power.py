"""Powers a secondary on demand on and off, and hands its disk from one side to the other.

While its VM is off, its hypervisor, which this runs on, has the disk with the standbys mounted, and the receiver there
writes into them. Who hands it over does this, each with a lock that others wait for:

- on: `takes_files` goes, so that no session begins; those that are open end; the disk is unmounted, which is proved by
  its lock (see `drivers.loop_disk`); then the VM starts.
- off: LXD, in which nothing runs any more, is asked for the last time, and that is noted; the VM shuts down; then the
  disk is mounted, the receiver is told where the standbys are, and `takes_files` comes.

Whoever is killed in between has left a state from which the next one goes on: each act looks first. A request to shut
down cannot be taken back, and LXD answers for some seconds after it: it is noted before it is made, and LXD's answer
counts only where no request may still be followed.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vcrecovery.core.episode import Episode, Step
from vcrecovery.core.evidence import PoweredOn
from vcrecovery.core.power import OFF, Power
from vcrecovery.core.secondary_power import PowerAct, SeenSecondary, decide_power, unusable
from vcrecovery.core.service_state import Side
from vcrecovery.drivers.libvirt.by_name import NamedVm
from vcrecovery.errors import BusyError, ExternalError, RefusedError, UsageError
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.standbys_disk import StandbysDisk
from vcrecovery.plan.on_demand import domain_of, is_on_demand
from vcrecovery.store.lock import service_lock
from vcrecovery.store.powered import PoweredBook

log = logging.getLogger("vcrecovery.watch")

#: What the role `secondary_vm` calls the file with that disk, behind the name of its VM.
DISK_ENDS_WITH = "-standbys.img"
#: Seconds for a VM to begin, and for one that holds nothing to shut down.
STARTS_WITHIN = 60.0
SHUTS_DOWN_WITHIN = 180.0
#: Seconds after which one that goes on has overlooked the request to shut down, as a system that has just booted does.
#: It is asked once more then, unless something needs it by now.
ASK_AGAIN_AFTER = 30.0
#: Seconds for which somebody who powers it is waited for, before the next look.
SOON = 1.0
#: Why it was started again: a boot that hangs after that is for a person to look at.
RESET = "its boot before hung"
#: So often one is started that ends during its boot.
STARTS = 3
LOOK_EVERY = 0.5
#: Seconds between two lines about a boot.
TELL_EVERY = 15.0


def on_demand_secondaries(env: Environment) -> list[str]:
    return [name for name, secondary in env.plan.secondaries.items() if is_on_demand(secondary)]


def be_asked(env: Environment, service: str, tell: Callable[[str], None] | None = None) -> None:
    """Of the secondary of a service, where that is on demand: see `SecondaryPower.be_asked`."""
    name = env.plan.services[service].standby.secondary
    if is_on_demand(env.plan.secondaries[name]):
        SecondaryPower(env, name).be_asked(tell)


class SecondaryPower:
    """Of secondary `name`, which is on demand."""

    def __init__(self, env: Environment, name: str) -> None:
        self._env, self.name = env, name
        self._secondary = env.plan.secondaries[name]
        if self._secondary.vm is None or not is_on_demand(self._secondary):
            raise UsageError(f"secondary {name} is not on demand", f"set secondaries.{name}.power to on-demand")
        self._host = env.hosts[self._secondary.vm.hypervisor]
        self._domain = domain_of(name, self._secondary)
        self._lxd = env.on_demand_lxd(name)
        self._disk = StandbysDisk(env, name)
        self.place = self._disk.place
        self._book = PoweredBook(env.journal)

    # -- what is seen ------------------------------------------------------------------------------------------

    def look(self) -> SeenSecondary:
        """Raises ExternalError when the journal cannot be used. A hypervisor that does not answer is seen."""
        try:
            vm = self._host.find(self._domain)
        except ExternalError as error:
            return self._seen(None, Power.UNREACHABLE, error.message)
        return self._seen(vm, Power.ABSENT, f"hypervisor {self._host.name} has no VM {self._domain}")

    def _seen(self, vm: NamedVm | None, otherwise: Power, detail: str) -> SeenSecondary:
        serving, at_work = self._services()
        boot = self._book.now(self.name)
        return SeenSecondary(
            self._domain,
            otherwise if vm is None else vm.reading.power,
            "" if vm is None else vm.reading.reason,
            detail if vm is None else "",
            vm is not None and vm.saved,
            self._disk.takes_files,
            serving,
            at_work,
            self._kept_on_until() > self._env.clock.now(),
            boot is not None and boot.asked_off_at is not None,
        )

    def _services(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Those that are to serve there: from when a start was tried, their files are live. And those at work."""
        names, open_ones = set(self._disk.services), self._open_episodes()
        serving = {name for name, found in self._env.journal.who_serves().items() if found.side is Side.STANDBY}
        serving |= {one.service for one in open_ones if one.tried(Step.START) and not one.request.back}
        return tuple(sorted(serving & names)), tuple(sorted(one.service for one in open_ones))

    def _open_episodes(self) -> list[Episode]:
        names = set(self._disk.services)
        return [one for one in self._env.journal.open_episodes() if one.service in names]

    def keep_on(self, seconds: float) -> None:
        """From now on; 0: as its services need it."""
        file = self.place.folder / "on-until"
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o711)
            file.write_text(f"{self._env.clock.now() + seconds!r}\n")
        except OSError as error:
            raise ExternalError(f"{file} cannot be written: {error.strerror}", "free some space") from error

    def _kept_on_until(self) -> float:
        try:
            return float((self.place.folder / "on-until").read_text())
        except (OSError, ValueError):
            return 0.0

    def _vm(self) -> NamedVm:
        vm = self._host.find(self._domain)
        if vm is None:
            raise ExternalError(f"hypervisor {self._host.name} has no VM {self._domain}", "site.yml makes it")
        return vm

    def _lock(self, patience: float) -> contextlib.AbstractContextManager[None]:
        """Holds its power. Raises BusyError when another still does after so many seconds."""
        state_dir, clock = self._env.plan.state_dir, self._env.clock
        return service_lock(state_dir, self.name, brief=True, part="power", patience=patience, clock=clock)

    @contextmanager
    def _alone(self, patience: float) -> Iterator[None]:
        """Holds its power. Raises ExternalError when another still does after so many seconds."""
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(self._lock(patience))
            except BusyError as error:
                said = f"another controller powers secondary {self.name} on or off"
                raise ExternalError(said, "run it again") from error
            yield

    # -- on ----------------------------------------------------------------------------------------------------

    def power_on(self, why: str, tell: Callable[[str], None] = lambda _text: None) -> PoweredOn:
        """Returns once its LXD answers, and will go on to. Several share one boot, and one reset of one that hangs.

        Raises ExternalError when it does not come up in time. One that could not even be started has given its disk
        back; one that has started and hangs keeps it.
        """
        clock, within = self._env.clock, self._secondary.power_on_within
        began, starts, told, goes_down = clock.steady(), 0, 0.0, False
        deadline = began + within
        while True:
            left = deadline - clock.steady()
            if self._host_says_off():
                if starts == STARTS or (starts > 0 and left <= 0):
                    raise ExternalError(
                        f"the VM of secondary {self.name} ends during its boot", f"`virsh console {self._domain}`"
                    )
                with self._alone(max(1.0, left)):
                    if self._start(why):
                        starts += 1
                        tell(f"secondary {self.name} boots")
            answers = self._answers()
            if answers and self._stays_on():
                took = clock.steady() - began
                if starts == 0 and took < 1.0:
                    return PoweredOn(f"secondary {self.name} is on")
                return PoweredOn(f"secondary {self.name}: LXD answers after {took:.1f} s", took)
            if answers and not goes_down:
                goes_down, deadline = True, max(deadline, clock.steady() + ASK_AGAIN_AFTER)
                tell(self._waits_for_its_shutdown)
            if clock.steady() >= deadline:
                if (more := self._left(tell)) <= 0:
                    boot = self._book.now(self.name)
                    since = "was reset" if boot is not None and boot.why == RESET else "was to boot"
                    raise ExternalError(
                        f"LXD on secondary {self.name} does not answer {within:.0f} s after its VM {since}",
                        f"see `virsh console {self._domain}`, then run it again",
                    )
                deadline = clock.steady() + more
            if clock.steady() - began - told >= TELL_EVERY:
                told = clock.steady() - began
                tell(f"secondary {self.name}: waiting for its {'shutdown' if answers else 'LXD'}, {told:.0f} s")
            clock.sleep(LOOK_EVERY)

    def be_asked(self, tell: Callable[[str], None] | None = None) -> None:
        """Returns once its LXD can be asked, or the note of it: in the middle of a boot neither can.

        One that ended while a standby served there is booted, and one that hangs in its boot reset, once. Whoever gives
        `tell` has an operation open, which needs it: one that is being shut down is waited for too.
        Raises ExternalError, also after `power_on_within`.
        """
        clock, goes_down = self._env.clock, False
        deadline = clock.steady() + self._secondary.power_on_within
        while not self._disk.is_mounted:
            if self._answers():
                if tell is None or self._stays_on():
                    return
                if not goes_down:
                    goes_down, deadline = True, max(deadline, clock.steady() + ASK_AGAIN_AFTER)
                    tell(self._waits_for_its_shutdown)
            seen = self.look()
            if seen.power in OFF and seen.serving:
                self.power_on("a standby is to serve there")
                return
            if seen.power in OFF and unusable(seen) is None:
                self.mount()
            elif seen.power is not Power.RUNNING:
                said = decide_power(seen, 0.0, 0.0).sentence
                raise ExternalError(f"LXD on secondary {self.name} does not answer: {said}")
            elif clock.steady() >= deadline:
                if (more := self._left(log.warning)) <= 0:
                    raise ExternalError(
                        f"LXD on secondary {self.name} does not answer, and its VM runs",
                        f"see `virsh console {self._domain}`",
                    )
                deadline = clock.steady() + more
            clock.sleep(LOOK_EVERY)

    def _left(self, tell: Callable[[str], None]) -> float:
        """Seconds to wait on for its boot, which may have begun later than the wait. One that hangs is reset, once.

        It is reset only where it was started here, and nothing is to serve in it: whatever its LXD would say, nothing
        is lost. Raises ExternalError.
        """
        within, clock = self._secondary.power_on_within, self._env.clock
        # Who shuts it down lets go of it by then: it is needed.
        with self._alone(ASK_AGAIN_AFTER + 5.0):
            seen, boot = self.look(), self._book.now(self.name)
            if seen.power in OFF or self._answers():
                return LOOK_EVERY
            if seen.power is not Power.RUNNING or boot is None:
                return 0.0
            left = boot.on_at + within - clock.now()
            if left > within:
                # The clock was set back since: by it the boot is still to come.
                left = 0.0
            if left > 0 or seen.serving or seen.kept_on or boot.why in ("", RESET):
                return left
            tell(f"secondary {self.name}: its LXD has not answered for {within:.0f} s: its VM is reset")
            self._host.destroy(self._vm().uuid, STARTS_WITHIN)
            self._start(RESET)
        return within

    def _host_says_off(self) -> bool:
        return self._vm().reading.power is not Power.RUNNING

    def _answers(self) -> bool:
        if self._disk.is_mounted:
            # The note would answer.
            return False
        try:
            return self._lxd.answers_soon(self._secondary.storage_pool)
        except ExternalError:
            return False

    def _stays_on(self) -> bool:
        """Whether its LXD, which answers, will go on to. Raises ExternalError.

        It may not while somebody shuts it down, and for a while after somebody who has asked for that was killed.
        """
        if self._was_needed_before_any_request():
            # Whoever has its power, and may stand still with it, is not waited for.
            return not self._host_says_off()
        try:
            with self._lock(SOON):
                boot = self._book.now(self.name)
                if boot is not None and boot.asked_off_within(ASK_AGAIN_AFTER, self._env.clock.now()):
                    return False
                return not self._host_says_off()
        except BusyError:
            return False

    def _was_needed_before_any_request(self) -> bool:
        """Nobody asks it to shut down once it is needed, and what was asked before has been overlooked by now."""
        before = self._env.clock.now() - ASK_AGAIN_AFTER
        return bool(self._services()[0]) or any(one.opened_at <= before for one in self._open_episodes())

    @property
    def _waits_for_its_shutdown(self) -> str:
        return f"secondary {self.name} is being shut down: waiting until it is off, or has overlooked that"

    def _start(self, why: str) -> bool:
        """Whether it was off. Under its lock."""
        vm = self._vm()
        if vm.reading.power not in OFF:
            if vm.reading.power is Power.PAUSED:
                raise ExternalError(f"the VM of secondary {self.name} is paused", f"`virsh resume {self._domain}`")
            return False
        seen = self._seen(vm, Power.ABSENT, "")
        if (trouble := unusable(seen)) is not None:
            raise ExternalError(f"secondary {self.name} is not started: {trouble}")
        # Of the boot before, whose end nobody may have noted: a request to shut down ends with it.
        self._book.is_off(self.name, self._env.clock.now())
        self._disk.take(self.disk_of_one_that_is_off())
        try:
            self._host.start(vm.uuid, with_host=False, timeout=STARTS_WITHIN)
        except ExternalError:
            with contextlib.suppress(ExternalError):  # the watcher tries again
                if not seen.serving:
                    self._open(self._vm())
            raise
        self._book.is_on(self.name, self._env.clock.now(), why)
        return True

    # -- off ---------------------------------------------------------------------------------------------------

    def power_off(self) -> bool:
        """Shuts it down, and mounts its disk here; whether it was on.

        Raises RefusedError while something needs it, also where it has overlooked the request; and ExternalError.
        """
        with self._alone(5.0):
            vm = self._vm()
            if vm.reading.power in OFF:
                self._open(vm)
                return False
            self._refuse_while_needed()
            self.place.write(self._lxd.to_note(self._secondary.storage_pool))
            self._shut_down(vm)
            self._book.is_off(self.name, self._env.clock.now())
            self._open(self._vm())
        return True

    def _refuse_while_needed(self) -> None:
        if why := self.look().needed:
            raise RefusedError(f"secondary {self.name} stays on: {why}")

    def _shut_down(self, vm: NamedVm) -> None:
        clock = self._env.clock
        began, asked = clock.steady(), 0
        while True:
            waited = clock.steady() - began
            if waited >= SHUTS_DOWN_WITHIN:
                raise ExternalError(
                    f"secondary {self.name} has not shut down within {waited:.0f} s", f"`virsh console {self._domain}`"
                )
            if waited >= asked * ASK_AGAIN_AFTER:
                # An operation may have begun since, and waits for the lock.
                self._refuse_while_needed()
                asked += 1
                self._book.is_asked_off(self.name, clock.now())
                self._host.shut_down(vm.uuid)
            if self._vm().reading.power in OFF:
                return
            clock.sleep(LOOK_EVERY)

    def note(self) -> None:
        """What LXD knows by now, for when its VM ends otherwise: with its hypervisor, or by hand.

        Not where something is to serve there, or LXD does not say. Raises BusyError, and ExternalError.
        """
        if not self._answers():
            return
        try:
            found = self._lxd.to_note(self._secondary.storage_pool)
        except ExternalError:  # a container runs there
            return
        with self._lock(SOON):
            seen = self.look()
            # Whoever has it serve has written that down before: what was read before that is of one that waits.
            if seen.power is Power.RUNNING and not (seen.serving or seen.at_work):
                self.place.write(found)

    def mount(self) -> None:
        """Has files arrive on the disk of one that is off. Raises ExternalError when they cannot."""
        with self._alone(5.0):
            self._open(self._vm())

    def _open(self, vm: NamedVm) -> None:
        """Under its lock."""
        seen = self._seen(vm, Power.ABSENT, "")
        if decide_power(seen, 0.0, 0.0).act is not PowerAct.MOUNT:
            return
        self._disk.give(self.disk_of_one_that_is_off())
        self._book.is_off(self.name, self._env.clock.now())

    # -- the disk, by whoever may mount ------------------------------------------------------------------------

    def disk_of_one_that_is_off(self) -> Path:
        """The file. Raises ExternalError unless libvirt says that its VM is off."""
        vm = self._vm()
        if vm.reading.power not in OFF or vm.saved:
            said = "its memory was saved" if vm.saved else f"it is {vm.reading.power}"
            raise ExternalError(f"the disk of secondary {self.name} stays with its VM: {said}")
        found = [disk for disk in vm.disks if disk.name.endswith(DISK_ENDS_WITH)]
        if len(found) != 1:
            raise ExternalError(
                f"VM {self._domain} has {len(found)} disks whose file ends with {DISK_ENDS_WITH}",
                "the role `secondary_vm` gives it one",
            )
        return found[0]
