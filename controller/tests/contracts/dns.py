"""One zone: what is read, the compare-and-swap of a switch, and what it refuses."""

from __future__ import annotations

from typing import Protocol

import pytest

from contracts.cases import Cases, Waits, refusal
from vcrecovery.drivers import dns as driver
from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.dns import Change, Prepared, Reading, Zone
from vcrecovery.errors import RefusedError

#: Seconds for a switch to be everywhere, and for one that does not come.
PATIENCE, SHORT = 30.0, 0.3
ELSEWHERE = "192.0.2.99"
TTL = 77


class NameServers(Waits, Protocol):
    """ns1, which takes the updates, and ns2, which follows it. `name` points at `primary`, and was never switched."""

    @property
    def zone(self) -> Zone: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def name(self) -> str: ...

    @property
    def primary(self) -> str: ...

    @property
    def standby(self) -> str: ...

    def others_write(self, kind: str, *values: str) -> None:
        """Somebody else gives the name these values, and no others, of that type; with a CNAME, of no other type."""

    def others_switch(self, epoch: int, address: str) -> None:
        """Another controller does."""

    def with_another_key(self) -> Zone:
        """The same zone, with a secret that its servers do not know."""

    def hang(self) -> None:
        """ns1 takes connections, and does not answer."""

    def go_on(self) -> None: ...

    def end(self) -> None:
        """ns1 does."""

    def begin(self) -> None: ...

    def end_second(self) -> None:
        """ns2 does."""


case = Cases[NameServers]()


def read(on: NameServers) -> Reading:
    return on.zone.read(on.zone.servers[0], on.name, ["A"])


def prepare(on: NameServers, epoch: int, *, back: bool = False) -> Prepared:
    old, new = (on.standby, on.primary) if back else (on.primary, on.standby)
    return on.zone.prepare(on.name, [Change("A", old, new, TTL)], epoch)


def holds(on: NameServers, address: str, epoch: int) -> None:
    found = read(on)
    assert (found.all_values, found.epoch, found.alias) == ([address], epoch, "")
    assert found.marker == ((f'"epoch={epoch}"',) if epoch else ())


@case
def a_name_that_nobody_has_switched(on: NameServers) -> None:
    holds(on, on.primary, 0)
    assert on.zone.wait_until_everywhere(on.name, {"A": on.primary}, PATIENCE) == ["ns1", "ns2"]


@case
def a_switch(on: NameServers) -> None:
    prepared = prepare(on, 1)
    # Nothing is changed by that.
    assert prepared.before == read(on)
    holds(on, on.primary, 0)
    on.zone.commit(prepared)
    holds(on, on.standby, 1)
    assert read(on).ttl == {"A": TTL}
    assert on.zone.wait_until_everywhere(on.name, {"A": on.standby}, PATIENCE) == ["ns1", "ns2"]


@case
def a_switch_that_is_repeated(on: NameServers) -> None:
    on.zone.commit(prepare(on, 1))
    again = prepare(on, 1)
    assert again.update is None
    on.zone.commit(again)
    holds(on, on.standby, 1)


@case
def a_switch_and_the_way_back(on: NameServers) -> None:
    on.zone.commit(prepare(on, 1))
    on.zone.commit(prepare(on, 2, back=True))
    holds(on, on.primary, 2)
    # The address is right, and the epoch is a new one.
    on.zone.commit(prepare(on, 3, back=True))
    holds(on, on.primary, 3)


def is_refused(on: NameServers, prepared: Prepared) -> None:
    error = refusal(lambda: on.zone.commit(prepared))
    assert error.message == f"{on.name} was just changed by another client"
    assert error.hint == "run it again"


@case
def the_same_update_sent_twice(on: NameServers) -> None:
    """As when the answer to the first was lost."""
    prepared = prepare(on, 1)
    on.zone.commit(prepared)
    is_refused(on, prepared)
    holds(on, on.standby, 1)


@case
def somebody_changes_the_name_meanwhile(on: NameServers) -> None:
    prepared = prepare(on, 1)
    on.others_write("A", ELSEWHERE)
    is_refused(on, prepared)
    holds(on, ELSEWHERE, 0)


@case
def somebody_adds_an_address_meanwhile(on: NameServers) -> None:
    prepared = prepare(on, 1)
    on.others_write("A", on.primary, ELSEWHERE)
    is_refused(on, prepared)
    assert read(on).values == {"A": {on.primary, ELSEWHERE}}


@case
def somebody_removes_the_name_meanwhile(on: NameServers) -> None:
    prepared = prepare(on, 1)
    on.others_write("A")
    is_refused(on, prepared)
    assert read(on).values == {"A": set()}


@case
def another_controller_switches_meanwhile(on: NameServers) -> None:
    prepared = prepare(on, 1)
    on.others_switch(2, on.standby)
    is_refused(on, prepared)
    holds(on, on.standby, 2)


@case
def another_controller_marks_the_name_meanwhile(on: NameServers) -> None:
    """The address is what it was."""
    prepared = prepare(on, 1)
    on.others_switch(2, on.primary)
    is_refused(on, prepared)
    holds(on, on.primary, 2)


@case
def somebody_gives_it_an_address_meanwhile(on: NameServers) -> None:
    on.others_write("A")
    prepared = prepare(on, 1)
    on.others_write("A", ELSEWHERE)
    is_refused(on, prepared)
    holds(on, ELSEWHERE, 0)


@case
def an_epoch_that_is_over(on: NameServers) -> None:
    on.others_switch(5, on.standby)
    with pytest.raises(RefusedError) as caught:
        prepare(on, 4)
    assert caught.value.message == f"{on.name} belongs to epoch 5 by now; this controller is at 4"
    holds(on, on.standby, 5)


@case
def an_address_that_the_plan_does_not_know(on: NameServers) -> None:
    on.others_write("A", ELSEWHERE)
    with pytest.raises(RefusedError) as caught:
        prepare(on, 1)
    assert caught.value.message == f"{on.name} points at {ELSEWHERE}, which the plan does not know"


@case
def an_alias_that_the_plan_does_not_know(on: NameServers) -> None:
    on.others_write("CNAME", "elsewhere.invalid.")
    assert (read(on).all_values, read(on).alias) == ([], "elsewhere.invalid.")
    with pytest.raises(RefusedError) as caught:
        prepare(on, 1)
    assert caught.value.message == f"{on.name} is an alias of elsewhere.invalid., which the plan does not know"


@case
def an_alias_that_comes_meanwhile(on: NameServers) -> None:
    prepared = prepare(on, 1)
    on.others_write("CNAME", "elsewhere.invalid.")
    is_refused(on, prepared)
    assert read(on).alias == "elsewhere.invalid."


@case
def a_name_that_has_no_address(on: NameServers) -> None:
    on.others_write("A")
    on.zone.commit(prepare(on, 1))
    holds(on, on.standby, 1)


@case
def a_key_that_is_tried(on: NameServers) -> None:
    """By updates that change nothing."""
    on.zone.check_key({on.name: ["A"]})
    holds(on, on.primary, 0)
    on.zone.commit(prepare(on, 1))
    on.zone.check_key({on.name: ["A"]})
    holds(on, on.standby, 1)


@case
def a_key_that_is_wrong(on: NameServers) -> None:
    zone = on.with_another_key()
    prepared = zone.prepare(on.name, [Change("A", on.primary, on.standby, TTL)], 1)
    for call in (lambda: zone.commit(prepared), lambda: zone.check_key({on.name: ["A"]})):
        error = refusal(call)
        server = zone.servers[0]
        assert error.message.startswith(f"DNS server {server} rejects TSIG key ")
        assert error.message.endswith(" (hmac-sha256)")
        assert error.hint.startswith("make ")
        same = "the server's key the same (if they are: restart BIND there, or run keys_rotate.yml again)"
        assert error.hint.endswith(f" and {same}, then run it again")
    holds(on, on.primary, 0)


def nothing_goes(on: NameServers, prepared: Prepared, reason: str) -> None:
    server = on.zone.servers[0]
    for call, hint in (
        (lambda: read(on), f"try `dig @{server.address} -p {server.port} {on.zone.name} SOA`"),
        (lambda: prepare(on, 2), f"try `dig @{server.address} -p {server.port} {on.zone.name} SOA`"),
        (lambda: on.zone.commit(prepared), "run it again"),
    ):
        error = refusal(call)
        assert error.message == f"DNS server {server} does not answer: {reason}"
        assert error.hint == f"see that it runs, and {hint}"


@case
def a_server_that_has_ended(on: NameServers) -> None:
    prepared, began = prepare(on, 1), on.clock.steady()
    on.end()
    nothing_goes(on, prepared, "[Errno 111] Connection refused")
    assert on.clock.steady() - began < driver.QUERY_TIMEOUT
    on.begin()
    on.zone.commit(prepared)
    holds(on, on.standby, 1)


@case
def a_server_that_hangs(on: NameServers) -> None:
    prepared, began = prepare(on, 1), on.clock.steady()
    on.hang()
    nothing_goes(on, prepared, "The DNS operation timed out.")
    assert on.clock.steady() - began >= 3 * 0.9 * driver.QUERY_TIMEOUT
    on.go_on()


@case
def a_second_server_that_has_ended(on: NameServers) -> None:
    on.end_second()
    on.zone.commit(prepare(on, 1))
    error = refusal(lambda: on.zone.wait_until_everywhere(on.name, {"A": on.standby}, SHORT))
    second = on.zone.servers[1]
    refused = f"DNS server {second} does not answer: [Errno 111] Connection refused: it may lack {on.name}"
    assert error.message == f"{refused} (ns1 has it)"


@case
def servers_that_hold_something_else(on: NameServers) -> None:
    error = refusal(lambda: on.zone.wait_until_everywhere(on.name, {"A": on.standby}, SHORT))
    said = [f"DNS server {server} still gives {on.primary} for {on.name}" for server in on.zone.servers]
    assert error.message == "; ".join(said)
