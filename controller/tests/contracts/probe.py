"""The probe of one port."""

from __future__ import annotations

from typing import Protocol

from contracts.cases import Cases
from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.probe import Probes, Result, label_of
from vcrecovery.plan.probes import Port

#: Seconds for a probe that is answered, and for one that is not.
PATIENCE, SHORT = 20.0, 0.25


class Server(Protocol):
    """A primary with one service on it, which answers HTTP at `port`, and nobody at `tcp` is any wiser."""

    @property
    def probes(self) -> Probes: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def address(self) -> str: ...

    @property
    def tcp(self) -> Port:
        """Asks for a connection."""

    @property
    def http(self) -> Port:
        """Asks the same port for a page."""

    def close(self) -> None:
        """The service ends, and its machine lives."""

    def go_away(self) -> None:
        """The machine is gone: nobody refuses a connection either."""

    def answer_wrongly(self) -> None:
        """From now on with status 503."""


case = Cases[Server]()


@case
def an_open_port(on: Server) -> None:
    for port in (on.tcp, on.http):
        label = label_of(on.address, port)
        assert on.probes.ask(on.address, port, PATIENCE) == Result(label, "", reached=True)
        assert on.probes.answering(on.address, [port], PATIENCE) == [label]
        assert on.probes.alive(on.address, [port], PATIENCE) == [label]
        assert [r.label for r in on.probes.ask_patiently([(on.address, port)], PATIENCE) if r.ok] == [label]


@case
def a_closed_port(on: Server) -> None:
    on.close()
    began = on.clock.steady()
    for port in (on.tcp, on.http):
        label = label_of(on.address, port)
        assert on.probes.ask(on.address, port, PATIENCE) == Result(
            label, "connection refused", reached=False, refused=True
        )
        assert on.probes.answering(on.address, [port], PATIENCE) == []
        assert on.probes.alive(on.address, [port], PATIENCE) == []
        assert [r.label for r in on.probes.ask_patiently([(on.address, port)], PATIENCE) if not r.ok] == [label]
    # It is refused at once.
    assert on.clock.steady() - began < PATIENCE


@case
def a_silent_machine(on: Server) -> None:
    on.go_away()
    for port in (on.tcp, on.http):
        label, began = label_of(on.address, port), on.clock.steady()
        found = on.probes.ask(on.address, port, SHORT)
        assert found == Result(label, f"no answer within {SHORT:g} s", reached=False)
        assert on.clock.steady() - began >= 0.9 * SHORT
        assert on.probes.alive(on.address, [port], SHORT) == []


@case
def a_wrong_answer(on: Server) -> None:
    on.answer_wrongly()
    label = label_of(on.address, on.http)
    said = Result(label, "status 503, not 200 to 399", reached=True)
    assert on.probes.ask(on.address, on.http, PATIENCE) == said
    assert on.probes.answering(on.address, [on.http], PATIENCE) == []
    # Something lives there.
    assert on.probes.alive(on.address, [on.http], PATIENCE) == [label]
    assert on.probes.ask(on.address, on.tcp, PATIENCE).ok


@case
def ports_that_are_waited_for(on: Server) -> None:
    targets = [(on.address, on.tcp), (on.address, on.http)]
    assert all(result.ok for result in on.probes.wait_for_all(targets, PATIENCE, 0.1))
    on.close()
    said = on.probes.wait_for_all(targets, SHORT, 0.1)
    assert [result.reason for result in said] == ["connection refused"] * 2
