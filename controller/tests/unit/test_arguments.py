"""Arguments at their edges: nothing is half done, and no slip of the hand is called a bug."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from journal_cases import finish
from warm_program import vcrecovery

from vcrecovery.cli import options
from vcrecovery.cli.main import cli
from vcrecovery.core.episode import Request
from vcrecovery.core.service_state import ServiceState
from vcrecovery.errors import ExitCode
from vcrecovery.plan.load import load_plan
from vcrecovery.plan.problems import PlanError
from vcrecovery.store.journal import Journal


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["suspend", "web", "--for", "99999999999d"], "--for: '99999999999d' is longer than 100 years"),
        (["history", "--since", "0s"], "--since: '0s' is not longer than zero"),
        (["history", "--limit", "99999999999999999999"], "'--limit': 99999999999999999999 is not in the range"),
        (["history", "--since", ""], "--since: '' is no time"),
        (["status", "--within", "nan"], "'--within': nan is not in the range"),
        (["status", "--within", "inf"], "'--within': inf is not in the range"),
        (["status", "--watch", "--every", "nan"], "'--every': nan is not in the range"),
        (["status", "--watch", "--every", "1e300"], "'--every': 1e+300 is not in the range"),
        (["status", "--check", "--json"], "choose one of --check, --nagios, --json and --watch"),
        (["status", "--check", "--watch"], "choose one of --check, --nagios, --json and --watch"),
        (["standby", "wait", "web", "--timeout", "inf"], "--timeout: 'inf' is no duration"),
        (["standby", "set", "web", "hot", "--timeout", "9999999999d"], "is longer than 100 years"),
    ],
)
def test_errors(plan_file: Path, tmp_path: Path, words: list[str], said: str) -> None:
    done = vcrecovery(*words, "--plan", plan_file)
    assert done.returncode == ExitCode.USAGE, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert said in done.stderr
    assert done.stdout == ""
    # The same goes for what the verb would have written.
    assert not (tmp_path / "state/modes").exists()
    entry = json.loads(vcrecovery("status", "--json", "--plan", plan_file).stdout)["services"][0]
    assert not entry["suspended"]


def test_check_and_nagios_are_no_contradiction(plan_file: Path) -> None:
    assert vcrecovery("status", "--check", "--nagios", "--plan", plan_file).returncode == 2


def test_nagios_gets_its_own_status_and_text_when_nobody_could_look(plan_file: Path, tmp_path: Path) -> None:
    missing = vcrecovery("status", "--nagios", "--plan", tmp_path / "none.yml")
    assert (missing.returncode, missing.stderr) == (3, "")
    assert missing.stdout.startswith(f"VCRECOVERY UNKNOWN - plan {tmp_path}/none.yml: cannot be read: ")
    (tmp_path / "state").write_text("a file where a folder should be")
    unusable = vcrecovery("status", "--nagios", "--plan", plan_file)
    assert (unusable.returncode, unusable.stderr) == (3, "")
    assert unusable.stdout.startswith(f"VCRECOVERY UNKNOWN - the journal {tmp_path}/state/journal.db ")


def test_whoever_has_no_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_001)
    assert options.operator() == "user 4000000001"


@pytest.mark.parametrize(
    "words",
    [["suspend", "web", "--reason", "\udcff"], ["history", "\udcff"], ["explain", "\udcff"], ["failover", "\udcff"]],
)
def test_bytes_that_are_no_text(plan_file: Path, words: list[str]) -> None:
    done = vcrecovery(*words, "--plan", plan_file)
    assert done.returncode in (ExitCode.DONE, ExitCode.USAGE), done.stderr
    assert "web" in done.stdout + done.stderr
    if words[0] == "suspend":
        assert r"(\udcff)" in vcrecovery("status", "web", "--plan", plan_file).stdout


def test_a_long_history_asks_once_for_each_service(plan_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(plan_file.parent / "state/journal.db")
    for at in range(3):
        finish(journal, journal.open("web", "libvirt: crashed", Request(automatic=True), at), at)
        journal.serve_from_primary("web", at)
    asked: list[str] = []
    read = Journal.state

    def noting(journal: Journal, service: str) -> ServiceState:
        asked.append(service)
        return read(journal, service)

    monkeypatch.setattr(Journal, "state", noting)
    done = CliRunner().invoke(cli, ["history", "--plan", str(plan_file)])
    assert done.output.count("  episode ") == 3
    assert asked == ["web"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["status", "--nagios", "--within", "0"], "invalid value for '--within'"),
        (["status", "--nagios", "--nix"], "no such option"),
        (["status", "--nagios", "--json"], "choose one of --check, --nagios"),
    ],
)
def test_nagios_takes_a_wrong_call_for_no_finding(plan_file: Path, words: list[str], said: str) -> None:
    done = vcrecovery(*words, "--plan", plan_file)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.startswith(f"VCRECOVERY UNKNOWN - {said}")
    assert len(done.stdout.splitlines()) == 1


def test_a_folder_is_no_plan(tmp_path: Path) -> None:
    said = f"plan {tmp_path}: cannot be read: Is a directory; name a file"
    done = vcrecovery("status", "--plan", tmp_path)
    assert (done.returncode, done.stderr) == (ExitCode.USAGE, f"vcrecovery: error: {said}\n")
    nagios = vcrecovery("status", "--nagios", "--plan", tmp_path)
    assert (nagios.returncode, nagios.stdout) == (3, f"VCRECOVERY UNKNOWN - {said}\n")


def test_a_plan_that_another_user_may_not_read(plan_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_args: object, **_how: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", forbidden)
    with pytest.raises(PlanError) as caught:
        load_plan(plan_file)
    assert str(caught.value) == f"plan {plan_file}: cannot be read: Permission denied; run it as root"


def test_a_name_of_several_services_is_no_service(plan_file: Path) -> None:
    done = vcrecovery("failover", "hv1", "--plan", plan_file)
    assert done.returncode == ExitCode.USAGE
    assert "has no service 'hv1'; `--host hv1` means all of that" in done.stderr


def test_a_standby_without_a_spare_goes_on_nowhere_else(plan_file: Path) -> None:
    done = vcrecovery("failover", "web", "--to", "sec1", "--secondary-is-down", "sec1", "--plan", plan_file)
    assert done.returncode == ExitCode.USAGE
    assert "web has no other secondary than sec1; --to names where it goes on" in done.stderr


def test_nobody_gives_up_what_is_on_a_secondary_without_its_name(plan_file: Path) -> None:
    done = vcrecovery("standby", "reset", "web", "--force", "--plan", plan_file)
    assert done.returncode == ExitCode.USAGE
    assert "--force belongs to --secondary-is-down" in done.stderr


def test_a_hypervisor_that_is_given_twice(tmp_path: Path) -> None:
    twice = ["--hypervisor", "hv1=test:///default"] * 2
    done = vcrecovery("plan", "init", *twice, "--output", tmp_path / "plan.yml")
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert done.stderr == "vcrecovery: error: --hypervisor: hv1 is given twice; give each a name of its own\n"


def test_a_list_without_room_is_no_wrong_word(tmp_path: Path) -> None:
    packages = tmp_path / "root/var/lib/dpkg"
    packages.mkdir(parents=True)
    (packages / "status").write_text(
        "Package: linux-x\nStatus: install ok installed\nArchitecture: all\nVersion: 1\n\n"
    )
    (packages / "info").mkdir()
    (packages / "info/linux-x.list").write_text("/boot\n/boot/vmlinuz\n")
    (tmp_path / "root/boot").mkdir()
    (tmp_path / "root/boot/vmlinuz").touch()
    words: list[str | Path] = ["exclude-list", "--packages", "linux-x", "--root", tmp_path / "root"]
    assert vcrecovery(*words).stdout.strip() == "/boot"
    done = vcrecovery(*words, "--output", tmp_path / "none/list")
    assert done.returncode == ExitCode.EXTERNAL, done.stderr
    assert "No such file or directory" in done.stderr


def test_a_tree_without_packages_is_told_without_options_of_another_verb(plan_file: Path, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    done = vcrecovery("standby", "seed", "web", "--from", tmp_path / "tree", "--plan", plan_file)
    assert done.returncode == ExitCode.USAGE
    assert "holds no package database (dpkg or RPM): name the root of a system" in done.stderr
    assert "--root" not in done.stderr
