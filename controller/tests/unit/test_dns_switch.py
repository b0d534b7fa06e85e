"""The switch of a name, in real messages: who may make it, what it takes for done, and whom it believes."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path

import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype
import pytest
from name_server import SECRET, ZONE, Records, server, zone
from set_clock import SetClock

from contracts import dns as contract
from lab.waiting import wait_for
from vcrecovery.drivers import dns as driver
from vcrecovery.drivers.clock import Clock, SystemClock
from vcrecovery.drivers.dns import Change, Server, Zone
from vcrecovery.errors import ExternalError, RefusedError

WWW, MARKER, SHOP = "www.example.test", "_vcrecovery.www.example.test", "shop.example.test"
OLD, NEW, ELSEWHERE = "10.10.0.10", "10.20.0.10", "192.0.2.99"
OLD6, NEW6 = "fd00:10::10", "fd00:20::10"
A, AAAA = Change("A", OLD, NEW, 30), Change("AAAA", OLD6, NEW6, 30)
ALIAS = Change("CNAME", "web1.example.test.", "Web2.example.test.", 30)


@pytest.fixture
def records() -> Records:
    """www points at the primary, and was never switched."""
    found = Records()
    found.write(WWW, "A", OLD)
    return found


@pytest.fixture
def at(records: Records) -> Iterator[Server]:
    with server(records) as made:
        yield made


@pytest.fixture
def there(at: Server, tmp_path: Path) -> Zone:
    return zone(tmp_path, at)


def switch(there: Zone, epoch: int, *changes: Change, name: str = WWW) -> None:
    there.commit(there.prepare(name, changes or [A], epoch))


# -- the contract ----------------------------------------------------------------------------------------------


class LoopbackNameServers:
    """As `contracts.dns` wants them. ns2 holds what ns1 does."""

    name, primary, standby = WWW, OLD, NEW

    def __init__(self, records: Records, folder: Path, until: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock: Clock = SystemClock()
        self._records, self._folder, self._until, self._monkeypatch = records, folder, until, monkeypatch
        self._ends: dict[str, AbstractContextManager[Server]] = {}
        self._goes_on = threading.Event()
        self._goes_on.set()
        until.callback(self.go_on)
        self.zone = zone(folder, *(self._begin(name) for name in ("ns1", "ns2")))

    def _begin(self, name: str, port: int = 0) -> Server:
        self._ends[name] = server(self._answer if name == "ns1" else self._records, name, port)
        self._until.callback(self._end, name)
        return self._ends[name].__enter__()

    def _end(self, name: str) -> None:
        if made := self._ends.pop(name, None):
            made.__exit__(None, None, None)

    def _answer(self, query: bytes) -> bytes:
        assert self._goes_on.wait(60)
        return self._records(query)

    def eventually(self, condition: Callable[[], object], what: str) -> None:
        wait_for(condition, what)

    def others_write(self, kind: str, *values: str) -> None:
        if kind == "CNAME":
            self._records.write(WWW, "A")
        self._records.write(WWW, kind, *values)

    def others_switch(self, epoch: int, address: str) -> None:
        self.others_write("A", address)
        self._records.write(MARKER, "TXT", f'"epoch={epoch}"')

    def with_another_key(self) -> Zone:
        (folder := self._folder / "other").mkdir()
        return zone(folder, *self.zone.servers, secret=SECRET.lower())

    def hang(self) -> None:
        # Short for this alone: on a loaded machine an answer can take as long.
        self._monkeypatch.setattr(driver, "QUERY_TIMEOUT", 0.3)
        self._goes_on.clear()

    def go_on(self) -> None:
        self._goes_on.set()

    def end(self) -> None:
        self._end("ns1")

    def begin(self) -> None:
        self._begin("ns1", self.zone.servers[0].port)

    def end_second(self) -> None:
        self._end("ns2")


@contract.case.each
def test_the_contract(
    case: Callable[[contract.NameServers], None], records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as until:
        case(LoopbackNameServers(records, tmp_path, until, monkeypatch))


# -- who may switch it -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("marker", [('"epoch=3"', '"epoch=7"'), ('"epoch=7"', '"epoch=x"', '"Hello"'), ('"epoch=07"',)])
def test_of_several_markers_the_newest_counts(there: Zone, records: Records, marker: tuple[str, ...]) -> None:
    records.write(MARKER, "TXT", *marker)
    before = records.snapshot()
    with pytest.raises(RefusedError) as caught:
        switch(there, 5)
    assert caught.value.message == f"{WWW} belongs to epoch 7 by now; this controller is at 5"
    assert caught.value.hint == "another controller has failed over since: see its `vcrecovery history`"
    assert records.snapshot() == before
    switch(there, 8)
    assert records.snapshot() == {(WWW, "A"): {NEW}, (MARKER, "TXT"): {'"epoch=8"'}}


def test_a_name_that_is_half_switched_is_switched(there: Zone, records: Records) -> None:
    records.write(WWW, "A", NEW)
    records.write(WWW, "AAAA", OLD6)
    records.write(MARKER, "TXT", '"epoch=1"')
    switch(there, 1, A, AAAA)
    assert records.snapshot() == {(WWW, "A"): {NEW}, (WWW, "AAAA"): {NEW6}, (MARKER, "TXT"): {'"epoch=1"'}}


def test_a_name_that_holds_both_addresses_of_the_plan_holds_one(there: Zone, records: Records) -> None:
    records.write(WWW, "A", OLD, NEW)
    switch(there, 1)
    assert records.snapshot()[WWW, "A"] == {NEW}


def test_one_address_of_the_plan_beside_another_is_not_touched(there: Zone, records: Records) -> None:
    records.write(WWW, "A", OLD, ELSEWHERE)
    with pytest.raises(RefusedError) as caught:
        switch(there, 1)
    assert caught.value.message == f"{WWW} points at {OLD}, {ELSEWHERE}, which the plan does not know"
    assert caught.value.hint == f"set it to {OLD} or {NEW} by hand, or correct the plan, then run it again"


def test_a_name_that_another_controller_has_marked_since_is_not_switched(there: Zone, records: Records) -> None:
    """It has failed back meanwhile, so that the address is what it was."""
    records.write(MARKER, "TXT", '"epoch=1"')
    prepared = there.prepare(WWW, [A], 2)
    records.write(MARKER, "TXT", '"epoch=3"')
    with pytest.raises(ExternalError, match=f"{WWW} was just changed by another client"):
        there.commit(prepared)
    assert records.snapshot() == {(WWW, "A"): {OLD}, (MARKER, "TXT"): {'"epoch=3"'}}


def test_records_of_other_types_are_in_nobodys_way(there: Zone, records: Records) -> None:
    records.write(WWW, "A")
    records.write(WWW, "MX", "10 mail.example.test.")
    switch(there, 1)
    assert records.snapshot()[WWW, "A"] == {NEW}
    assert records.snapshot()[WWW, "MX"] == {"10 mail.example.test."}


def test_what_a_switch_writes(there: Zone, records: Records) -> None:
    switch(there, 1)
    assert records.ttl[WWW, "A"] == 30
    # Whoever comes next must not read an epoch that is over from a cache.
    assert records.ttl[MARKER, "TXT"] == driver.MARKER_TTL == 60


# -- aliases ---------------------------------------------------------------------------------------------------


def test_an_alias_is_switched_and_one_that_is_missing_is_made(there: Zone, records: Records) -> None:
    records.write(SHOP, "CNAME", "web1.example.test.")
    switch(there, 1, ALIAS, name=SHOP)
    assert records.snapshot()[SHOP, "CNAME"] == {"Web2.example.test."}
    # In whatever letters its server has it.
    records.write(SHOP, "CNAME", "WEB2.example.test.")
    assert there.prepare(SHOP, [ALIAS], 1).update is None
    records.write(SHOP, "CNAME")
    switch(there, 2, ALIAS, name=SHOP)
    assert records.snapshot()[SHOP, "CNAME"] == {"Web2.example.test."}


def test_an_alias_beside_other_records_is_not_taken_as_made(there: Zone, at: Server, records: Records) -> None:
    """Servers ignore it there, and say that all is well."""
    records.write(SHOP, "A", OLD)
    before = records.snapshot()
    with pytest.raises(ExternalError) as caught:
        switch(there, 1, ALIAS, name=SHOP)
    said = "a wildcard answers for it, or other records stand beside a CNAME"
    assert caught.value.message == f"DNS server {at} does not let {SHOP} be changed: {said}"
    mend = "give the name records of its own, and only those of the plan, then run it again"
    assert caught.value.hint == mend
    assert records.snapshot() == before


def test_what_stands_behind_an_alias_is_another_names(there: Zone, at: Server, records: Records) -> None:
    records.write(SHOP, "CNAME", "WWW.example.test.")
    found = there.read(at, SHOP, ["A"])
    assert (found.all_values, found.ttl, found.alias) == ([], {}, "www.example.test.")
    with pytest.raises(RefusedError) as caught:
        switch(there, 1, name=SHOP)
    assert caught.value.message == f"{SHOP} is an alias of www.example.test., which the plan does not know"
    assert caught.value.hint == "write it into the plan with type CNAME, or remove it, then run it again"
    with pytest.raises(ExternalError, match=f"still gives www.example.test. for {SHOP}"):
        there.wait_until_everywhere(SHOP, {"A": NEW}, 0.0)


def test_an_alias_that_goes_while_the_name_is_read_was_there(there: Zone, records: Records) -> None:
    """The name was looked at in pieces that do not belong together."""
    records.write(SHOP, "CNAME", "elsewhere.invalid.")

    def asked(message: dns.message.Message) -> None:
        if message.question[0].rdtype == dns.rdatatype.AAAA:
            records.write(SHOP, "CNAME")

    records.asked = asked
    with pytest.raises(RefusedError, match=f"{SHOP} is an alias of elsewhere.invalid."):
        switch(there, 1, A, AAAA, name=SHOP)


def test_an_alias_that_comes_to_a_name_without_records_is_not_covered_up(there: Zone, records: Records) -> None:
    """Servers ignore records beside it, and say that all is well."""
    prepared = there.prepare(SHOP, [A], 1)
    records.write(SHOP, "CNAME", "elsewhere.invalid.")
    before = records.snapshot()
    with pytest.raises(ExternalError, match=f"{SHOP} was just changed by another client"):
        there.commit(prepared)
    assert records.snapshot() == before


# -- whom it believes ------------------------------------------------------------------------------------------


def test_no_server_is_asked_to_ask_others(there: Zone, at: Server, records: Records) -> None:
    asked: list[dns.message.Message] = []
    records.asked = asked.append
    there.read(at, WWW, ["A", "AAAA"])
    assert len(asked) == 3
    assert not any(message.flags & dns.flags.RD for message in asked)


def test_what_is_read_without_its_marker_has_no_epoch(there: Zone, at: Server, records: Records) -> None:
    records.write(MARKER, "TXT", '"epoch=7"')
    marked, unmarked = there.read(at, WWW, ["A"]), there.read_unmarked(at, WWW, ["A"])
    assert (marked.epoch, unmarked.epoch) == (7, 0)
    assert replace(marked, epoch=0, marker=()) == unmarked


def test_a_zone_without_a_serial_is_not_served_there(there: Zone, at: Server, records: Records) -> None:
    with pytest.raises(ExternalError) as caught:
        there.serial(at)
    assert caught.value.message == f"DNS server {at} gives no SOA for {ZONE}"
    assert caught.value.hint == f"check that it serves the zone {ZONE}"
    records.write(ZONE, "SOA", "ns1.example.test. admin.example.test. 42 3600 600 86400 60")
    assert there.serial(at) == 42


def test_a_name_that_does_not_exist_holds_nothing(there: Zone, at: Server, records: Records) -> None:
    records.write(WWW, "A")
    records.rcode = dns.rcode.NXDOMAIN
    assert there.read(at, WWW, ["A"]) == driver.Reading({"A": frozenset()}, 0)


@pytest.mark.parametrize(
    ("flags", "rcode", "said"),
    [
        (0, dns.rcode.NOERROR, f"is not authoritative for {MARKER}"),
        (dns.flags.RA, dns.rcode.NXDOMAIN, f"is not authoritative for {MARKER}"),
        (dns.flags.AA, dns.rcode.SERVFAIL, f"answers SERVFAIL for {MARKER}"),
        (dns.flags.AA, dns.rcode.REFUSED, f"answers REFUSED for {MARKER}"),
    ],
)
def test_an_answer_without_authority_says_nothing(
    there: Zone, at: Server, records: Records, flags: int, rcode: dns.rcode.Rcode, said: str
) -> None:
    records.flags, records.rcode = dns.flags.Flag(flags), rcode
    with pytest.raises(ExternalError) as caught:
        there.read(at, WWW, ["A"])
    assert str(caught.value) == f"DNS server {at} {said}; check that it serves the zone {ZONE}"


def test_an_answer_without_a_signature_is_not_believed(
    there: Zone, at: Server, records: Records, tmp_path: Path
) -> None:
    """Who sits between would say that the name is switched, and keep the clients. Nobody else says no, either."""
    records.signs = False
    for rcode in (dns.rcode.NOERROR, dns.rcode.REFUSED):
        records.update_rcode = rcode
        calls: list[Callable[[], None]] = [lambda: switch(there, 1), lambda: there.check_key({WWW: ["A"]})]
        for call in calls:
            with pytest.raises(ExternalError, match=r"unusable answer: .*TSIG") as caught:
                call()
            assert caught.value.message.startswith(f"DNS server {at} ")
            assert caught.value.hint == (
                "see that it runs, and that it is the zone's primary server and has the key in "
                f"{tmp_path}/secret, then run it again"
            )


@pytest.mark.parametrize(
    ("rcode", "said"),
    [
        (dns.rcode.NOTAUTH, f"takes no updates of zone {ZONE}"),
        (dns.rcode.NOTIMP, f"takes no updates of zone {ZONE}"),
        (dns.rcode.REFUSED, f"answers REFUSED to updates of {WWW}"),
        (dns.rcode.SERVFAIL, f"answers SERVFAIL to updates of {WWW}"),
        *(
            (rcode, f"does not let {WWW} be changed: a wildcard answers for it, or other records stand beside a CNAME")
            for rcode in (dns.rcode.NXRRSET, dns.rcode.YXRRSET, dns.rcode.NXDOMAIN, dns.rcode.YXDOMAIN)
        ),
    ],
)
def test_an_update_that_is_refused(
    there: Zone, at: Server, records: Records, rcode: dns.rcode.Rcode, said: str
) -> None:
    records.update_rcode = rcode
    with pytest.raises(ExternalError) as caught:
        switch(there, 1)
    assert caught.value.message == f"DNS server {at} {said}"
    if rcode in (dns.rcode.NOTAUTH, dns.rcode.NOTIMP):
        mend = "name the zone's primary server first in its `servers`, and let its update-policy grant the key"
        assert caught.value.hint == mend


@pytest.mark.parametrize("rcode", [dns.rcode.NXRRSET, dns.rcode.YXRRSET, dns.rcode.NXDOMAIN, dns.rcode.YXDOMAIN])
def test_an_update_that_comes_too_late(there: Zone, records: Records, rcode: dns.rcode.Rcode) -> None:
    prepared = there.prepare(WWW, [A], 1)
    records.update_rcode = rcode
    records.write(WWW, "A", ELSEWHERE)
    with pytest.raises(ExternalError) as caught:
        there.commit(prepared)
    assert str(caught.value) == f"{WWW} was just changed by another client; run it again"


# -- the key ---------------------------------------------------------------------------------------------------


def test_a_server_that_has_not_read_its_file_is_named_as_the_way_out(
    there: Zone, at: Server, records: Records, tmp_path: Path
) -> None:
    """A rotation was cut off before the restart of BIND: the files are the same, and what BIND has in memory is not."""
    following = base64.b64encode(b"n" * 32).decode()
    (tmp_path / "secret.next").write_text(following)
    there.check_key({WWW: ["A"]})
    (tmp_path / "secret").write_text(following)
    with pytest.raises(ExternalError, match="rejects TSIG key key ") as caught:
        there.check_key({WWW: ["A"]})
    assert caught.value.hint == (
        f"make {tmp_path}/secret and the server's key the same (if they are: restart BIND there, or run "
        "keys_rotate.yml again), then run it again"
    )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            dns.rcode.BADTIME,
            "the clocks of DNS server {at} and of this machine differ too much for TSIG; set both by NTP",
        ),
        (dns.rcode.BADKEY, "DNS server {at} rejects TSIG key key (hmac-sha256); make "),
        (dns.rcode.BADSIG, "DNS server {at} rejects TSIG key key (hmac-sha256); make "),
    ],
)
def test_what_the_server_thinks_of_the_signature(
    there: Zone, at: Server, records: Records, error: dns.rcode.Rcode, said: str
) -> None:
    records.tsig_error = error
    with pytest.raises(ExternalError) as caught:
        there.check_key({WWW: ["A"]})
    assert str(caught.value).startswith(said.format(at=at))


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        (None, "the secret of TSIG key key cannot be read: {file}: No such file or directory"),
        ("not base64!", "{file} holds no base64 secret for TSIG key key"),
        ("geheimes Wört".encode(), "{file} holds no base64 secret for TSIG key key"),
        # A base64 decoder that skips what it does not know makes an empty key of each of these.
        ("", "{file} holds no base64 secret for TSIG key key"),
        ("\n", "{file} holds no base64 secret for TSIG key key"),
        ("????", "{file} holds no base64 secret for TSIG key key"),
        ("{% dns_secret %}", "{file} holds no base64 secret for TSIG key key"),
        # And another key of these: what a server is given, and not what it is given for a key.
        (f"secret: {SECRET}", "{file} holds no base64 secret for TSIG key key"),
        (f'key "key" {{ secret "{SECRET}"; }};', "{file} holds no base64 secret for TSIG key key"),
    ],
)
def test_a_secret_that_is_missing_or_garbled(
    there: Zone, records: Records, tmp_path: Path, secret: str | bytes | None, said: str
) -> None:
    file = tmp_path / "secret"
    if secret is None:
        file.unlink()
    else:
        file.write_bytes(secret if isinstance(secret, bytes) else secret.encode())
    before = records.snapshot()
    for call in (lambda: there.prepare(WWW, [A], 1), lambda: there.check_key({WWW: ["A"]})):
        with pytest.raises(ExternalError) as caught:
            call()
        assert caught.value.message == said.format(file=file)
        assert caught.value.hint.startswith("put the server's secret there")
    assert records.snapshot() == before


OTHER = base64.b64encode(b"." * 32).decode()


@pytest.mark.parametrize("written", ["secret.next", "secret"])
def test_while_the_key_is_rotated_a_switch_is_signed_anew(
    there: Zone, records: Records, tmp_path: Path, written: str
) -> None:
    """The server has the next secret already; the file beside the other, or that, has it too by now."""
    (tmp_path / "secret").write_text(OTHER)
    prepared = there.prepare(WWW, [A], 1)
    (tmp_path / written).write_text(SECRET)
    there.commit(prepared)
    assert records.snapshot()[WWW, "A"] == {NEW}


def test_a_server_that_has_neither_secret_is_told_of_once(
    there: Zone, at: Server, records: Records, tmp_path: Path
) -> None:
    before = records.snapshot()
    for file in ("secret", "secret.next"):
        (tmp_path / file).write_text(OTHER)
    with pytest.raises(ExternalError) as caught:
        switch(there, 1)
    assert caught.value.message == f"DNS server {at} rejects TSIG key key (hmac-sha256)"
    assert records.snapshot() == before


@pytest.mark.parametrize("secret", [f"{SECRET}\n", f'"{SECRET}";\n', f"  {SECRET[:20]}\n  {SECRET[20:]}\r\n"])
def test_a_secret_may_stand_in_lines(there: Zone, records: Records, tmp_path: Path, secret: str) -> None:
    (tmp_path / "secret").write_text(secret)
    switch(there, 1)
    assert records.snapshot()[WWW, "A"] == {NEW}


def test_it_signs_as_the_plan_says(at: Server, records: Records, tmp_path: Path) -> None:
    records.algorithm = "hmac-sha512"
    switch(zone(tmp_path, at, algorithm="hmac-sha512"), 1)
    assert records.snapshot()[WWW, "A"] == {NEW}


@pytest.mark.parametrize("lacks", [(WWW, "A"), (WWW, "AAAA"), (MARKER, "TXT")])
def test_a_key_that_may_not_change_all(there: Zone, at: Server, records: Records, lacks: tuple[str, str]) -> None:
    records.granted = {(WWW, "A"), (WWW, "AAAA"), (MARKER, "TXT")}
    there.check_key({WWW: ["A", "AAAA"]})
    records.granted -= {lacks}
    with pytest.raises(ExternalError) as caught:
        there.check_key({WWW: ["A", "AAAA"]})
    assert caught.value.message == f"DNS server {at} answers REFUSED to updates of {WWW}"
    assert (
        caught.value.hint == f"let key key change A and AAAA of {WWW} and TXT of {MARKER} in the zone's update-policy"
    )


def test_a_key_is_tried_without_a_change(there: Zone, records: Records) -> None:
    records.write(SHOP, "CNAME", "web1.example.test.")
    records.write("_sip._tcp.example.test", "SRV", "0 0 5060 web1.example.test.")
    records.write(WWW, "AAAA", OLD6)
    records.write(MARKER, "TXT", '"epoch=4"')
    before, asked = records.snapshot(), list[dns.message.Message]()
    records.asked = asked.append
    there.check_key({WWW: ["A", "AAAA"], SHOP: ["CNAME"], "_sip._tcp.example.test": ["SRV"]})
    there.check_key({})
    assert records.snapshot() == before
    assert [len(message.sections[2]) for message in asked] == [3, 2, 2, 0]


# -- every server ----------------------------------------------------------------------------------------------


def test_servers_that_hold_it_and_one_that_does_not(records: Records, tmp_path: Path) -> None:
    late = Records()
    records.write(WWW, "A", NEW)
    late.write(WWW, "A", OLD)
    with server(records, "ns1") as first, server(late, "ns2") as second, server(records, "ns3") as third:
        there = zone(tmp_path, first, second, third)
        with pytest.raises(ExternalError) as caught:
            there.wait_until_everywhere(WWW, {"A": NEW}, 0.0)
        assert caught.value.message == f"DNS server {second} still gives {OLD} for {WWW} (ns1, ns3 have it)"
        assert caught.value.hint == "check that server and the zone's transfer to it, then run it again"
        late.write(WWW, "A")
        with pytest.raises(ExternalError, match=f"still gives nothing for {WWW}"):
            there.wait_until_everywhere(WWW, {"A": NEW}, 0.0)


class Waited(SetClock):
    """`slept` is called by who waits."""

    slept: Callable[[], None] = staticmethod(lambda: None)

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.slept()


def test_only_those_that_do_not_have_it_are_asked_again(records: Records, tmp_path: Path) -> None:
    late, clock = Records(), Waited()
    asked, asked_late = list[dns.message.Message](), list[dns.message.Message]()
    records.asked, late.asked = asked.append, asked_late.append
    records.write(WWW, "A", NEW)
    late.write(WWW, "A", OLD)
    clock.slept = lambda: late.write(WWW, "A", NEW)
    with server(records, "ns1") as first, server(late, "ns2") as second:
        found = zone(tmp_path, first, second, clock=clock).wait_until_everywhere(WWW, {"A": NEW}, 60.0)
    assert found == ["ns1", "ns2"]
    # Each time for the marker and the address.
    assert (len(asked), len(asked_late)) == (2, 4)


def test_after_the_time_nobody_is_asked_any_more(at: Server, records: Records, tmp_path: Path) -> None:
    asked = list[dns.message.Message]()
    records.asked = asked.append
    with pytest.raises(ExternalError) as caught:
        zone(tmp_path, at, clock=SetClock(0.0)).wait_until_everywhere(WWW, {"A": NEW}, 0.1)
    assert caught.value.message == f"DNS server {at} still gives {OLD} for {WWW}"
    assert len(asked) == 4
