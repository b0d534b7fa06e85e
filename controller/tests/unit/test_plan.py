"""The plan file: what is read, and what is said about what is wrong."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from vcrecovery.plan.commands import missing_commands
from vcrecovery.plan.fields import parse_duration
from vcrecovery.plan.load import load_plan, load_with_warnings
from vcrecovery.plan.names import sides_of
from vcrecovery.plan.problems import PlanError
from vcrecovery.standby.seed import selection_of


def problems(file: Path, *changes: tuple[str, str]) -> list[str]:
    text = file.read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    file.write_text(text)
    with pytest.raises(PlanError) as caught:
        load_plan(file)
    return [str(problem) for problem in caught.value.problems]


def test_a_good_plan(plan_file: Path) -> None:
    service = load_plan(plan_file).services["web"]
    assert [port.tcp for port in service.ports] == [80, 443]
    assert service.max_staleness == 120
    assert service.dns[0].ttl == 30


@pytest.mark.parametrize("key", ["stable_for", "settle"])  # as it was called before
def test_how_long_ports_must_be_stable(plan_file: Path, key: str) -> None:
    plan_file.write_text(
        plan_file.read_text().replace("max_staleness: 2m", f"max_staleness: 2m\n    timeouts: {{{key}: 2s}}", 1)
    )
    assert load_plan(plan_file).services["web"].timeouts.stable_for == 2.0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("secondary: sec1", "secondary: sec2", "services.web.standby.secondary: no secondary is called 'sec2'"),
        ("secondary: sec1", "secondary: sec2", "did you mean sec1?"),
        ("hypervisor: hv1", "hypervisor: hv9", "services.web.primary.hypervisor: no hypervisor is called 'hv9'"),
        ("key: key1}", "key: key2}", "dns.zones.example.test.key: no TSIG key is called 'key2'"),
        ("servers: [ns1]", "servers: [ns2]", "dns.zones.example.test.servers[0]: no DNS server is called 'ns2'"),
        ("servers: [ns1]", "servers: 1", "dns.zones.example.test.servers: input should be a valid list"),
        ("zone: example.test}", "zone: example.org}", "no zone is called 'example.org'"),
        ("name: www.example.test", "name: www.example.org", "www.example.org is not in zone example.test"),
        ("max_staleness: 2m", "max_staleness: soon", "'soon' is no duration; write 90s, 5m, 2h or 200ms"),
        (
            "services:",
            "hooks: {before_start: [{command: []}]}\nservices:",
            "hooks.before_start[0].command: list should",
        ),
        ("services:", "hooks: {after_switch: [{command: [a], gate: true}]}\nservices:", "gate: is no key of the plan"),
        ("services:", "hooks: {on_refused: [{command: [a], timeout: 6m}]}\nservices:", "timeout: is longer than 300 s"),
        ("services:", "notify: [{url_file: ops}]\nservices:", "notify[0].url_file: is no absolute path"),
        ("services:", "notify: [{url_file: /o, about: []}]\nservices:", "notify[0].about: list should have at least"),
        ("services:", "notify: [{url_file: /o, about: [all]}]\nservices:", "notify[0].about[0]: input should be 'fail"),
        ("services:", "notify: [{url_file: /o, services: [wep]}]\nservices:", "did you mean web?"),
        ("services:", "notify: [{url_file: /o}, {url_file: /o}]\nservices:", "notify[1].url_file: /o is given twice"),
        ("services:", "notify: [{url: json://x}]\nservices:", "notify[0].url: is no key of the plan"),
        (
            "max_staleness: 2m",
            "max_stale: 2m",
            "services.web.max_stale: is no key of the plan; did you mean max_staleness?",
        ),
        ("services:", "servces: {}\nservices:", "servces: is no key of the plan; did you mean services?"),
        (
            "services:",
            "notify: [{url_fil: /o}]\nservices:",
            "notify[0].url_fil: is no key of the plan; did you mean url_f",
        ),
        (
            "name: www.example.test,",
            "nme: w, name: www.example.test,",
            "dns[0].nme: is no key of the plan; did you mean n",
        ),
        (
            "ports: [80, {tcp: 443}]",
            "ports: [{http: {prt: 80}}]",
            "ports[0].http.prt: is no key of the plan; did you me",
        ),
        ("max_staleness: 2m", "limits: {memory: 0MB}", "services.web.limits.memory: '0MB' is not more than nothing"),
        (
            "10.20.0.1/24",
            "10.20.0.0/24",
            "secondaries.sec1.network.address: is the network's own address; write the br",
        ),
        ("10.20.0.1/24", "10.20.0.255/24", "secondaries.sec1.network.address: is the network's broadcast address; wr"),
        (
            "max_staleness: 2m",
            "max_staleness: 2m\n    sync: {engine: periodic}",
            "syncs every 1800 s, and max_staleness is 120 s",
        ),
        ("ports: [80, {tcp: 443}]", "ports: [80]\n    sync: {exclude_profile: vm}", "choose one of vm-to-container"),
        ("ports: [80, {tcp: 443}]", "ports: [80]\n    sync: {exclude: [etc]}", "'etc' is not absolute"),
        *(
            (
                "ports: [80, {tcp: 443}]",
                f"ports: [80]\n    sync: {{{paths % written}}}",
                f"services.web.sync.{key}[0]: {said}",
            )
            for paths, key in (
                ("exclude: ['%s']", "exclude"),
                ("consistency: {kind: native, by: x, paths: ['%s']}", "consistency.paths"),
            )
            for written, said in (
                ("/srv//a b", "'/srv//a b' excludes nothing; write '/srv/a b'"),
                ("/srv/./c", "'/srv/./c' excludes nothing; write '/srv/c'"),
                ("/srv/x/../d/", "'/srv/x/../d/' excludes nothing; write '/srv/d'"),
                ("//srv", "'//srv' excludes nothing; write '/srv'"),
                ("/", "'/' is no absolute path below /"),
                ("//", "'//' is no absolute path below /"),
                ("/x/..", "'/x/..' is no absolute path below /"),
            )
        ),
        ("ports: [80, {tcp: 443}]", "ports: [80]\n    sync: {consistency: {kind: hook}}", "kind hook needs hook"),
        ("ports: [80, {tcp: 443}]", "ports: [80]\n    sync: {consistency: {kind: native}}", "kind native needs paths"),
        ("ports: [80, {tcp: 443}]", "ports: [80]\n    sync: {consistency: {kind: snapshot}}", "needs engine: periodic"),
        ("ports: [80, ", "ports: [99999, ", "services.web.ports[0].tcp"),
        ("ports: [80, {tcp: 443}]", "ports: []", "services.web.ports"),
        ("address: 10.20.0.10", "address: 10.30.0.10", "is outside the secondary's network 10.20.0.0/24"),
        ("address: 10.20.0.10", "address: 10.10.0.10", "is the primary's own address"),
        ("uuid: 6f1c2a54-", "uuid: xyz-", "services.web.primary.uuid"),
        ("version: 1", "version: 2", "version"),
        ("max_staleness: 2m", "virtual_ip: {address: x, interface: eth0}", "services.web.virtual_ip.address"),
        (
            "max_staleness: 2m",
            "virtual_ip: {address: 10.0.0.5/24, interface: a b}",
            "services.web.virtual_ip.interface",
        ),
        ("max_staleness: 2m", "virtual_ip: {address: 'fd00::5/64', interface: eth0}", "needs standby.address6"),
        (
            "max_staleness: 2m",
            "virtual_ip: {address: 10.20.0.10/24, interface: eth0}",
            "already belongs to service web",
        ),
        ("address: 10.20.0.10}", "address: 10.20.0.10, address6: 'fd00::1'}", "needs the secondary's network.address6"),
        (
            "ports: [80, {tcp: 443}]",
            "ports: [{tcp: 80, http: {port: 80}}]",
            "ports[0]: needs one of tcp, tls, http and command, and has tcp and http",
        ),
        ("ports: [80, {tcp: 443}]", "ports: [{}]", "ports[0]: needs one of tcp, tls, http and command, and has none"),
        ("ports: [80, {tcp: 443}]", "ports: [{tls: {port: 443}}]", "services.web.ports[0].tls.name: field required"),
        ("ports: [80, {tcp: 443}]", "ports: [{http: {tls: true}}]", "ports[0].http: tls needs host"),
        ("ports: [80, {tcp: 443}]", "ports: [{http: {path: x y}}]", "services.web.ports[0].http.path"),
        ("ports: [80, {tcp: 443}]", "ports: [{command: [check]}]", "ports[0].command: names no {address}"),
        (
            "    max_staleness: 2m",
            "    max_staleness: 2m\n    ports: [81]",
            "services.web.ports: this key is given twice",
        ),
        ("version: 1", "version: [1", "not valid YAML"),
        ("version: 1", "version: 2026-99-99", "line 1: version: not valid YAML: '2026-99-99' is no timestamp"),
        ("version: 1", "version: !!int abc", "version: not valid YAML: 'abc' is no int"),
        ("version: 1", "version: !!bool maybe", "version: not valid YAML: 'maybe' is no bool"),
        ("version: 1", "version: !!timestamp abc", "version: not valid YAML: 'abc' is no timestamp"),
        ("version: 1", "version: !!int ''", "version: not valid YAML: '' is no int"),
        ("version: 1", "version: !mine 1", "version: not valid YAML: '1' is no mine"),
        ("version: 1", f"version: 1{'0' * 5000}", "version: not valid YAML: '1000"),
        ("version: 1", "version: [*x]", "not valid YAML: found undefined alias"),
        ("version: 1", "version: &x [*x]", "not valid YAML: a value stands for itself, by an alias"),
        ("  web:", "  ? [a, b]\n  :", "line 18: services: a key is a word, not a list or a mapping"),
        ("  web:", '  "w\\eb":', "services.w\\x1bb: "),
        ("  web:", "  Web:", "is no name: small letters, digits and dashes, at most 63"),
        ("max_staleness: 2m", "max_staleness: .nan", "nan is not longer than zero"),
        ("max_staleness: 2m", "max_staleness: .inf", "inf is longer than 100 years"),
        ("max_staleness: 2m", "max_staleness: 99999999999d", "is longer than 100 years"),
        ("max_staleness: 2m", f"max_staleness: 1{'0' * 400}", "is longer than 100 years"),
        ("max_staleness: 2m", "<<: {mode: hot}", "services.web.<<: merge keys are not read: write out what it merges"),
        ("uuid: 6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0001", "uuid: 5", "primary.uuid: UUID input should be"),
        ("ports: [80, ", "ports: ['80', ", "ports[0]: a port is its number, or one of {tcp: ...}, {tls: ...}"),
        ("  web:\n", "  mail: shop\n  web:\n", "services.mail: should be a mapping of keys to values"),
        ("name: www.example.test", f"name: {'a.' * 121}example.test", "is no DNS name"),
        ("address: 10.20.0.10", "address: 10.20.0.1", "standby.address: is the address of the network's bridge itself"),
        ("address: 10.20.0.10", "address: 10.20.0.0", "standby.address: is the network's own address"),
        ("address: 10.20.0.10", "address: 10.20.0.255", "standby.address: is the network's broadcast address"),
        ("address: 10.10.0.10", "address: 0.0.0.0", "primary.address: is no address of one machine"),
        ("address: 10.10.0.10", "address: 224.0.0.1", "primary.address: is no address of one machine"),
        ("bridge: vcr0", "bridge: ''", "network.bridge"),
        ("bridge: vcr0", "bridge: a/b", "network.bridge"),
    ],
)
def test_what_is_wrong_is_named(plan_file: Path, old: str, new: str, said: str) -> None:
    assert any(said in problem for problem in problems(plan_file, (old, new)))


@pytest.mark.parametrize("state_dir", ["state", "''", '"/var/a\\0b"'])
def test_the_state_is_in_one_place_wherever_a_verb_is_called(plan_file: Path, state_dir: str) -> None:
    """A controller that looked elsewhere would find no journal, and no lock of the others."""
    plan_file.write_text(re.sub("state_dir: .*", lambda _: f"state_dir: {state_dir}", plan_file.read_text()))
    assert problems(plan_file) == ["line 2: state_dir: is no absolute path; start it with a slash"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"a: {'[' * 1500}{']' * 1500}", "it is nested too deeply"),
        ("a: &a [*a]", "a value stands for itself, by an alias"),
        ("services: &a\n  web: *a\n", "a value stands for itself, by an alias"),
    ],
)
def test_a_plan_that_has_no_end_is_named(plan_file: Path, text: str, said: str) -> None:
    plan_file.write_text(text)
    assert problems(plan_file) == [f"not valid YAML: {said}"]


@pytest.mark.parametrize("deep", ["[", "[{a: ", "- ", "[{? ", "- ? "])
def test_what_is_nested_too_deeply_is_named(plan_file: Path, deep: str) -> None:
    plan_file.write_text(f"version: 1\nx:\n  {deep * 25000}")
    assert problems(plan_file) == ["not valid YAML: it is nested too deeply"]


def test_many_brackets_are_not_deep(plan_file: Path) -> None:
    many = ", ".join("{command: [a]}" for _ in range(1500))
    plan_file.write_text(plan_file.read_text().replace("services:", f"hooks: {{before_start: [{many}]}}\nservices:", 1))
    assert len(load_plan(plan_file).hooks.before_start) == 1500


def test_an_alias_is_what_it_stands_for(plan_file: Path) -> None:
    text = plan_file.read_text()
    plan_file.write_text(text.replace("max_staleness: 2m", "max_staleness: &age 2m\n    timeouts: {dns: *age}"))
    service = load_plan(plan_file).services["web"]
    assert (service.max_staleness, service.timeouts.dns) == (120, 120)


def test_aliases_that_multiply_are_named(plan_file: Path) -> None:
    levels = [f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 10)}]" for n in range(9)]
    plan_file.write_text("\n".join(["a: &a [x, x, x, x, x, x, x, x, x, x]", *levels]))
    assert any("more than 1000000 values" in problem for problem in problems(plan_file))


RECORD = "      - {name: www.example.test, zone: example.test}\n"
SRV = "type: SRV, primary: {target: a.example.test, port: 1}, standby: {target: b.example.test, port: 2}"


@pytest.mark.parametrize(
    ("records", "said"),
    [
        (["name: a.example.test, type: MX"], "dns[0]: type is none of A, AAAA, CNAME and SRV"),
        (
            ["name: a.example.test, type: AAAA"],
            "dns[0]: AAAA needs primary: ADDRESS here, or the service's primary.add",
        ),
        (["name: a.example.test, standby: fd00::1"], "dns[0].standby: "),
        (["name: a.example.test, standby: 10.10.0.10"], "dns[0]: is 10.10.0.10 for the primary and for the standby"),
        (["name: a.example.test, type: CNAME"], "dns[0].primary: field required"),
        (["name: a.example.test, type: CNAME, primary: a b, standby: c"], "dns[0].primary: 'a b' is no DNS name"),
        (
            ["name: example.test, type: CNAME, primary: a.example.test, standby: b.example.test"],
            "dns[0].type: a zone's own name cannot be a CNAME",
        ),
        (
            ["name: a.example.test", "name: a.example.test, type: CNAME, primary: b.x, standby: c.x"],
            "dns[1].name: a.example.test is a CNAME and has other records",
        ),
        (
            ["name: a.example.test", "name: A.example.test."],
            "dns[1].name: a.example.test has a record of type A already",
        ),
        (["name: _vcrecovery.a.example.test"], "dns[0].name: _vcrecovery is the label of the epoch markers"),
        ([f"name: _sip._tcp.example.test, {SRV.replace(', port: 1', '')}"], "dns[0].primary.port: field required"),
        ([f"name: _sip._tcp.example.test, {SRV}, port: 9"], "dns[0].port: is no key of the plan"),
    ],
)
def test_what_is_wrong_with_records_is_named_with_its_line(plan_file: Path, records: list[str], said: str) -> None:
    lines = "".join(f"      - {{{record}, zone: example.test}}\n" for record in records).replace(
        "{5, zone", "{x: 5, zone"
    )
    found = problems(plan_file, (RECORD, lines))
    first = plan_file.read_text().splitlines().index("    dns:") + 2
    assert [problem for problem in found if said in problem], found
    assert all(problem.startswith(f"line {first + len(records) - 1}: services.web.dns[") for problem in found), found


def test_a_record_belongs_to_the_closest_zone(plan_file: Path) -> None:
    zones = "    example.test: {servers: [ns1], key: key1}\n"
    found = problems(
        plan_file,
        (zones, f"{zones}    sub.example.test: {{servers: [ns1], key: key1}}\n"),
        (RECORD, "      - {name: www.sub.example.test, zone: example.test}\n"),
    )
    assert found == [
        "line 24: services.web.dns[0].zone: www.sub.example.test belongs to the plan's zone sub.example.test"
    ]


@pytest.mark.parametrize(("defined", "used"), [("Example.Test", "example.test"), ("example.test", "EXAMPLE.test.")])
def test_the_case_of_a_zone_makes_no_difference(plan_file: Path, defined: str, used: str) -> None:
    text = plan_file.read_text().replace("    example.test: {", f"    {defined}: {{", 1)
    plan_file.write_text(text.replace("zone: example.test", f"zone: {used}", 1))
    plan = load_plan(plan_file)
    assert plan.services["web"].dns[0].zone in plan.dns.zones


def test_one_name_may_have_several_types(plan_file: Path) -> None:
    more = "      - {name: www.example.test, zone: example.test, type: AAAA, primary: fd00::1, standby: fd00:0::2}\n"
    plan_file.write_text(plan_file.read_text().replace(RECORD, RECORD + more))
    service = load_plan(plan_file).services["web"]
    assert [record.type for record in service.dns] == ["A", "AAAA"]
    assert [sides_of(record, service) for record in service.dns] == [
        ("10.10.0.10", "10.20.0.10"),
        ("fd00::1", "fd00::2"),
    ]


def test_commands_that_this_machine_does_not_have_are_named(plan_file: Path) -> None:
    text = plan_file.read_text()
    for old, new in (
        (
            "ports: [80, {tcp: 443}]",
            "ports: [80, {command: [/nowhere/check, '{address}']}, {command: [cat, '{address}']}]",
        ),
        (
            "    max_staleness: 2m",
            "    max_staleness: 2m\n    hooks: {after_switch: [{command: [true]}, {command: [nowhere]}]}",
        ),
        ("services:", "hooks: {before_start: [{command: [/etc/passwd]}]}\nservices:"),
        ("{uri: ", "{fence: {command: [/usr/local/sbin/power-offf, hv1]}, uri: "),
    ):
        assert old in text, old
        text = text.replace(old, new.replace("[true]", "['true']"), 1)
    plan_file.write_text(text)
    assert [line.partition(" that it can run")[0] for line in missing_commands(load_plan(plan_file))] == [
        "hypervisors.hv1.fence.command: this machine has no command /usr/local/sbin/power-offf",
        "hooks.before_start[0].command: this machine has no command /etc/passwd",
        "services.web.ports[1].command: this machine has no command /nowhere/check",
        "services.web.hooks.after_switch[1].command: this machine has no command nowhere",
    ]


def _doubts(file: Path, *changes: tuple[str, str]) -> list[str]:
    text = file.read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    file.write_text(text)
    return [str(warning) for warning in load_with_warnings(file)[1]]


@pytest.mark.parametrize(
    ("staleness", "sync", "said"),
    [
        ("5s", "", "is 5 s, and sync.heartbeat and sync.delay together are 11 s: "),
        ("15m", "heartbeat: 1h", "is 900 s, and sync.heartbeat and sync.delay together are 3601 s: "),
        ("2m", "engine: periodic, reconcile: 1m, heartbeat: 2m", "is 120 s, and sync.heartbeat is 120 s: "),
        ("12s", "", ""),
        ("11s", "heartbeat: 3s, delay: 5s", ""),
    ],
)
def test_a_standby_that_is_too_old_by_design_is_warned_of(
    plan_file: Path, staleness: str, sync: str, said: str
) -> None:
    new = f"    max_staleness: {staleness}\n    sync: {{{sync}}}"
    found = _doubts(plan_file, ("    max_staleness: 2m", new))
    assert [f"services.web.max_staleness: {said}" in line for line in found] == ([True] if said else [])


def test_two_primaries_with_one_address_are_warned_of(plan_file: Path) -> None:
    text = plan_file.read_text()
    other = (
        text[text.index("  web:") :]
        .replace("web:", "mail:")
        .replace("0001", "0002")
        .replace("10.20.0.10", "10.20.0.11")
    )
    plan_file.write_text(text + other.replace("www.", "mail."))
    (found,) = _doubts(plan_file)
    assert "services.mail.primary.address: 10.10.0.10 is that of service web too" in found


@pytest.mark.parametrize(
    ("address", "warned"), [("10.10.0.10/24", True), ("'fd00::a/64'", True), ("10.10.0.50/24", False)]
)
def test_a_virtual_address_that_is_a_vms_own_is_warned_of(plan_file: Path, address: str, warned: bool) -> None:
    text = plan_file.read_text().replace(
        "    max_staleness", f"    virtual_ip: {{address: {address}, interface: eth0}}\n    max_staleness"
    )
    text = text.replace("address: 10.10.0.10}", "address: 10.10.0.10, address6: 'fd00::a'}")
    text = text.replace("address: 10.20.0.10}", "address: 10.20.0.10, address6: 'fd01::a'}")
    plan_file.write_text(text.replace("address: 10.20.0.1/24}", "address: 10.20.0.1/24, address6: 'fd01::1/64'}"))
    found = [line for line in _doubts(plan_file) if "virtual_ip" in line]
    assert len(found) is int(warned)
    assert all("services.web.virtual_ip.address" in line and "is the VM's own" in line for line in found)


def test_a_virtual_address_that_is_another_vms_is_warned_of(plan_file: Path) -> None:
    text = plan_file.read_text()
    other = text[text.index("  web:") :].replace("web:", "mail:").replace("0001", "0002").replace("www.", "mail.")
    other = other.replace("10.20.0.10", "10.20.0.11").replace("10.10.0.10", "10.10.0.11")
    other = other.replace(
        "    max_staleness", "    virtual_ip: {address: 10.10.0.10/24, interface: eth0}\n    max_staleness"
    )
    plan_file.write_text(text + other)
    (found,) = _doubts(plan_file)
    assert "services.mail.virtual_ip.address: 10.10.0.10 is that of the VM of web" in found


def test_what_a_controller_does_not_do_over_https_is_warned_of(plan_file: Path) -> None:
    old, more = "    max_staleness: 2m", "    restore_points: {keep: 2}\n    drill: {every: 7d}"
    assert _doubts(plan_file, (old, f"{old}\n{more}")) == []
    url = "{url: 'https://192.0.2.5:8443', certificate: /c, key: /k, server_certificate: /s}"
    found = _doubts(plan_file, (f"{plan_file.parent}/no-lxd.socket", url))
    assert [line.partition(": services.web.")[2] for line in found] == [
        "restore_points.keep: needs a controller on sec1 itself; over HTTPS none is made",
        "drill.every: needs a controller on sec1 itself; over HTTPS none is made",
    ]


def test_slow_names_and_unseen_ports_are_warned_of(plan_file: Path) -> None:
    records = (
        "      - {name: www.example.test, zone: example.test,\n         ttl: 3600}\n"
        f"      - {{name: _sip._tcp.example.test, zone: example.test, {SRV}}}\n"
    )
    plan_file.write_text(plan_file.read_text().replace(RECORD, records))
    said = [str(warning) for warning in load_with_warnings(plan_file)[1]]
    assert len(said) == 2
    assert said[0].startswith("line 24: services.web.dns[0].ttl: resolvers go on giving the old value for 3600 s")
    assert said[1].startswith("line 25: services.web.dns[1].standby.port: 2 is not among the service's ports")


@pytest.mark.parametrize(
    "record",
    [
        "type: A",
        "type: AAAA, primary: fd00::1, standby: fd00::2",
        "type: CNAME, primary: a.example.test, standby: b.example.test",
        f"{SRV.replace('port: 2', 'port: 80')}",
    ],
)
def test_a_slow_name_of_every_type_is_warned_of(plan_file: Path, record: str) -> None:
    text = plan_file.read_text()
    for ttl, count in ((60, 0), (61, 1)):
        line = f"      - {{name: a.example.test, zone: example.test, ttl: {ttl}, {record}}}\n"
        plan_file.write_text(text.replace(RECORD, line))
        said = [str(warning) for warning in load_with_warnings(plan_file)[1]]
        assert len(said) == count, said
        assert all("dns[0].ttl: resolvers go on giving the old value for 61 s" in warning for warning in said)


AGENTS = """\
snmp:
  users: {relay: {auth_file: /a, privacy_file: /p}}
  poll: 5s
"""


def agent(address: str = "10.10.0.1", port: int = 161) -> str:
    return f"snmp: {{address: {address}, port: {port}, user: relay}}"


def with_agents(file: Path, *agents: str, more: str = "") -> None:
    text = file.read_text().replace('/no-libvirt"}', f'/no-libvirt", {agents[0]}}}', 1)
    others = "".join(f"  other{number}: {{{words}}}\n" for number, words in enumerate(agents[1:], 1))
    file.write_text(text.replace("secondaries:\n", f"{others}secondaries:\n", 1) + AGENTS + more)


@pytest.mark.parametrize("port", [161, 1161])
def test_two_hypervisors_cannot_have_one_snmp_address(plan_file: Path, port: int) -> None:
    with_agents(plan_file, agent(), agent("10.10.0.2"), agent(port=port))
    line = plan_file.read_text().splitlines().index(f"  other2: {{{agent(port=port)}}}") + 1
    (said,) = problems(plan_file)
    assert said.startswith(f"line {line}: hypervisors.other2.snmp.address: 10.10.0.1 is the address of hypervisor hv1")


@pytest.mark.parametrize(
    ("threshold", "place"), [("detection: {host_silent_for: 14s}", "detection.host_silent_for"), ("", "")]
)
def test_one_lost_answer_must_not_make_a_hypervisor_silent(plan_file: Path, threshold: str, place: str) -> None:
    with_agents(plan_file, agent(), more=threshold)
    said = [str(warning) for warning in load_with_warnings(plan_file)[1]]
    assert len(said) == bool(threshold)
    for warning in said:
        assert f"{place}: is 14 s, less than three times snmp.poll; " in warning
        assert "at least 15 s" in warning


def test_a_slow_poll_against_the_default_threshold_is_warned_of_where_it_stands(plan_file: Path) -> None:
    with_agents(plan_file, agent())
    plan_file.write_text(plan_file.read_text().replace("poll: 5s", "poll: 6s"))
    (warning,) = load_with_warnings(plan_file)[1]
    assert warning.key == "snmp.poll"
    assert plan_file.read_text().splitlines()[warning.line - 1] == "  poll: 6s"


@pytest.mark.parametrize("poll", ["2s", "5s"])
def test_libvirt_snmp_is_polled_every_6_s_at_most(plan_file: Path, poll: str) -> None:
    with_agents(plan_file, agent(), agent("10.10.0.2").replace("}", ", agent: libvirt-snmp}"))
    plan_file.write_text(plan_file.read_text().replace("poll: 5s", f"poll: {poll}"))
    (warning,) = load_with_warnings(plan_file)[1]
    assert warning.key == "hypervisors.other1.snmp.agent"
    assert "is asked every 6 s; three times that is more than detection.host_silent_for (15 s)" in warning.message
    plan_file.write_text(plan_file.read_text() + "detection: {host_silent_for: 17s}\n")
    (warning,) = load_with_warnings(plan_file)[1]
    assert warning.key == "detection.host_silent_for"
    assert "less than three times the 6 s between two polls of libvirt-snmp; " in warning.message
    plan_file.write_text(plan_file.read_text().replace("17s", "18s"))
    assert load_with_warnings(plan_file)[1] == []


def test_without_agents_nobody_polls(plan_file: Path) -> None:
    plan_file.write_text(plan_file.read_text() + "detection: {host_silent_for: 2s}\n")
    assert load_with_warnings(plan_file)[1] == []


def test_every_problem_is_said_at_once_with_its_line(plan_file: Path) -> None:
    found = problems(
        plan_file,
        ("secondary: sec1", "secondary: sec2"),
        ("max_staleness: 2m", "max_staleness: soon"),
        ("port: 9", "port: 0"),
    )
    assert len(found) == 3
    lines = plan_file.read_text().splitlines()
    for problem in found:
        number = int(problem.split()[1].rstrip(":"))
        key = problem.split(": ")[1].split(".")[-1]
        assert key in lines[number - 1]


def test_two_services_cannot_share_a_vm_an_address_or_a_name(plan_file: Path) -> None:
    text = plan_file.read_text()
    start = text.index("  web:\n")
    plan_file.write_text(text + text[start:].replace("  web:\n", "  shop:\n", 1))
    found = problems(plan_file)
    assert len(found) == 3
    assert all("already" in problem and "service web" in problem for problem in found)


RELATIVE = "is no absolute path; start it with a slash"
HTTPS = "lxd: {url: 'https://x', certificate: %s, key: %s, server_certificate: %s}"
USER = "snmp: {users: {me: {auth_file: %s, privacy_file: %s}}, traps: {community_file: %s}}\nservices:"
API = "zabbix: {api: {url: 'https://x', token_file: %s, ca_file: %s}}\nservices:"
PAGE = "status_page: {tls: {certificate: %s, key: %s}, token_file: %s}\nservices:"
PROBES = "ports: [{http: {ca_file: %s}}, {tls: {port: 443, name: x, ca_file: %s}}]"


@pytest.mark.parametrize(
    ("old", "new", "keys"),
    [
        ("lxd: .*", "lxd: %s", ["secondaries.sec1.lxd"]),
        ("lxd: .*", HTTPS, [f"secondaries.sec1.lxd.{key}" for key in ("certificate", "key", "server_certificate")]),
        ("secret_file: [^}]*", "secret_file: %s", ["dns.keys.key1.secret_file"]),
        (
            "services:",
            USER,
            ["snmp.users.me.auth_file", "snmp.users.me.privacy_file", "snmp.traps.community_file"],
        ),
        ("services:", API, ["zabbix.api.token_file", "zabbix.api.ca_file"]),
        ("services:", PAGE, ["status_page.tls.certificate", "status_page.tls.key", "status_page.token_file"]),
        ("ports: .*", PROBES, ["services.web.ports[0].http.ca_file", "services.web.ports[1].tls.ca_file"]),
    ],
)
@pytest.mark.parametrize("path", ["secret", "~/secret"])
def test_what_the_watcher_reads_has_an_absolute_path(
    plan_file: Path, path: str, old: str, new: str, keys: list[str]
) -> None:
    text = plan_file.read_text()
    plan_file.write_text(re.sub(old, new.replace("%s", path), text, count=1))
    with pytest.raises(PlanError) as caught:
        load_plan(plan_file)
    assert [(one.key, one.message) for one in caught.value.problems] == [(key, RELATIVE) for key in sorted(keys)]
    plan_file.write_text(re.sub(old, new.replace("%s", f"/{path}"), text, count=1))
    assert load_plan(plan_file)


@pytest.mark.parametrize("path", ["/srv/a b", "/srv/a b/", "/srv/..x"])
def test_a_path_to_exclude_may_end_in_a_slash(plan_file: Path, path: str) -> None:
    sync = f"sync: {{exclude: ['{path}'], consistency: {{kind: native, by: x, paths: ['{path}']}}}}"
    plan_file.write_text(plan_file.read_text().replace("max_staleness: 2m", f"max_staleness: 2m\n    {sync}", 1))
    assert load_plan(plan_file).services["web"].sync.left_out == [path, path]


def test_what_replicates_itself_is_left_out_only_if_the_plan_says_so(plan_file: Path) -> None:
    text = plan_file.read_text()
    left_out = {}
    for kind in ("native", "files"):
        sync = f"{{exclude: [/a], consistency: {{kind: {kind}, paths: [/b], by: somebody}}}}"
        plan_file.write_text(text.replace("max_staleness: 2m", f"max_staleness: 2m\n    sync: {sync}", 1))
        left_out[kind] = selection_of(load_plan(plan_file).services["web"]).paths
    assert left_out == {"native": ("/a", "/b"), "files": ("/a",)}


NO_MAPPING = "line 1: is empty, or no mapping of keys to values"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", [NO_MAPPING]),
        ("just text", [NO_MAPPING]),
        ("- a\n- b\n", [NO_MAPPING]),
        (
            "services: 5\n",
            ["line 1: services: should be a mapping of keys to values", "line 1: version: field required"],
        ),
        ("version: 1\nservices: {web: 5}\n", ["line 2: services.web: should be a mapping of keys to values"]),
    ],
)
def test_nonsense_is_refused(plan_file: Path, content: str, said: list[str]) -> None:
    plan_file.write_text(content)
    assert problems(plan_file) == said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("version: 1", "version: [1", "line 2: not valid YAML: expected ',' or ']', but got ':'"),
        ("  web:", "\tweb:", "line 18: not valid YAML: found character '\\t' that cannot start any token"),
        ("max_staleness: 2m", "max_staleness: 2m: 3", "line 24: not valid YAML: mapping values are not allowed here"),
        ("max_staleness: 2m", 'max_staleness: "2m', "line 25: not valid YAML: found unexpected end of stream"),
        ("version: 1", "version: *x", "line 1: not valid YAML: found undefined alias 'x'"),
        ("max_staleness: 2m", "max_staleness: 2m\0", r"line 24: not valid YAML: '\x00' is no character of YAML"),
        ("max_staleness: 2m", "mode: \x1bhot", r"line 24: not valid YAML: '\x1b' is no character of YAML"),
        # It is one problem, not that the plan has no such key too.
        (
            "max_staleness: 2m",
            "<<: {mode: hot}",
            "line 24: services.web.<<: merge keys are not read: write out what it merges",
        ),
    ],
)
def test_what_is_no_yaml_is_named_with_its_line(plan_file: Path, old: str, new: str, said: str) -> None:
    assert problems(plan_file, (old, new)) == [said]


def test_what_is_no_text_is_named(plan_file: Path) -> None:
    plan_file.write_bytes(b"\xff\xfe")
    with pytest.raises(PlanError) as caught:
        load_plan(plan_file)
    assert str(caught.value).startswith(f"plan {plan_file}: cannot be read: it is not UTF-8 text; see ")


def test_a_plan_of_a_newer_version_is_no_list_of_mistakes(plan_file: Path) -> None:
    text = plan_file.read_text().replace("version: 1", "version: 2").replace("max_staleness", "staleness")
    plan_file.write_text(text)
    with pytest.raises(PlanError) as caught:
        load_plan(plan_file)
    newer = "line 1: version: 2 is newer than what this program reads, which is 1"
    assert str(caught.value) == f"plan {plan_file}: {newer}; {caught.value.remedy}"
    assert "upgrade VCRecovery on this machine" in caught.value.remedy


@pytest.mark.parametrize(
    ("users", "known"),
    [
        ("", "(none is defined)"),
        ("snmp: {users: {vcr: {auth_file: /a, privacy_file: /b}}}\n", "(known: vcr; did you mean vcr?)"),
    ],
)
def test_an_snmp_user_that_does_not_exist_is_named(plan_file: Path, users: str, known: str) -> None:
    plan_file.write_text(plan_file.read_text() + users)
    agent = "hv1: {snmp: {address: 10.0.0.1, user: vcs}, "
    said = f"line 4: hypervisors.hv1.snmp.user: no SNMP user is called 'vcs' {known}"
    assert problems(plan_file, ("hv1: {", agent)) == [said]


def test_an_snmp_user_that_exists_is_no_problem(plan_file: Path) -> None:
    users = "snmp: {users: {vcr: {auth_file: /a, privacy_file: /b}}}\n"
    text = plan_file.read_text().replace("hv1: {", "hv1: {snmp: {address: 10.0.0.1, user: vcr}, ")
    plan_file.write_text(text + users)
    agent = load_plan(plan_file).hypervisors["hv1"].snmp
    assert agent is not None
    assert agent.user == "vcr"


def test_what_is_wrong_in_one_place_is_said_once_and_in_the_order_of_the_lines(plan_file: Path) -> None:
    changes = [
        ("secondary: sec1", "secondary: 2"),
        ("bridge: vcr0", "bridge: a/b"),
        ("hypervisor: hv1", "hypervisor: 3"),
    ]
    found = problems(plan_file, *changes)
    assert len(found) == len(set(found)) >= 3
    numbers = [int(problem.split()[1].rstrip(":")) for problem in found]
    assert numbers == sorted(numbers)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="No such file"):
        load_plan(tmp_path / "none.yml")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("1.5m", 90), ("2h", 7200), (3, 3), ("200ms", 0.2), ("1d", 86400)]
)
def test_durations(text: object, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    ["", "5 parsecs", "-1s", "0s", True, None, [1], math.nan, math.inf, 1e300, "9" * 400 + "d", "99999999999d"],
)
def test_what_is_no_duration(text: object) -> None:
    with pytest.raises(ValueError, match=r"duration|zero|100 years"):
        parse_duration(text)
