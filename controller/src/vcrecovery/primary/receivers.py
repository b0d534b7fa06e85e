"""Which secondary takes this VM's files: of those at which its standby may be, the one that says that it waits there.

Where there is one only, nothing is asked. Files that were sent to one are not at another: before the sync goes to
another one, the whole tree is due to be compared, and a heartbeat vouches there for no more than that one says it has.
"""

from __future__ import annotations

import os
import time
from typing import Callable, List, NamedTuple, Optional, Sequence

from .answers import ELSEWHERE, HAS_ALL_OF, PRIMARY, QUESTION, RANK, STANDBY
from .connections import OWN_CONNECTION
from .current import COMMENT, CURRENT, current, read_json, sent_to, still_vouched, written
from .heartbeat import NEVER, stamp
from .marker import NAME as HEARTBEAT_NAME
from .marks import Marks
from .programs import ProgramError, Run
from .settings import Settings

#: Seconds for one question; between two rounds of them while nobody takes the files.
ANSWER_SECONDS = 20.0
_PAUSES = (1.0, 2.0, 5.0, 10.0, 30.0)


class Answer(NamedTuple):
    """`words`: the first is PRIMARY, STANDBY or ELSEWHERE. `name`: whose, empty where there is one receiver only."""

    name: str
    words: List[str]

    @property
    def knows(self) -> bool:
        """Whether the standby is there, and not only was."""
        return self.words[0] != ELSEWHERE and ELSEWHERE not in self.words[1:]

    @property
    def rank(self) -> int:
        said = self._said(RANK)
        return int(said) if said.isdigit() else 0

    @property
    def has_all_of(self) -> str:
        return self._said(HAS_ALL_OF)

    def _said(self, what: str) -> str:
        return next((word[len(what) :] for word in self.words[1:] if word.startswith(what)), "")


def ask_one(
    settings: Settings, run: Run, name: str, question: str, timeout: float, control: str = OWN_CONNECTION
) -> Optional[Answer]:  # fmt: skip
    """None when it does not answer, or nothing that can be understood. `control`: an option of ssh."""
    host = f"receiver-{name}" if name else "receiver"
    try:
        words = run(["ssh", "-F", settings.ssh_config, "-o", control, host, question], timeout).split()
    except ProgramError:
        return None
    return Answer(name, words) if words and words[0] in (PRIMARY, STANDBY, ELSEWHERE) else None


def newest(answers: Sequence[Answer]) -> Optional[Answer]:
    """The one that counts: of those that know, that of the greatest rank. Else one that serves elsewhere by now."""
    known = [answer for answer in answers if answer.knows]
    if known:
        return max(known, key=lambda answer: answer.rank)
    return next((answer for answer in answers if answer.words[0] == STANDBY), None)


def find_receiver(settings: Settings, run: Run, now: Callable[[], float] = time.time) -> Optional[str]:
    """Asks all of them, and has the sync go to the one that is to have the files; None while none is.

    With one receiver only nothing is asked.
    """
    _forget_who_left(settings, now)
    to = current(settings.run_dir, settings.receivers)
    if to is None:
        return None
    asked = [ask_one(settings, run, name, QUESTION, ANSWER_SECONDS) for name in settings.receivers]
    found = newest([answer for answer in asked if answer is not None])
    if found is None or found.words[0] != PRIMARY:
        return None
    if found.name != to.name:
        _switch(settings, found, now())
    elif _led_to(settings) not in (None, _lines(settings, to.name)):
        # The plan has another address or port for it: ssh would go by the copied lines until the next boot.
        _lead_to(settings, to.name, to.has_all_of)
    return found.name


def until_found(
    settings: Settings, run: Run, say: Callable[[str], None], sleep: Callable[[float], None] = time.sleep
) -> None:  # fmt: skip
    """After a session that failed: the standby may be elsewhere by now."""
    before = current(settings.run_dir, settings.receivers)
    marks, tries = Marks(settings.run_dir), 0
    while before is not None:
        marks.take_lost()
        name = find_receiver(settings, run)
        if name is not None:
            say(f"the standby waits on {name}" + ("" if name == before.name else f"; it was on {before.name}"))
            return
        sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
        tries += 1


def _switch(settings: Settings, to: Answer, at: float) -> None:
    """A reconcile that goes on meanwhile takes no mark that is made after it has begun."""
    marks = Marks(settings.run_dir)
    marks.make_due()
    _lead_to(settings, to.name, to.has_all_of)
    marks.make_due()
    _vouch_for_no_other(settings, at)


def _forget_who_left(settings: Settings, now: Callable[[], float]) -> None:
    """One that has left the plan takes no files, but ssh would go there: its lines come before all others."""
    named = written(settings.run_dir)
    if named is None or named.name in settings.receivers:
        return
    marks = Marks(settings.run_dir)
    marks.make_due()
    os.unlink(os.path.join(settings.run_dir, CURRENT))
    marks.make_due()
    _vouch_for_no_other(settings, now())


def _vouch_for_no_other(settings: Settings, at: float) -> None:
    """The one that is sent to now would believe what was sent to another one."""
    before = read_json(os.path.join(settings.state_dir, HEARTBEAT_NAME))
    to = current(settings.run_dir, settings.receivers)
    if to and before and still_vouched(1.0, sent_to(before, settings.receivers), to, NEVER) == NEVER:
        stamp(settings.state_dir, at, NEVER, receiver=to.name, knows=settings.receivers)


def _lead_to(settings: Settings, name: str, has_all_of: str) -> None:
    path = os.path.join(settings.run_dir, CURRENT)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(f"{COMMENT}{name} {has_all_of}".rstrip() + "\n" + "\n".join(_lines(settings, name)) + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def _led_to(settings: Settings) -> Optional[List[str]]:
    """The lines that lead there now; None without such a file."""
    try:
        with open(os.path.join(settings.run_dir, CURRENT), encoding="utf-8") as file:
            return file.read().splitlines()[1:]
    except OSError:
        return None


def _lines(settings: Settings, name: str) -> List[str]:
    """Those of its own host, for the one that everything is sent to."""
    with open(settings.ssh_config, encoding="utf-8") as file:
        lines = file.read().splitlines()
    begin = lines.index(f"Host receiver-{name}") + 1
    end = next((n for n in range(begin, len(lines)) if lines[n].startswith("Host ")), len(lines))
    return ["Host receiver", *lines[begin:end]]
