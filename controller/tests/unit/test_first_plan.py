"""`vcrecovery plan init`: whatever is found, its text is a plan; real libvirt's own test driver is one hypervisor."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from warm_program import vcrecovery

from vcrecovery.cli.plan_init import init
from vcrecovery.drivers.libvirt import Guest
from vcrecovery.errors import ExitCode, ExternalError
from vcrecovery.operations.discovery import find_secondary, find_vms, neighbours
from vcrecovery.plan.first import DnsWish, FoundSecondary, FoundVm, first_plan, protected
from vcrecovery.plan.load import load_plan

LIBVIRT = "hv1=test:///default"
UUID = "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e{:04x}"
SECONDARY = FoundSecondary(
    "sec1", "/var/lib/lxd/unix.socket", {"old": "zfs", "fast": "btrfs", "big": "dir"}, "192.0.2.5"
)

addresses = st.lists(st.ip_addresses(v=4).map(str).filter(lambda a: not a.startswith(("0.", "22", "23"))), max_size=2)
vms = st.lists(
    st.builds(
        FoundVm,
        name=st.text(min_size=1, max_size=60),
        hypervisor=st.just("hv1"),
        uuid=st.just(""),
        runs=st.booleans(),
        cores=st.integers(1, 64),
        memory=st.integers(1 << 20, 1 << 40),
        addresses=addresses,
        ports=st.lists(st.sampled_from([25, 80, 443]), unique=True),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda vm: tuple(vm.addresses),
).map(lambda found: [FoundVm(**{**vars(vm), "uuid": UUID.format(n)}) for n, vm in enumerate(found)])


@given(vms, st.sampled_from([None, DnsWish("example.net", "192.0.2.53")]))
def test_whatever_is_found_the_plan_is_good(
    tmp_path_factory: pytest.TempPathFactory, found: list[FoundVm], dns: DnsWish | None
) -> None:
    file = tmp_path_factory.mktemp("first") / "plan.yml"
    file.write_text(first_plan({"hv1": "qemu:///system"}, SECONDARY, found, dns))
    if not protected(found):
        return
    plan = load_plan(file)
    assert [str(service.primary.uuid) for service in plan.services.values()] == [
        vm.uuid for vm in found if vm.addresses
    ]
    assert plan.secondaries["sec1"].storage_pool == "fast"
    assert all(len(service.dns) == (dns is not None) for service in plan.services.values())


def vm(name: str, number: int, *addresses: str, **more: object) -> FoundVm:
    fields = {"runs": True, "cores": 2, "memory": 2 << 30, "addresses": addresses, "ports": (80,), **more}
    return FoundVm(name, "hv1", UUID.format(number), **fields)  # type: ignore[arg-type]


def test_names_and_addresses_are_each_given_once(tmp_path: Path) -> None:
    file = tmp_path / "plan.yml"
    found = [vm("Web_Server", 1, "192.0.2.10"), vm("web-server", 2, "192.0.3.10"), vm("db", 3, "10.20.0.9")]
    file.write_text(first_plan({"hv1": "qemu:///system"}, SECONDARY, found, None))
    plan = load_plan(file)
    assert sorted(plan.services) == ["db", "web-server", "web-server-2"]
    # A VM is in the network that would have been the first choice.
    assert {name: str(one.standby.address) for name, one in plan.services.items()} == {
        "web-server": "10.120.0.10",
        "web-server-2": "10.120.0.2",
        "db": "10.120.0.9",
    }


def test_who_is_left_out_is_said_with_the_reason() -> None:
    found = [
        vm("web", 1, "192.0.2.10"),
        vm("old", 2, runs=False),
        vm("odd", 3),
        vm("me", 4, "192.0.2.9", is_none="it is me"),
    ]
    text = first_plan({"hv1": "qemu:///system"}, SECONDARY, found, None)
    assert protected(found) == 1
    tail = text.partition("# Not protected:\n")[2].splitlines()
    assert [line.rpartition(": ")[2] for line in tail] == [
        "it is off, and so its address is not known",
        "its hypervisor knows no address of it",
        "it is me",
    ]


class Host:
    name = "hv1"

    def guests(self) -> list[Guest]:
        return [Guest(UUID.format(n), name, state, 2, 0, 1 << 20) for n, (name, state) in enumerate(self.there)]

    there = (("web", 1), ("mail", 1), ("off", 5), ("here", 1))

    def addresses(self, uuid: str) -> list[str]:
        return [] if uuid == UUID.format(1) else [f"192.0.2.{int(uuid[-4:], 16)}"]

    def cards(self, uuid: str) -> list[str]:
        return ["52:54:00:00:00:0" + uuid[-1]]


#: libvirt does not know where `mail` is; this machine has talked to it.
NEAR = {"52:54:00:00:00:01": ["192.0.2.1"], "52:54:00:00:00:00": ["192.0.2.99"]}


class Lxd:
    name = "sec1"

    def pools(self) -> dict[str, str]:
        raise ExternalError("LXD does not answer")


def test_ssh_is_asked_for_only_where_nothing_else_answers() -> None:
    found = find_vms(
        [Host()], lambda address, port: port == 22 or (address == "192.0.2.0" and port == 443), UUID.format(3), NEAR
    )
    assert {one.name: (list(one.addresses), list(one.ports)) for one in found} == {
        "web": (["192.0.2.0"], [443]),
        "mail": (["192.0.2.1"], [22]),
        "off": ([], []),
        "here": (["192.0.2.3"], [22]),
    }
    assert [one.name for one in found if one.is_none] == ["here"]
    assert find_vms([Host()], None, "", NEAR)[0].ports == []
    text = first_plan({"hv1": "qemu:///system"}, find_secondary(Lxd(), Path("/s"), found), found, None)
    assert 'lxd: "/s"  # CHECK: nobody answers there' in text
    assert "storage_pool: standbys  # CHECK: the role secondary makes it" in text


def test_what_libvirt_says_becomes_a_plan_that_nobody_overwrites(tmp_path: Path) -> None:
    file = tmp_path / "plan.yml"
    words = ["plan", "init", "--hypervisor", LIBVIRT, "--lxd", str(tmp_path / "none"), "--no-ports", "-o", str(file)]
    done = vcrecovery(*words, "--zone", "example.net", "--name-server", "192.0.2.53")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr == f"1 of 1 VM(s); look at {file}, above all where it says CHECK\n"
    (service,) = load_plan(file).services.values()
    assert (str(service.primary.address), service.dns[0].name) == ("192.168.122.3", "test.example.net")
    assert stat.S_IMODE(file.stat().st_mode) & 0o022 == 0
    before = file.read_text()
    assert vcrecovery(*words).returncode == ExitCode.USAGE
    assert file.read_text() == before


def test_other_files_of_the_folder_stay(tmp_path: Path) -> None:
    file, other = tmp_path / "plan.yml", tmp_path / "plan.yml.new"
    other.write_text("mine\n")
    words = ["plan", "init", "--hypervisor", LIBVIRT, "--lxd", str(tmp_path / "none"), "--no-ports"]
    done = vcrecovery(*words, "-o", str(file))
    assert done.returncode == 0, done.stderr
    assert other.read_text() == "mine\n"
    assert sorted(tmp_path.iterdir()) == [file, other]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~mask


def test_a_symlink_to_nowhere_stays(tmp_path: Path) -> None:
    link = tmp_path / "plan.yml"
    link.symlink_to("elsewhere")
    words = ["plan", "init", "--hypervisor", LIBVIRT, "--lxd", str(tmp_path / "none"), "--no-ports"]
    done = vcrecovery(*words, "-o", str(link))
    assert done.returncode == ExitCode.USAGE
    assert "is there already, and stays as it is" in done.stderr
    assert list(tmp_path.iterdir()) == [link]


def test_a_folder_that_may_not_be_looked_into_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "exists", refused)
    with pytest.raises(ExternalError, match=r"cannot write .*/none/plan\.yml: "):
        init({}, tmp_path / "socket", None, None, tmp_path / "none/plan.yml", probes=False)


@pytest.mark.parametrize(
    "words",
    [
        ["--hypervisor", "hv1"],
        ["--hypervisor", "HV=test:///default"],
        ["--hypervisor", LIBVIRT, "--hypervisor", LIBVIRT],
        ["--zone", "example.net"],
        ["--zone", "no name", "--name-server", "192.0.2.53"],
        ["--zone", "example.net", "--name-server", "ns1"],
    ],
)
def test_wrong_words_are_one_line(words: list[str]) -> None:
    done = vcrecovery("plan", "init", *words)
    assert done.returncode == ExitCode.USAGE
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stdout == ""


def test_neighbours_are_known_by_their_cards(tmp_path: Path) -> None:
    table = tmp_path / "arp"
    table.write_text(
        "IP address       HW type     Flags       HW address            Mask     Device\n"
        "192.0.2.10       0x1         0x2         52:54:00:7C:00:01     *        br0\n"
        "192.0.2.11       0x1         0x0         00:00:00:00:00:00     *        br0\n"
    )
    assert neighbours(table) == {"52:54:00:7c:00:01": ["192.0.2.10"]}
