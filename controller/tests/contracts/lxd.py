"""The LXD or Incus of a secondary: what it says of a standby, what it does with one, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from contracts.cases import Cases, Waits, refusal
from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.lxd import Instance, LxdServer, TryAgainError
from vcrecovery.drivers.lxd.instances import FROZEN, RUNNING, STOPPED
from vcrecovery.drivers.lxd.lifecycle import Happening, Happenings
from vcrecovery.drivers.lxd.resources import TELLS_ORDERS
from vcrecovery.standby.container import ACTIVE, EPOCH_KEY, READY_KEY, ROLE_KEY, STANDBY
from vcrecovery.transfer.failback_orders import ORDER_KEY, REPORT, Given, Order, order_in
from vcrecovery.transfer.heartbeat_copy import HEARTBEAT, TEMPLATE

COMMAND = ("sh", "-c", ":")
#: Seconds for what LXD does. No container has this name.
PATIENCE, NOBODY = 60.0, "nobody"


class Secondary(Waits, Protocol):
    """Secondary sec1, with the standby `name`: it is stopped and ready, and no failover has ever claimed it."""

    @property
    def lxd(self) -> LxdServer: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def name(self) -> str: ...

    @property
    def product(self) -> str:
        """LXD or Incus."""

    @property
    def client(self) -> str:
        """The program with which an operator talks to it."""

    def take_restore_point(self, name: str) -> None: ...

    def kill_init(self) -> None:
        """The container, which runs, ends without anybody's wish."""

    def end(self) -> None:
        """The server ends; the containers live on."""

    def begin(self) -> None: ...


case = Cases[Secondary]()


def read(on: Secondary) -> Instance:
    found = on.lxd.get(on.name)
    assert found is not None
    return found


def is_in(on: Secondary, status: str) -> None:
    found = read(on)
    assert (found.name, found.status, found.running) == (on.name, status, status == RUNNING)


def refuses(on: Secondary, call: Callable[[], object], *words: str) -> None:
    error = refusal(call)
    assert error.message.startswith(f"{on.product} on secondary sec1: ")
    assert all(word in error.message for word in words), error.message


@case
def a_standby_that_is_stopped(on: Secondary) -> None:
    is_in(on, STOPPED)
    found = read(on)
    assert (found.config[ROLE_KEY], found.config[READY_KEY]) == (STANDBY, "true")
    assert EPOCH_KEY not in found.config
    assert found.etag


@case
def a_container_that_is_not_there(on: Secondary) -> None:
    lxd = on.lxd
    assert lxd.get(NOBODY) is None
    assert lxd.snapshots(NOBODY) == []
    assert lxd.file(NOBODY, HEARTBEAT) is None
    assert lxd.template(NOBODY, TEMPLATE) is None
    for call in (
        lambda: lxd.start(NOBODY, PATIENCE),
        lambda: lxd.stop(NOBODY, PATIENCE),
        lambda: lxd.freeze(NOBODY, PATIENCE),
        lambda: lxd.unfreeze(NOBODY, PATIENCE),
        lambda: lxd.ask(NOBODY, COMMAND, PATIENCE),
        lambda: lxd.status_of(NOBODY, COMMAND, PATIENCE),
        lambda: lxd.restore(NOBODY, "point", PATIENCE),
        lambda: lxd.configure(replace(read(on), name=NOBODY), {EPOCH_KEY: "1"}),
    ):
        refuses(on, call, "Instance not found")
    lxd.shut_down(NOBODY, PATIENCE)


@case
def a_start(on: Secondary) -> None:
    before = on.clock.now()
    on.lxd.start(on.name, PATIENCE)
    is_in(on, RUNNING)
    found = read(on)
    assert before - 1 <= found.started_at <= on.clock.now() + 1
    # Nothing happens to one that runs.
    on.lxd.start(on.name, PATIENCE)
    assert read(on) == found


@case
def a_start_of_what_was_read_before(on: Secondary) -> None:
    """Somebody else has started it meanwhile."""
    known = read(on)
    on.lxd.start(on.name, PATIENCE)
    found = read(on)
    on.lxd.start(on.name, PATIENCE, known)
    assert read(on) == found


def told(happenings: Happenings, name: str, what: str) -> Happening:
    """The next that is told of `name`, which has to be that.

    What is to be killed is frozen before, where the kernel cannot keep it from forking.
    """
    for _ in range(30):
        if (found := happenings.next(1.0)) is not None and found.instance == name:
            if (found.what, what) == ("frozen", "ended"):
                continue
            assert found.what == what
            return found
    raise AssertionError(f"nobody tells that {name} {what}")


@case
def what_happens_is_told_with_who_asked(on: Secondary) -> None:
    with on.lxd.lifecycle() as happenings:
        assert happenings.next(0.0) is None
        for act, what in (
            (on.lxd.start, "started"),
            (on.lxd.freeze, "frozen"),
            (on.lxd.unfreeze, "started"),
            (on.lxd.stop, "ended"),
        ):
            act(on.name, PATIENCE)
            assert told(happenings, on.name, what).asked_by
        on.lxd.start(on.name, PATIENCE)
        told(happenings, on.name, "started")
        on.kill_init()
        assert told(happenings, on.name, "ended").asked_by == ""
        on.eventually(lambda: read(on).status == STOPPED, "the container's end")
    assert isinstance(on.lxd.last_words(on.name), str)
    assert on.lxd.last_words(NOBODY) == ""


@case
def a_server_that_ends_tells_nothing_more(on: Secondary) -> None:
    with on.lxd.lifecycle() as happenings:
        on.end()

        def listen() -> None:
            for _ in range(60):
                happenings.next(1.0)

        assert "does not answer" in refusal(listen).message

    def begin() -> None:
        with on.lxd.lifecycle():
            pass

    refusal(begin)
    on.begin()
    begin()


@case
def a_stop(on: Secondary) -> None:
    on.lxd.start(on.name, PATIENCE)
    started_at = read(on).started_at
    on.lxd.stop(on.name, PATIENCE)
    is_in(on, STOPPED)
    assert read(on).started_at == started_at
    for again in (on.lxd.stop, on.lxd.shut_down):
        again(on.name, PATIENCE)
        is_in(on, STOPPED)


@case
def a_restart(on: Secondary) -> None:
    on.lxd.start(on.name, PATIENCE)
    before = read(on)
    on.lxd.restart(on.name, PATIENCE)
    is_in(on, RUNNING)
    assert read(on).started_at > before.started_at


@case
def a_freeze_and_a_thaw(on: Secondary) -> None:
    on.lxd.start(on.name, PATIENCE)
    started_at = read(on).started_at
    on.lxd.freeze(on.name, PATIENCE)
    is_in(on, FROZEN)
    refuses(on, lambda: on.lxd.freeze(on.name, PATIENCE), f"the freezing of {on.name}: ", "already frozen")
    on.lxd.unfreeze(on.name, PATIENCE)
    is_in(on, RUNNING)
    refuses(on, lambda: on.lxd.unfreeze(on.name, PATIENCE), f"the thawing of {on.name}: ", "already running")
    on.lxd.freeze(on.name, PATIENCE)
    on.lxd.start(on.name, PATIENCE)
    is_in(on, RUNNING)
    assert read(on).started_at == started_at


@case
def one_that_is_stopped_is_not_frozen(on: Secondary) -> None:
    refuses(on, lambda: on.lxd.freeze(on.name, PATIENCE), f"the freezing of {on.name}: ", "isn't running")
    refuses(on, lambda: on.lxd.unfreeze(on.name, PATIENCE), f"the thawing of {on.name}: ", "isn't running")
    is_in(on, STOPPED)


@case
def one_that_is_frozen_is_stopped(on: Secondary) -> None:
    for stop in (on.lxd.stop, on.lxd.shut_down):
        on.lxd.start(on.name, PATIENCE)
        on.lxd.freeze(on.name, PATIENCE)
        stop(on.name, PATIENCE)
        is_in(on, STOPPED)


@case
def a_command_needs_one_that_runs(on: Secondary) -> None:
    def fails(word: str) -> None:
        refuses(on, lambda: on.lxd.ask(on.name, COMMAND, PATIENCE), f"Instance is {word}")
        refuses(on, lambda: on.lxd.status_of(on.name, COMMAND, PATIENCE), f"Instance is {word}")

    fails("not running")
    on.lxd.start(on.name, PATIENCE)
    assert on.lxd.ask(on.name, COMMAND, PATIENCE)[0] == 0
    assert on.lxd.status_of(on.name, COMMAND, PATIENCE) == 0
    on.lxd.execute(on.name, COMMAND, PATIENCE)
    on.lxd.freeze(on.name, PATIENCE)
    fails("frozen")


@case
def what_is_set_is_read_back(on: Secondary) -> None:
    before = read(on)
    on.lxd.configure(before, {ROLE_KEY: ACTIVE, EPOCH_KEY: "3"})
    found = read(on)
    # Other keys stay as they were.
    assert found.config == {**before.config, ROLE_KEY: ACTIVE, EPOCH_KEY: "3"}
    on.lxd.configure(found, {EPOCH_KEY: ""})
    assert read(on).config == {**before.config, ROLE_KEY: ACTIVE}


@case
def whoever_writes_second_is_refused(on: Secondary) -> None:
    first = second = read(on)
    on.lxd.configure(first, {EPOCH_KEY: "1"})
    error = refusal(lambda: on.lxd.configure(second, {EPOCH_KEY: "2"}), TryAgainError)
    assert error.message == f"container {on.name} was just changed by another client"
    assert read(on).config[EPOCH_KEY] == "1"


@case
def who_was_refused_reads_again(on: Secondary) -> None:
    old, reads = read(on), []
    on.lxd.configure(old, {EPOCH_KEY: "1"})

    def stale_at_first() -> Instance:
        reads.append(1)
        return old if len(reads) == 1 else read(on)

    on.lxd.reconfigure(stale_at_first, lambda _found: {EPOCH_KEY: "2"})
    assert (len(reads), read(on).config[EPOCH_KEY]) == (2, "2")
    refusal(lambda: on.lxd.reconfigure(lambda: old, lambda _found: {EPOCH_KEY: "3"}))
    assert read(on).config[EPOCH_KEY] == "2"


@case
def a_start_or_a_stop_counts_as_a_change(on: Secondary) -> None:
    for act in (on.lxd.start, on.lxd.stop):
        before = read(on)
        act(on.name, PATIENCE)
        refusal(lambda before=before: on.lxd.configure(before, {EPOCH_KEY: "1"}), TryAgainError)  # type: ignore[misc]
        assert EPOCH_KEY not in read(on).config


@case
def a_freeze_or_a_thaw_is_no_change(on: Secondary) -> None:
    on.lxd.start(on.name, PATIENCE)
    for number, act in enumerate((on.lxd.freeze, on.lxd.unfreeze)):
        before = read(on)
        act(on.name, PATIENCE)
        on.lxd.configure(before, {EPOCH_KEY: str(number)})
        assert read(on).config[EPOCH_KEY] == str(number)


@case
def what_changes_nothing_is_no_change(on: Secondary) -> None:
    before = read(on)
    on.lxd.configure(before, {ROLE_KEY: before.config[ROLE_KEY]})
    on.lxd.configure(before, {EPOCH_KEY: "1"})
    assert read(on).config[EPOCH_KEY] == "1"


@case
def a_restore_brings_back_the_configuration_of_then(on: Secondary) -> None:
    assert on.lxd.snapshots(on.name) == []
    on.take_restore_point("one")
    on.take_restore_point("two")
    assert on.lxd.snapshots(on.name) == ["one", "two"]
    on.lxd.configure(read(on), {ROLE_KEY: ACTIVE, EPOCH_KEY: "7"})
    claimed = read(on)
    on.lxd.restore(on.name, "one", PATIENCE)
    is_in(on, STOPPED)
    found = read(on)
    assert found.config[ROLE_KEY] == STANDBY
    assert EPOCH_KEY not in found.config
    refusal(lambda: on.lxd.configure(claimed, {EPOCH_KEY: "8"}), TryAgainError)
    assert on.lxd.snapshots(on.name) == ["one", "two"]


@case
def a_restore_point_that_is_not_there(on: Secondary) -> None:
    words = f"the restore of {on.name} from snapshot three: "
    refuses(on, lambda: on.lxd.restore(on.name, "three", PATIENCE), words, f"Snapshot {on.name}/three does not exist")
    is_in(on, STOPPED)


@case
def files_of_a_standby(on: Secondary) -> None:
    """Running or not."""

    def looks() -> None:
        heartbeat = on.lxd.file(on.name, HEARTBEAT)
        assert heartbeat is not None
        assert json.loads(heartbeat)["at"] > 0
        assert on.lxd.file(on.name, "/nowhere/at/all") is None
        assert on.lxd.names_in(on.name, "/nowhere/at/all") == []
        assert on.lxd.names_in(on.name, HEARTBEAT) == []
        assert on.lxd.template(on.name, "nothing.tpl") is None

    looks()
    on.lxd.start(on.name, PATIENCE)
    looks()


@case
def what_lies_there_for_a_vm_that_fails_back(on: Secondary) -> None:
    """The order with the container, whether that runs or not; a report only once the receiver has left one."""
    given = Given(7, Order.HOLD, 1764209380.25)
    for starts in (False, True):
        if starts:
            on.lxd.start(on.name, PATIENCE)
        on.lxd.set_keys(lambda: read(on), {ORDER_KEY: str(given)})
        assert order_in(read(on).config) == given
        assert on.lxd.template(on.name, REPORT) is None
        on.lxd.set_keys(lambda: read(on), {ORDER_KEY: ""})
        assert ORDER_KEY not in read(on).config


@case
def what_its_receiver_can(on: Secondary) -> None:
    on.lxd.tell_of_receiver(TELLS_ORDERS)
    assert on.lxd.receiver_can(TELLS_ORDERS)
    assert not on.lxd.receiver_can("nothing of the kind")
    assert not on.lxd.tell_of_receiver(TELLS_ORDERS)
    assert on.lxd.kernel().architecture


@case
def the_size_of_its_machine(on: Secondary) -> None:
    size = on.lxd.size()
    assert size.cores >= 1
    assert size.memory >= 2**28


@case
def one_that_does_not_answer(on: Secondary) -> None:
    lxd, name = on.lxd, on.name
    lxd.start(name, PATIENCE)
    known = read(on)
    on.end()
    for call in (
        lambda: lxd.get(name),
        lambda: lxd.start(name, PATIENCE),
        lambda: lxd.stop(name, PATIENCE),
        lambda: lxd.configure(known, {EPOCH_KEY: "1"}),
        lambda: lxd.status_of(name, COMMAND, PATIENCE),
        lambda: lxd.ask(name, COMMAND, PATIENCE),
        lambda: lxd.snapshots(name),
        lambda: lxd.restore(name, "one", PATIENCE),
        lambda: lxd.file(name, HEARTBEAT),
        lambda: lxd.template(name, TEMPLATE),
        lambda: lxd.template(name, REPORT),
        lambda: lxd.names_in(name, "/"),
        lambda: lxd.receiver_can(TELLS_ORDERS),
        lxd.kernel,
        lxd.size,
    ):
        error = refusal(call)
        assert error.message == f"{on.product} on secondary sec1 ({lxd.socket}) does not answer: Connection refused"
        assert error.hint == f"start it, and try `{on.client} list` there"
    on.begin()
    # It has gone on meanwhile, and the same object gets answers again. Incus itself notes what is ready anew.
    found = read(on)
    assert replace(found, config=known.config) == known
    changed = {key for key, _ in found.config.items() ^ known.config.items()}
    assert changed <= {"volatile.last_state.ready"}
