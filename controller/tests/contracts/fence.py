"""The fence command of a hypervisor."""

from __future__ import annotations

from typing import Protocol

from contracts.cases import Cases, refusal
from vcrecovery.drivers.clock import Clock

#: Seconds for a command that ends, and for one that does not.
PATIENCE, SHORT = 20.0, 0.5


class Bmc(Protocol):
    """What powers off hypervisor hv1, by a command named power-off. At first it does its work."""

    @property
    def clock(self) -> Clock: ...

    def power_off(self, timeout: float) -> str: ...

    def fail(self) -> None:
        """The command ends with status 1; the last line of its errors is "no route to the BMC"."""

    def hang(self) -> None: ...

    def be_killed(self) -> None:
        """Somebody kills the command."""

    def is_off(self) -> bool:
        """Whether the hypervisor is."""


case = Cases[Bmc]()
NOT_FENCED = "hypervisor hv1 was not fenced: "
HINT = "see that it works, or power hv1 off by hand and say so: `vcrecovery failover SERVICE --primary-is-down SERVICE`"


@case
def a_command_that_works(on: Bmc) -> None:
    assert on.power_off(PATIENCE) == "Chassis Power is off"
    assert on.is_off()


@case
def a_command_that_is_repeated(on: Bmc) -> None:
    for _ in range(2):
        assert on.power_off(PATIENCE) == "Chassis Power is off"
    assert on.is_off()


@case
def a_command_that_fails(on: Bmc) -> None:
    on.fail()
    error = refusal(lambda: on.power_off(PATIENCE))
    assert error.message == NOT_FENCED + "power-off failed with status 1: no route to the BMC"
    assert error.hint == HINT
    assert not on.is_off()


@case
def a_command_that_hangs(on: Bmc) -> None:
    on.hang()
    began = on.clock.steady()
    error = refusal(lambda: on.power_off(SHORT))
    assert 0.9 * SHORT <= on.clock.steady() - began < PATIENCE
    assert error.message == NOT_FENCED + f"power-off did not finish within {SHORT:g} s"
    assert error.hint == HINT
    assert not on.is_off()


@case
def a_command_that_is_killed(on: Bmc) -> None:
    on.be_killed()
    error = refusal(lambda: on.power_off(PATIENCE))
    assert error.message == NOT_FENCED + "power-off failed with status -9: it printed nothing"
    assert not on.is_off()
