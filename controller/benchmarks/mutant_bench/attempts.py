"""A plugin of pytest: the tests are collected once, then each mutant meets those that run its function, in a fork.

Reads `$MUTANTS`, a list of names, and writes `$MUTANTS_FOUND`, a line of JSON for each: `name`, `status` and, if one
failed, `by`. Before that each test runs once without a mutant: what it calls, and how long it takes. One that fails
already then takes no part, and is named in the first line.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.state import state

#: Processors that the tests may keep busy.
_AT_ONCE = os.cpu_count() or 1
#: A mutant goes round in circles that computes for so many times what its tests take without it, and seconds on top.
_CIRCLES_AFTER, _ON_TOP = 5.0, 10.0
#: Seconds: it hangs that computes less than the second in the first. A loaded machine leaves it more than that.
_HANGS_AFTER, _LESS_THAN = 60.0, 0.5
#: Bytes: one that goes round and round may collect something.
_MEMORY = 6 * 2**30


@dataclass
class _Test:
    item: pytest.Item
    #: Seconds of a processor, without a mutant.
    cpu: float = 0.0
    #: So many functions that have mutants does it run: the fewer, the nearer it is to each of them.
    functions: int = 0


def pytest_runtestloop(session: pytest.Session) -> bool:
    tests = {item.nodeid: _Test(item) for item in session.items}
    with Path(os.environ["MUTANTS_FOUND"]).open("w") as file:
        runs, broken = _what_runs(session, tests)
        print(json.dumps({"broken": broken}), file=file, flush=True)
        for found in _attempts(session, json.loads(Path(os.environ["MUTANTS"]).read_text()), tests, runs):
            print(json.dumps(found), file=file, flush=True)
    return True


def _what_runs(session: pytest.Session, tests: dict[str, _Test]) -> tuple[dict[str, list[str]], list[str]]:
    """Of each function that has mutants, the tests that run it; and the tests that fail."""
    kept = Path(os.environ["MUTANTS_RUNS"])
    if not kept.exists():
        kept.write_text(_learnt(session))
    runs, broken = defaultdict[str, list[str]](list), list[str]()
    for line in kept.read_text().splitlines():
        test, cpu, failed, functions = json.loads(line)
        tests[test].cpu, tests[test].functions = cpu, len(functions)
        if failed:
            broken.append(test)
        for function in () if failed else functions:
            runs[function].append(test)
    return runs, sorted(broken)


def _learnt(session: pytest.Session) -> str:
    files = sorted({item.path for item in session.items})
    parts = [[one for one in session.items if files.index(one.path) % _AT_ONCE == k] for k in range(_AT_ONCE)]
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder, str(number)) for number in range(_AT_ONCE)]
        running = [
            _Running(lambda items=items, output=output: _learn(session, items, output), 3600.0)  # type: ignore[misc]
            for items, output in zip(parts, outputs, strict=True)
        ]
        for one in running:
            one.wait()
        return "".join(output.read_text() for output in outputs)


def _learn(session: pytest.Session, items: Sequence[pytest.Item], output: Path) -> None:
    set_mutant_under_test("stats")
    with output.open("w") as file:
        for item, next_item in zip(items, [*items[1:], None], strict=True):
            state()._stats.clear()
            failed, cpu = session.testsfailed, _cpu()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
            line = (item.nodeid, _cpu() - cpu, session.testsfailed > failed, sorted(state()._stats))
            print(json.dumps(line), file=file, flush=True)


def _cpu() -> float:
    """Seconds, with those of the programs that have ended; `os.times` knows hundredths, and most tests take less."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _attempts(
    session: pytest.Session, names: Sequence[str], tests: dict[str, _Test], runs: dict[str, list[str]]
) -> Iterator[dict[str, str]]:
    #: Of each function, how often which test has noticed a mutant of it: it will notice more of them.
    noticed = defaultdict[str, Counter[str]](Counter)
    busy: dict[int, tuple[str, _Running, Path]] = {}
    # A collection in a child would copy what it shares with this one.
    gc.collect()
    gc.freeze()

    def one_ended() -> dict[str, str]:
        pid = _next_end(busy)
        name, running, output = busy.pop(pid)
        by = output.read_text()
        shutil.rmtree(output.parent)
        if by:
            noticed[_function_of(name)][by] += 1
            return {"name": name, "status": "killed", "by": by}
        return {
            "name": name,
            "status": {0: "survived"}.get(running.status, "timeout" if running.status < 0 else "killed"),
        }

    for name in names:
        function = _function_of(name)
        if not runs[function]:
            yield {"name": name, "status": "no tests"}
            continue
        while len(busy) >= _AT_ONCE:
            yield one_ended()
        before = noticed[function]
        chosen = sorted(runs[function], key=lambda test: (-before[test], tests[test].cpu * tests[test].functions))
        output = Path(tempfile.mkdtemp(prefix="vcrecovery-mutant-")) / "noticed-by"
        output.touch()
        items = [tests[test].item for test in chosen]
        running = _Running(
            lambda name=name, items=items, output=output: _attempt(session, name, items, output),  # type: ignore[misc]
            _ON_TOP + _CIRCLES_AFTER * sum(tests[test].cpu for test in chosen),
        )
        busy[running.pid] = (name, running, output)
    while busy:
        yield one_ended()


def _function_of(mutant: str) -> str:
    return mutant.rpartition("__mutmut_")[0]


def _attempt(session: pytest.Session, name: str, items: Sequence[pytest.Item], output: Path) -> None:
    set_mutant_under_test(name)
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(output.parent)
    before = session.testsfailed
    for item, next_item in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
        if session.testsfailed > before:
            output.write_text(item.nodeid)
            return


def _next_end(busy: dict[int, tuple[str, _Running, Path]]) -> int:
    while True:
        for pid, (_, running, _) in busy.items():
            if running.ended():
                return pid
        time.sleep(0.01)


class _Running:
    """`work` in a process of its own, which leads a group: it is over with all that it has started."""

    def __init__(self, work: Callable[[], None], cpu: float) -> None:
        self._looked_at, self._had_computed = time.monotonic(), 0.0
        self.status = 0
        self.pid = os.fork()
        if self.pid == 0:
            _work(work, cpu)

    def ended(self) -> bool:
        """One that hangs is made to."""
        if time.monotonic() - self._looked_at > _HANGS_AFTER:
            computed = self._computed()
            if computed - self._had_computed < _LESS_THAN:
                os.killpg(self.pid, signal.SIGKILL)
                self.wait()
                return True
            self._looked_at, self._had_computed = time.monotonic(), computed
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return bool(pid) and self._note(status)

    def _computed(self) -> float:
        """Seconds, with what the programs that it has waited for have computed."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def wait(self) -> None:
        self._note(os.waitpid(self.pid, 0)[1])

    def _note(self, status: int) -> bool:
        self.status = os.waitstatus_to_exitcode(status)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        return True


def _work(work: Callable[[], None], cpu: float) -> NoReturn:
    """In the child."""
    os.setpgid(0, 0)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    spent = int(_cpu() + cpu) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (spent, spent + 1))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    status = 3
    try:
        work()
        status = 0
    finally:
        sys.stdout.flush()
        os._exit(status)
