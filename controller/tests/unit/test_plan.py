"""The plan file: what is read, and what is said about what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from vcrecovery.plan.fields import parse_duration
from vcrecovery.plan.load import PlanError, load_plan
from vcrecovery.sync.seed import selection_of


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


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("secondary: sec1", "secondary: sec2", "services.web.standby.secondary: no secondary is called 'sec2'"),
        ("secondary: sec1", "secondary: sec2", "did you mean sec1?"),
        ("hypervisor: hv1", "hypervisor: hv9", "services.web.primary.hypervisor: no hypervisor is called 'hv9'"),
        ("key: key1}", "key: key2}", "dns.zones.example.test.key: no TSIG key is called 'key2'"),
        ("servers: [ns1]", "servers: [ns2]", "dns.zones.example.test.servers[0]: no DNS server is called 'ns2'"),
        ("zone: example.test}", "zone: example.org}", "no zone is called 'example.org'"),
        ("name: www.example.test", "name: www.example.org", "www.example.org is not in zone example.test"),
        ("max_staleness: 2m", "max_staleness: soon", "'soon' is no duration; write 90s, 5m, 2h or 200ms"),
        ("max_staleness: 2m", "max_stale: 2m", "services.web.max_stale: is no key of the plan"),
        (
            "max_staleness: 2m",
            "max_staleness: 2m\n    sync: {engine: periodic}",
            "syncs every 1800 s, and max_staleness is 120 s",
        ),
        ("ports: [80, {tcp: 443}]", "ports: [80]\n    sync: {exclude_profile: vm}", "choose one of vm-to-container"),
        ("ports: [80, {tcp: 443}]", "ports: [80]\n    sync: {exclude: [etc]}", "'etc' is not absolute"),
        ("ports: [80, {tcp: 443}]", "ports: [80]\n    sync: {consistency: {kind: hook}}", "kind hook needs hook"),
        ("ports: [80, {tcp: 443}]", "ports: [80]\n    sync: {consistency: {kind: native}}", "kind native needs paths"),
        ("ports: [80, {tcp: 443}]", "ports: [80]\n    sync: {consistency: {kind: snapshot}}", "needs engine: periodic"),
        ("ports: [80, ", "ports: [99999, ", "services.web.ports[0].tcp"),
        ("ports: [80, {tcp: 443}]", "ports: []", "services.web.ports"),
        ("address: 10.20.0.10", "address: 10.30.0.10", "is outside the secondary's network 10.20.0.0/24"),
        ("address: 10.20.0.10", "address: 10.10.0.10", "is the primary's own address"),
        ("uuid: 6f1c2a54-", "uuid: xyz-", "services.web.primary.uuid"),
        ("version: 1", "version: 2", "version"),
        (
            "    max_staleness: 2m",
            "    max_staleness: 2m\n    ports: [81]",
            "services.web.ports: this key stands here twice",
        ),
        ("version: 1", "version: [1", "not valid YAML"),
    ],
)
def test_what_is_wrong_is_named(plan_file: Path, old: str, new: str, said: str) -> None:
    assert any(said in problem for problem in problems(plan_file, (old, new)))


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


def test_what_replicates_itself_is_left_out_only_if_the_plan_says_so(plan_file: Path) -> None:
    text = plan_file.read_text()
    left_out = {}
    for kind in ("native", "files"):
        sync = f"{{exclude: [/a], consistency: {{kind: {kind}, paths: [/b], by: somebody}}}}"
        plan_file.write_text(text.replace("max_staleness: 2m", f"max_staleness: 2m\n    sync: {sync}", 1))
        left_out[kind] = selection_of(load_plan(plan_file).services["web"]).paths
    assert left_out == {"native": ("/a", "/b"), "files": ("/a",)}


@pytest.mark.parametrize(
    "content", ["", "just text", "- a\n- b\n", "services: 5\n", "services: {web: 5}\nversion: 1\n"]
)
def test_nonsense_is_refused(plan_file: Path, content: str) -> None:
    plan_file.write_text(content)
    assert problems(plan_file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="No such file"):
        load_plan(tmp_path / "none.yml")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("1.5m", 90), ("2h", 7200), (3, 3), ("200ms", 0.2), ("1d", 86400)]
)
def test_durations(text: object, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5 parsecs", "-1s", "0s", True, None, [1]])
def test_what_is_no_duration(text: object) -> None:
    with pytest.raises(ValueError, match=r"duration|zero"):
        parse_duration(text)
