"""The way of VCRecovery: containers in one secondary VM, failed over by the command that an operator calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from vcrecovery.core.episode import Episode, Step
from vcrecovery.drivers.lxd.instances import STOPPED
from vcrecovery.plan.modes import Mode
from vcrecovery.store.journal import Journal
from vcrecovery_lab import libvirt, machine
from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.run import LabError, run
from vcrecovery_lab.secondary_vm.site import GROUP, Site, uuid_of, virtual_machine

from .answers import Watch, at
from .boots import Boot, read_boot
from .rounds import Took

PROGRAM = CHECKOUT / ".venv/bin/vcrecovery"
PATIENCE = 900.0


@dataclass(frozen=True)
class Recovery:
    """From the command's start: until all services answer, until it has ended too; and what it took for each.

    `steps`: step -> its longest time among the services, if the command did well. `boots`: of those that were booted.
    """

    answered: Took
    ended: Took
    steps: Mapping[str, float]
    boots: Mapping[str, Boot]


def recover(site: Site, mode: Mode) -> Recovery:
    """One failover of the whole group out of `mode`. The primaries, which do nothing, have been ended before.

    The containers are off again afterwards: they would take the time of whatever is measured next.
    """
    with standing_by(site, mode), blank_primaries(site.services) as blanks:
        for blank in blanks.values():
            libvirt.destroy(blank)
        return _fail_over(site, mode)


@contextmanager
def standing_by(site: Site, mode: Mode) -> Iterator[None]:
    """All standbys wait in `mode`; they are off afterwards."""
    _stand_by(site, mode)
    try:
        yield
    finally:
        stop_standbys(site)


@contextmanager
def blank_primaries(services: Iterable[str]) -> Iterator[dict[str, str]]:
    """Service -> the name of its primary, which runs and does nothing."""
    blanks = {name: f"{virtual_machine(name, 0).name}-blank" for name in services}
    try:
        for name, blank in blanks.items():
            machine.create_blank(blank, uuid_of(name))
        yield blanks
    finally:
        for blank in blanks.values():
            machine.destroy_and_undefine_blank(blank)


def stop_standbys(site: Site) -> None:
    for name in site.services:
        found = site.lxd.get(name)
        assert found is not None  # noqa: S101  the site has made it
        if found.status != STOPPED:
            site.lxd.shut_down(name, 60)


def _stand_by(site: Site, mode: Mode) -> None:
    stop_standbys(site)
    for name in site.services:
        vcrecovery(site, "standby", "reset", name)
    site.stamp()
    for name in site.services:
        vcrecovery(site, "standby", "set", name, mode)
    site.stamp()


def _fail_over(site: Site, mode: Mode) -> Recovery:
    places = {name: (site.standbys[name], port) for name, port in site.services.items()}
    watch = Watch(at(places), PATIENCE)
    failed = _call(site, "failover", "--group", GROUP)
    whole = watch.elapsed()
    answered = watch.took()
    ended = both(answered, Took(None, failed) if failed else Took(whole))
    steps = {}
    if not failed:
        episodes = [newest_of(site, name) for name in site.services]
        steps = {str(step): max(seconds_of(episode, step) for episode in episodes) for step in Step}
    boots = {}
    if mode is Mode.COLD:
        for name, seconds in watch.seconds.items():
            boots[name] = read_boot(partial(_inside, site, name), site.services[name], seconds)
    return Recovery(answered, ended, steps, boots)


def both(answered: Took, command: Took) -> Took:
    """The later of the two; the command has looked at every port, for `stable_for`."""
    if answered.seconds is None or command.seconds is None:
        return Took(None, "; ".join(word for word in (answered.missing, command.missing) if word))
    return Took(max(answered.seconds, command.seconds))


def newest_of(site: Site, service: str) -> Episode:
    return Journal(site.folder / "state/journal.db").history(service, 1)[0]


def seconds_of(episode: Episode, step: Step) -> float:
    done = episode.done(step)
    return 0.0 if done is None or done.ended_at is None else done.ended_at - done.begun_at


def _inside(site: Site, name: str, command: str) -> str:
    return site.lxd.ask(name, ["sh", "-c", command], PATIENCE)[1]


def vcrecovery(site: Site, *words: str) -> None:
    failed = _call(site, *words)
    if failed:
        raise LabError(failed)


def _call(site: Site, *words: str) -> str:
    """Why it failed; empty when it did not."""
    done = run([PROGRAM, *words, "--plan", site.plan], timeout=PATIENCE, check=False)
    if not done.returncode:
        return ""
    said = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["it printed nothing"]
    return f"vcrecovery {' '.join(words)}: {said[-1]}"
