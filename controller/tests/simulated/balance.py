"""A move that the watcher begins by itself, since a secondary is overloaded, in a process of its own."""

from __future__ import annotations

from simulated.scheduler import Process
from simulated.site import Site
from vcrecovery.cli.watch import LogTimeline
from vcrecovery.core.move import BALANCE
from vcrecovery.errors import VCRecoveryError
from vcrecovery.operations.rebalance import carry_out


def begin_balance_move(site: Site, to: str) -> Process:
    """Of web; what stands in its way is logged."""
    process, env = site.process("balance")

    def work() -> None:
        try:
            carry_out(env, "web", to, "its secondary is overloaded", BALANCE, LogTimeline())
        except VCRecoveryError as error:
            site.say(f"balance: {type(error).__name__}: {error}")

    site.scheduler.spawn(process, work, "balance")
    return process
