"""The table and its protocol with snmpd."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest

from vcrecovery.errors import ExternalError
from vcrecovery.snmp.mib import ENTERPRISE, OLD_ENTERPRISE, Column, Extra, Oid, column, scalar
from vcrecovery.snmp.pass_persist import parse_oid, serve
from vcrecovery.snmp.samples import KEEP, PATIENCE, Samples
from vcrecovery.snmp.table import Row, Tree, tree_of
from vcrecovery_lab.pair.waiting import Deadline

LOW, HIGH = UUID(int=1), UUID("ffffffff-ffff-ffff-ffff-ffffffffffff")
ROWS = (
    Row(HIGH, "second", 5, 2, 2048 * 1024, 2048 * 1024, 0),
    Row(LOW, "first", 1, 1, 1023, 2**50, 2**64 - 1),
)


def dotted(oid: Oid) -> str:
    return "." + ".".join(map(str, oid))


def talk(tree: Tree, *lines: str | bytes) -> list[str]:
    answers = io.BytesIO()
    data = b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines)
    serve(io.BytesIO(data), answers, lambda: tree)
    return answers.getvalue().decode().splitlines()


def get(tree: Tree, oid: Oid) -> tuple[str, str]:
    name, kind, value = talk(tree, "get", dotted(oid))
    assert name == dotted(oid)
    return kind, value


@pytest.fixture
def tree() -> Tree:
    return tree_of(ROWS, "hv1", ENTERPRISE)


def test_ping(tree: Tree) -> None:
    assert talk(tree, "PING", "PING") == ["PONG", "PONG"]


def test_types_and_limits(tree: Tree) -> None:
    assert get(tree, column(Column.STATE, LOW)) == ("integer", "1")
    assert get(tree, column(Column.STATE, HIGH)) == ("integer", "5")
    assert get(tree, column(Column.CPU_COUNT, HIGH)) == ("gauge", "2")
    assert get(tree, column(Column.MEMORY_CURRENT, LOW)) == ("gauge", "0")
    assert get(tree, column(Column.MEMORY_CURRENT, HIGH)) == ("gauge", "2048")
    assert get(tree, column(Column.MEMORY_LIMIT, LOW)) == ("gauge", str(2**32 - 1))
    assert get(tree, column(Column.CPU_TIME, LOW)) == ("counter64", str(2**64 - 1))
    assert get(tree, column(Column.ROW_STATUS, HIGH)) == ("integer", "1")


def test_a_counter_begins_anew_after_its_end() -> None:
    tree = tree_of([Row(LOW, "x", 1, 1, 1, 1, 2**64 + 5)], "hv1", ENTERPRISE)
    assert get(tree, column(Column.CPU_TIME, LOW)) == ("counter64", "5")


@pytest.mark.parametrize("state", range(-1, 10))
def test_every_state_of_libvirt_is_one_of_the_mib(state: int) -> None:
    tree = tree_of([Row(LOW, "x", state, 1, 1, 1, 1)], "hv1", ENTERPRISE)
    assert get(tree, column(Column.STATE, LOW))[1] in "123456"


@pytest.mark.parametrize(
    "name", ["NONE", "a\nget\n.1", "", " ", "näme", "\udcff", "PONG", "x" * 5000, "\0", "'\"$(id)"]
)
def test_no_name_is_anything_but_a_name(name: str) -> None:
    tree = tree_of([Row(LOW, name, 1, 1, 1, 1, 1)], "hv1", ENTERPRISE)
    kind, value = get(tree, column(Column.NAME, LOW))
    assert kind == "octet"
    assert bytes.fromhex(value) == name.encode(errors="surrogateescape")[:1024]
    # snmpd reads no longer lines.
    assert len(value) < 4096


def test_a_walk_comes_to_every_cell_in_order_and_ends(tree: Tree) -> None:
    seen = []
    here = dotted(ENTERPRISE)
    while len(found := talk(tree, "getnext", here)) == 3:
        here = found[0]
        seen.append(here)
    assert found == ["NONE"]
    columns = [which for which in Column if which is not Column.UUID]
    table = [dotted(column(which, uuid)) for which in columns for uuid in (LOW, HIGH)]
    assert seen == [*table, dotted(scalar(Extra.HOST)), dotted(scalar(Extra.LIBVIRT))]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ((1,), column(Column.NAME, LOW)),
        ((*ENTERPRISE, 1, 1, 1, 2), column(Column.NAME, LOW)),
        ((*ENTERPRISE, 1, 1, 1, 1, *HIGH.bytes), column(Column.NAME, LOW)),
        # Part of an index, one with a length before it, and numbers that no byte has.
        ((*ENTERPRISE, 1, 1, 1, 2, 0, 0), column(Column.NAME, LOW)),
        ((*ENTERPRISE, 1, 1, 1, 2, 16, *LOW.bytes), column(Column.NAME, HIGH)),
        ((*ENTERPRISE, 1, 1, 1, 2, 4294967295), column(Column.STATE, LOW)),
        ((*column(Column.NAME, LOW), 0), column(Column.NAME, HIGH)),
        ((*ENTERPRISE, 1, 1, 1, 8), column(Column.ROW_STATUS, LOW)),
        ((*ENTERPRISE, 1, 1, 4294967295), scalar(Extra.HOST)),
    ],
)
def test_getnext_of_what_does_not_exist(tree: Tree, asked: Oid, found: Oid) -> None:
    assert talk(tree, "getnext", dotted(asked))[0] == dotted(found)


@pytest.mark.parametrize(
    "oid",
    [
        column(Column.UUID, LOW),
        (*ENTERPRISE, 1, 1, 1, 8, *LOW.bytes),
        (*column(Column.NAME, LOW), 0),
        column(Column.NAME, LOW)[:-1],
        (*ENTERPRISE, 1, 1, 1, 2, 0),
        column(Column.NAME, LOW, OLD_ENTERPRISE),
    ],
)
def test_get_of_what_does_not_exist(tree: Tree, oid: Oid) -> None:
    assert talk(tree, "get", dotted(oid)) == ["NONE"]


@pytest.mark.parametrize(
    "line",
    ["", ".", "..", "1..2", "-1", "1.3.x", "6F1C2A54-7C0D-4A7E-9A51-0D3B1F7E0001", "9" * 5000, b"\xff\xfe", "1." * 200],
)
def test_what_is_no_oid_is_nothing(tree: Tree, line: str | bytes) -> None:
    assert parse_oid(line.encode() if isinstance(line, str) else line) is None
    assert talk(tree, "get", line, "PING") == ["NONE", "PONG"]


def test_set_is_refused_and_the_talk_goes_on(tree: Tree) -> None:
    oid = dotted(column(Column.ROW_STATUS, LOW))
    assert talk(tree, "set", oid, "integer 6", "PING") == ["not-writable", "PONG"]
    assert get(tree, column(Column.ROW_STATUS, LOW)) == ("integer", "1")


def test_an_unknown_command_and_an_end_in_the_middle(tree: Tree) -> None:
    assert talk(tree, "nonsense", "PING") == ["NONE", "PONG"]
    assert talk(tree, "get") == ["NONE"]


def test_the_old_enterprise() -> None:
    tree = tree_of(ROWS, "hv1", OLD_ENTERPRISE)
    assert talk(tree, "getnext", dotted(ENTERPRISE)) == ["NONE"]
    assert talk(tree, "getnext", dotted(OLD_ENTERPRISE))[0] == dotted(column(Column.NAME, LOW, OLD_ENTERPRISE))


def test_silence_is_not_the_same_as_no_vms() -> None:
    assert get(tree_of((), "hv1", ENTERPRISE), scalar(Extra.LIBVIRT)) == ("integer", "1")
    silent = tree_of(None, "hv1", ENTERPRISE)
    assert get(silent, scalar(Extra.LIBVIRT)) == ("integer", "2")
    assert talk(silent, "getnext", dotted(ENTERPRISE))[0] == dotted(scalar(Extra.HOST))


# -- samples ---------------------------------------------------------------------------------------------------


class Source:
    """A libvirt that can fail and hang."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.free.set()
        self.error: Exception | None = None
        self.reads = 0

    def read(self) -> Sequence[int]:
        assert self.free.wait(60)
        self.reads += 1
        if self.error is not None:
            raise self.error
        return [self.reads]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0


def test_a_sample_is_kept_for_a_moment_and_no_longer() -> None:
    source, clock = Source(), Clock()
    samples = Samples(source.read, lambda: clock.now)
    assert samples.newest() == [1]
    clock.now += KEEP / 2
    assert samples.newest() == [1]
    clock.now += KEEP
    assert samples.newest() == [2]
    # A poller that comes every five seconds never sees a sample twice.
    clock.now += 5
    assert samples.newest() == [3]


@pytest.mark.parametrize("error", [ExternalError("libvirt does not answer"), ValueError("a\nsurprise")])
def test_an_error_is_no_sample_and_the_next_question_asks_again(error: Exception) -> None:
    source, clock = Source(), Clock()
    samples = Samples(source.read, lambda: clock.now)
    assert samples.newest() == [1]
    clock.now += 1
    source.error = error
    assert samples.newest() is None
    clock.now += 1
    source.error = None
    assert samples.newest() == [3]


def test_a_libvirt_that_hangs_holds_nobody_up() -> None:
    source, clock = Source(), Clock()
    samples = Samples(source.read, lambda: clock.now)
    assert samples.newest() == [1]
    source.free.clear()
    clock.now += 5
    assert samples.newest() is None
    clock.now += PATIENCE
    # The real time of these would be minutes if each waited for libvirt, or even for PATIENCE.
    for _ in range(1000):
        assert samples.newest() is None
    assert source.reads == 1
    source.free.set()
    clock.now += 5
    assert wait_for_sample(samples, clock)[0] >= 2


def wait_for_sample(samples: Samples[int], clock: Clock) -> Sequence[int]:
    """What was asked during the hang may be the answer to the first question after it."""
    deadline = Deadline(30)
    while (found := samples.newest()) is None:
        assert not deadline.is_over, "no sample has come"
        clock.now += KEEP
        deadline.pause(0.01)
    return found


# -- the program -----------------------------------------------------------------------------------------------


def test_the_program_talks_to_snmpd_without_libvirt(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "vcrecovery", "snmp-agent", "table", "--host", "hv1", "--uri"]
    command.append(f"qemu:///system?socket={tmp_path}/none")
    oid = dotted(scalar(Extra.LIBVIRT))
    # What it says on its standard error snmpd would take for an answer.
    done = subprocess.run(
        command, input=f"PING\nget\n{oid}\n", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=60, check=False, env=os.environ,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["PONG", oid, "integer", "2"]
