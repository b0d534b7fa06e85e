"""Ctrl-C in the middle of an operation: how far each service is, what to type, and the status."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from journal_cases import finish
from view_program import PATIENCE, command, env

from evidence_cases import proof
from lab.waiting import wait_for
from vcrecovery.cli.interruption import interruption_of
from vcrecovery.core.episode import Request, Step, StepRecord
from vcrecovery.errors import ExitCode
from vcrecovery.operations.several import Result
from vcrecovery.store.journal import Journal

SERVICE = """\
  {name}:
    primary: {{hypervisor: hv1, uuid: 6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e00{number}, address: 127.0.1.{number}}}
    standby: {{secondary: {secondary}, address: {net}.{number}}}
    ports: [{port}]
    needs: [{needs}]
"""
#: Beside sec1, whose LXD hangs: one whose LXD is not there.
AWAY = """
  sec2:
    lxd: {folder}/nothing
    network: {{bridge: vcr1, address: 127.0.3.1/24}}
    receiver: {{address: 127.0.2.2}}
dns:"""
#: Seconds; what hangs there gives up after ten.
AGAIN_AFTER = 3.0
CONFIRMED_AND_FENCED = (Step.CONFIRM, Step.FENCE)


@pytest.fixture
def shop(hanging: Path) -> Iterator[Path]:
    """mail is served by its standby, db and app are fenced, and nothing was done to front."""
    text = hanging.read_text().replace("\ndns:", AWAY.format(folder=hanging.parent))
    text = text.replace("\nservices:", "\ngroups:\n  shop: {services: [mail, front, app, db]}\nservices:")
    with socket.create_server(("127.0.3.23", 0)) as mail:
        port = mail.getsockname()[1]
        members = [("db", "sec1", ""), ("app", "sec1", "db"), ("front", "sec2", ""), ("mail", "sec2", "")]
        for number, (name, secondary, needs) in enumerate(members, 20):
            net = {"sec1": "127.0.0", "sec2": "127.0.3"}[secondary]
            text += SERVICE.format(name=name, number=number, secondary=secondary, net=net, port=port, needs=needs)
        hanging.write_text(text)
        journal = journal_of(hanging)
        finish(journal, journal.open("mail", "a test", Request(), 1.0), 2.0)
        for name in ("db", "app"):
            has_done(journal, name, CONFIRMED_AND_FENCED, Request())
        yield hanging


def journal_of(plan: Path) -> Journal:
    return Journal(plan.parent / "state/journal.db")


def has_done(journal: Journal, service: str, steps: Sequence[Step], request: Request) -> None:
    now = time.time()
    episode = journal.open(service, "a test", request, now)
    for step in steps:
        journal.end(journal.begin(episode, step, now), now, ok=True, evidence=proof(step))


def is_in(journal: Journal, service: str, step: Step) -> bool:
    """Whether the program is in that step of it now."""
    episode = journal.state(service).open_episode
    return (
        episode is not None
        and episode.steps[-1:] != ()
        and episode.steps[-1].ended_at is None
        and (episode.steps[-1].step is step)
    )


def press_ctrl_c(program: subprocess.Popen[str]) -> tuple[str, str]:
    """As a person does: once more when nothing happens. Python may miss a signal right before it begins to wait."""
    for _ in range(int(PATIENCE / AGAIN_AFTER)):
        program.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return program.communicate(timeout=AGAIN_AFTER)
    raise AssertionError("Ctrl-C does not end it")


def interrupted(words: Sequence[str], when: Callable[[], bool]) -> tuple[int, str, list[str]]:
    """The status, what it wrote, and the lines of what it said to a person, when Ctrl-C is pressed at that moment."""
    with subprocess.Popen(
        command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env()
    ) as program:
        try:
            wait_for(lambda: when() or program.poll() is not None, "that moment")
            out, err = press_ctrl_c(program)
        finally:
            program.kill()
    # The line of the terminal's ^C ends first.
    return program.returncode, out, err.lstrip("\n").splitlines()


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_group_says_how_far_each_of_its_services_is(shop: Path, more: tuple[str, ...]) -> None:
    journal = journal_of(shop)
    words = ["failover", "--group", "shop", "--plan", str(shop), *more]

    def in_the_middle() -> bool:
        return is_in(journal, "db", Step.START) and is_in(journal, "front", Step.CONFIRM)

    status, out, said = interrupted(words, in_the_middle)
    assert status == 130, said
    assert said == [
        "  mail   nothing to do",
        "  front  failover at epoch 1: confirming; nothing was done to its primary yet",
        "  app    failover at epoch 1: fenced; to be finished",
        "  db     failover at epoch 1: starting; to be finished",
        f"vcrecovery: interrupted; to continue: `vcrecovery {' '.join(words)}`",
    ]
    assert out == "" or not more
    # It has ended: nobody is at work on them any more, and each can be continued from there.
    steps = [record.step for name in ("db", "app") for record in opened(journal, name)]
    assert steps == [*CONFIRMED_AND_FENCED, Step.START, *CONFIRMED_AND_FENCED]


def opened(journal: Journal, service: str) -> Sequence[StepRecord]:
    episode = journal.state(service).open_episode
    assert episode is not None
    return episode.steps


def test_one_service_says_so_too(shop: Path) -> None:
    journal = journal_of(shop)
    status, _, said = interrupted(["failover", "db", "--plan", str(shop)], lambda: is_in(journal, "db", Step.START))
    assert status == 130, said
    assert said == [
        "  db  failover at epoch 1: starting; to be finished",
        f"vcrecovery: interrupted; to continue: `vcrecovery failover db --plan {shop}`",
    ]


def test_a_failback_leaves_the_standby_that_serves(shop: Path) -> None:
    journal = journal_of(shop)
    words = ["failback", "mail", "--plan", str(shop)]
    status, _, said = interrupted(words, lambda: is_in(journal, "mail", Step.CONFIRM))
    assert status == 130, said
    assert said[0] == "  mail  failback at epoch 2: confirming; nothing was done to its standby yet"


def test_one_of_which_nothing_is_known_yet_was_not_begun(shop: Path) -> None:
    """Its LXD hangs, and has to say which epochs there were."""
    locked = shop.parent / "state/locks/web.lock"
    status, _, said = interrupted(["failover", "web", "--plan", str(shop)], locked.exists)
    assert status == 130, said
    assert said[0] == "  web  not begun"
    assert journal_of(shop).state("web").open_episode is None


def test_after_a_failback_nothing_is_left_but_that_its_standby_is_compared(shop: Path) -> None:
    """Whether it is whole is waited for, with the failback over: its LXD hangs."""
    journal = journal_of(shop)
    ended = {"mail": Result("mail", "done", "", epoch=2, seconds=9.0)}
    interruption = interruption_of(journal, ["mail"], ended, back=True)
    assert interruption.how_far == (
        "  mail  done; whether its standby has everything is not known yet: `vcrecovery status` shows it",
    )
    assert not interruption.is_left
    assert interruption_of(journal, ["mail", "front"], ended, back=True).is_left
    refused = {**ended, "front": Result("front", "refused", "too old", exit_code=ExitCode.REFUSED)}
    assert interruption_of(journal, ["mail", "front"], refused, back=True).is_left
