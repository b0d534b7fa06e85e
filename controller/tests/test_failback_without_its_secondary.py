"""A failback whose secondary is lost once the VM has everything: the operator's word has the VM serve."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulated.observed import Observed
from vcrecovery.cli.standby import serve_from_the_primary
from vcrecovery.core.episode import Outcome
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import Side
from vcrecovery.drivers.lxd.instances import STOPPED
from vcrecovery.errors import RefusedError, UsageError, VCRecoveryError
from vcrecovery.standby.container import ACTIVE, ROLE_KEY, STANDBY


def lost(folder: Path, when: str = "ended last copy", **world: object) -> Observed:
    """Its secondary loses its power in the middle of a failback."""
    site = Observed(folder, world={"autostart": True, **world})
    site.watch(1)
    site.crash("web")
    site.watch(3)
    site.then[when] = [lambda: site.world.machine_ends("sec1")]
    site.failback()
    return site


def has_the_vm_serve(site: Observed) -> None:
    """As the operator does it, by hand: its services, and DNS."""
    web = site.world.services["web"]
    # No receiver takes them: first its machine is off, then its container has served.
    web.syncs = False
    web.superseded = False
    site.point_back("web")


def is_refused(site: Observed, text: str, word: str | None = "sec1") -> None:
    with pytest.raises(VCRecoveryError) as refused:
        site.by_hand(lambda env: serve_from_the_primary(env, "web", word))
    assert text in str(refused.value)
    assert isinstance(refused.value, RefusedError | UsageError)
    state = site.journal.state("web")
    assert (state.side, state.open_episode is not None) == (Side.STANDBY, True)


def test_each_message_has_the_way_out(memory_path: Path) -> None:
    site = lost(memory_path)
    typed = "`vcrecovery standby reset web --secondary-is-down sec1`"
    assert typed in site.log[-1]
    site.failback()
    assert typed in site.log[-1]
    site.failover()
    assert typed in site.log[-1]
    site.failover(force=True)
    assert typed in site.log[-1]
    is_refused(site, "add `--secondary-is-down sec1`", word=None)


def test_the_vm_serves_by_the_operators_word(memory_path: Path) -> None:
    """When its secondary is back the container stays off, and stands by again by the same verb."""
    site = lost(memory_path)
    web = site.world.services["web"]
    has_the_vm_serve(site)
    site.reset("web", "sec1")
    state = site.journal.state("web")
    assert (state.side, state.open_episode) == (Side.PRIMARY, None), site.log
    newest = site.journal.history("web")[0]
    assert (newest.outcome, newest.reason) == (Outcome.GIVEN_UP, "its primary serves again")
    assert "unprotected" in site.log[-1]
    assert "`vcrecovery standby reset web`" in site.log[-1]
    site.watch(30)
    assert web.open_ports
    site.world.machine_is_back("sec1")
    site.watch(30)
    assert (web.container.status, web.container.config[ROLE_KEY], web.starts) == (STOPPED, ACTIVE, 1), site.log
    site.reset("web")
    web.syncs = True
    assert "its standby waits on sec1 again" in site.log[-1]
    assert web.container.config[ROLE_KEY] == STANDBY
    site.reset("web")
    assert "nothing to do: its primary serves" in site.log[-1]
    site.acknowledge("web")
    site.watch(30)
    site.crash("web")
    site.watch(5)
    assert web.serves, site.log
    assert site.scheduler.broken is None


def test_what_has_come_back_does_not_start_before_it_has_the_vms_files(memory_path: Path) -> None:
    """What it has is of before the failback: neither the watcher nor a failover has it serve that."""
    site = lost(memory_path)
    web = site.world.services["web"]
    has_the_vm_serve(site)
    site.reset("web", "sec1")
    site.acknowledge("web")
    site.watch(120)
    site.world.machine_is_back("sec1")
    site.watch(30)
    site.crash("web")
    site.watch(60)
    assert (web.serves, web.starts) == (False, 1), site.log
    assert "its container holds what it had when sec1 was lost" in site.journal.history("web")[0].reason
    assert site.scheduler.broken is None


def test_nobody_takes_the_word_for_a_secondary_that_answers(memory_path: Path) -> None:
    site = lost(memory_path)
    has_the_vm_serve(site)
    site.world.machine_is_back("sec1")
    is_refused(site, "you say that secondary sec1 is down, but its LXD answers")
    site.failback()
    assert site.journal.state("web").side is Side.PRIMARY


def test_nobody_takes_the_word_before_the_vm_has_everything(memory_path: Path) -> None:
    """What the standby has written would be lost."""
    site = lost(memory_path, "ended stop")
    has_the_vm_serve(site)
    is_refused(site, "--secondary-is-down is for a failback whose VM has everything")
    is_refused(site, "`vcrecovery failback web` brings it to its end", word=None)


def test_the_word_names_its_secondary_and_the_vm_answers(memory_path: Path) -> None:
    site = lost(memory_path)
    is_refused(site, "--secondary-is-down sec2 is not where web served", word="sec2")
    is_refused(site, "the VM of web does not answer")
    site.world.services["web"].superseded = False
    is_refused(site, "does not point at the primary")


def test_one_that_was_rebuilt_has_no_container(memory_path: Path) -> None:
    site = lost(memory_path)
    has_the_vm_serve(site)
    site.world.machine_is_back("sec1")
    web = site.world.services["web"]
    web.is_there = False
    site.reset("web", "sec1")
    assert site.journal.state("web").side is Side.PRIMARY
    assert web.power is Power.RUNNING
