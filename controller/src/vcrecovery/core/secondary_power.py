"""A secondary that is off until a failover needs it: when it is powered on and off, and who has its disk. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from vcrecovery.core.power import ASKED, OFF, Power
from vcrecovery.core.sentences import listed
from vcrecovery.core.text import span


class PowerAct(StrEnum):
    """What is to be done with it. MOUNT: the disk with its standbys, on its hypervisor, where files arrive then."""

    POWER_ON = "power on"
    POWER_OFF = "power off"
    MOUNT = "mount"


@dataclass(frozen=True)
class SeenSecondary:
    """`saved`: its memory is on its hypervisor's disk. `mounted`: its disk is, and takes files.

    `serving`: services whose standby is to serve there. `at_work`: those with an operation that is not finished.
    `kept_on`: somebody wants it to stay on. `asked_off`: a controller has asked it to shut down, since it booted last.
    """

    name: str
    power: Power
    reason: str = ""
    detail: str = ""
    saved: bool = False
    mounted: bool = False
    serving: tuple[str, ...] = ()
    at_work: tuple[str, ...] = ()
    kept_on: bool = False
    asked_off: bool = False

    @property
    def needed(self) -> str:
        """Why it has to stay on; empty while nothing needs it."""
        if self.serving:
            return f"{listed(self.serving)} {'serves' if len(self.serving) == 1 else 'serve'} there"
        if self.at_work:
            return f"an operation of {listed(self.at_work)} is not finished"
        return "it is kept on by an operator" if self.kept_on else ""


@dataclass(frozen=True)
class PowerDecision:
    """`wrong`: what keeps it from being as it should, for a person; with the way out."""

    sentence: str
    act: PowerAct | None = None
    wrong: bool = False


def decide_power(seen: SeenSecondary, unused_for: float, power_off_after: float) -> PowerDecision:
    """The next thing to do with it. `unused_for`: seconds since it was needed last, as far as is known."""
    if seen.power is Power.RUNNING:
        return _of_one_that_runs(seen, unused_for, power_off_after)
    if seen.power not in OFF:
        said = seen.detail or f"its VM is {seen.power}"
        hint = f"; `virsh resume {seen.name}`" if seen.power is Power.PAUSED else ""
        return PowerDecision(f"{said}{hint}", wrong=True)
    if (trouble := unusable(seen)) is not None:
        return PowerDecision(trouble, wrong=True)
    if seen.serving:
        # One that we have asked to shut down goes down as if by somebody's wish, also when it is needed by then.
        ours = seen.asked_off and seen.reason == "shutdown"
        if seen.reason in ASKED and not ours:
            who = listed(seen.serving)
            said = f"it is to serve {who}, and was ended by somebody ({seen.reason}): left alone"
            return PowerDecision(f"{said}; `vcrecovery secondary on {seen.name}` boots it", wrong=True)
        return PowerDecision(f"it is off, and {seen.needed}: powering it on", PowerAct.POWER_ON)
    if not seen.mounted:
        return PowerDecision("it is off: mounting its disk, so that files arrive", PowerAct.MOUNT)
    return PowerDecision("it is off, and takes files")


def unusable(seen: SeenSecondary) -> str | None:
    """Why the disk of one that is off can neither be mounted nor booted from; None where it can."""
    if not seen.saved:
        return None
    return (
        "its memory was saved, and would go on with its disk as it was then: "
        f"`virsh managedsave-remove {seen.name}` drops that"
    )


def _of_one_that_runs(seen: SeenSecondary, unused_for: float, power_off_after: float) -> PowerDecision:
    if seen.needed:
        return PowerDecision(f"it is on: {seen.needed}")
    left = power_off_after - unused_for
    if left > 0:
        return PowerDecision(f"it is on, and nothing needs it: off in {span(left)}")
    return PowerDecision("it is on, and nothing has needed it: powering it off", PowerAct.POWER_OFF)
