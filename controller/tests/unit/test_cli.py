"""The command line: one line for each error, exit codes that mean something, no traceback."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from journal_cases import finish
from warm_program import vcrecovery

from vcrecovery.cli.main import VERBS
from vcrecovery.core.episode import Request
from vcrecovery.errors import ExitCode
from vcrecovery.store.journal import Journal


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["failover", "wbe"], ExitCode.USAGE, "has no service 'wbe' (known: web; did you mean web?)"),
        (["faliover", "web"], ExitCode.USAGE, "there is no verb 'faliover'; did you mean failover?"),
        (["failover", "web", "--forse"], ExitCode.USAGE, "error: no such option"),
        (["failover", "web", "mail"], ExitCode.USAGE, "(mail); see `vcrecovery failover --help`"),
        (["standby", "set", "web"], ExitCode.USAGE, "frozen, warm, cold, plan; see `vcrecovery standby set --help`"),
        (["history", "--limit", "0"], ExitCode.USAGE, "'--limit': 0 is not in the range"),
        (["failover", "--host", "hv1", "--host", "hv2"], ExitCode.USAGE, "--host is given twice; name one"),
        (["failover", "--group", "a", "--group", "a"], ExitCode.USAGE, "--group is given twice; name one"),
        (["failover"], ExitCode.USAGE, "name one service, or one VM with --vm"),
        (["failover", "web", "--vm", "x"], ExitCode.USAGE, "name one service"),
        (["failover", "--vm", "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0002"], ExitCode.USAGE, "did you mean 6f1c2a54"),
        (["failover", "web", "--primary-is-down", "wbe"], ExitCode.USAGE, "type web to mean it"),
        (["drill"], ExitCode.USAGE, "name one or more services, or use one of --group, --all and --due"),
        (["drill", "web", "--all"], ExitCode.USAGE, "name one or more services, or use one of"),
        (["drill", "wbe"], ExitCode.USAGE, "has no service 'wbe' (known: web; did you mean web?)"),
        (["drill", "--group", "shop"], ExitCode.USAGE, "has no group 'shop'"),
        (["drill", "web"], ExitCode.EXTERNAL, "LXD on secondary sec1"),
        (["drill", "web", "--dry-run"], ExitCode.REFUSED, "no drill: web: LXD on secondary sec1"),
        (["failover", "web"], ExitCode.REFUSED, "no standby to start: LXD on secondary sec1"),
        (["suspend", "web", "--for", "soon"], ExitCode.USAGE, "'soon' is no duration"),
        (["status", "nope"], ExitCode.USAGE, "has no service 'nope'"),
        (["history", "nope"], ExitCode.USAGE, "has no service 'nope'"),
        (["standby", "apply", "nope"], ExitCode.USAGE, "has no service 'nope'"),
        (["standby", "apply"], ExitCode.EXTERNAL, "LXD on secondary sec1"),
        (
            ["standby", "seed", "web", "--from", "/nonexistent"],
            ExitCode.USAGE,
            "/nonexistent: no such folder; name one",
        ),
    ],
)
def test_errors(plan_file: Path, words: list[str], code: ExitCode, said: str) -> None:
    done = vcrecovery(*words, "--plan", plan_file)
    assert done.returncode == code, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert said in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["failover", "web", "--primary-is-down"], "requires an argument; see `vcrecovery failover --help`"),
        (["pause", "web", "--for"], "requires an argument; see `vcrecovery suspend --help`"),
        (["--plan", "x.yml", "status"], "--plan stands behind the verb: `vcrecovery status --plan FILE`"),
        (["--forse", "status"], "; see `vcrecovery --help`"),
    ],
)
def test_help_is_that_of_the_verb(words: list[str], said: str) -> None:
    done = vcrecovery(*words)
    assert (done.returncode, done.stderr.strip().endswith(said)) == (ExitCode.USAGE, True), done.stderr


def test_a_missing_plan_is_named(tmp_path: Path) -> None:
    done = vcrecovery("status", "--plan", tmp_path / "none.yml")
    assert done.returncode == ExitCode.USAGE
    assert f"plan {tmp_path}/none.yml: cannot be read: No such file or directory; name another by --plan" in done.stderr
    assert "`vcrecovery plan init` writes a first one" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    checked = vcrecovery("plan", "check", "--plan", tmp_path / "none.yml")
    assert "has 1 problem; name another by --plan" in checked.stderr


def test_an_unusable_journal_is_named(plan_file: Path, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where a folder should be")
    done = vcrecovery("history", "--plan", plan_file)
    assert done.returncode == ExitCode.EXTERNAL
    assert "journal" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_damaged_journal_is_named(plan_file: Path, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state/journal.db").write_text("this is no database" * 100)
    done = vcrecovery("suspend", "web", "--plan", plan_file)
    assert done.returncode == ExitCode.EXTERNAL
    assert "journal.db" in done.stderr


@pytest.mark.parametrize("verb", ["suspend", "pause"])  # as it was called before
def test_suspend_and_resume(plan_file: Path, verb: str) -> None:
    done = vcrecovery(verb, "web", "--for", "30m", "--plan", plan_file)
    assert "automatic failover suspended until" in done.stdout
    entry = json.loads(vcrecovery("status", "--json", "--plan", plan_file).stdout)["services"][0]
    assert entry["suspended"]
    assert "automatic failover resumed" in vcrecovery("resume", "web", "--plan", plan_file).stdout
    assert "nothing to do" in vcrecovery("resume", "web", "--plan", plan_file).stdout


def test_status_with_everything_down_says_so(plan_file: Path) -> None:
    done = vcrecovery("status", "--plan", plan_file)
    assert done.returncode == 0
    assert "hypervisor hv1 (qemu:" in done.stdout
    assert "unreachable" in done.stdout
    assert "no answer" in done.stdout


def test_plan_check(plan_file: Path) -> None:
    assert "good: 1 service" in vcrecovery("plan", "check", plan_file).stdout
    plan_file.write_text(plan_file.read_text().replace("secondary: sec1", "secondary: sec2"))
    done = vcrecovery("plan", "check", plan_file)
    assert done.returncode == ExitCode.USAGE
    assert "services.web.standby.secondary" in done.stdout
    online = vcrecovery("plan", "check", "--online", "--json", plan_file)
    assert json.loads(online.stdout)["ok"] is False


def test_plan_check_warns_of_a_long_ttl(plan_file: Path) -> None:
    plan_file.write_text(plan_file.read_text().replace("zone: example.test}", "zone: example.test, ttl: 3600}"))
    done = vcrecovery("plan", "check", plan_file)
    assert done.returncode == 0
    assert "warning: line 23: services.web.dns[0].ttl: " in done.stdout
    warnings = json.loads(vcrecovery("plan", "check", "--json", plan_file).stdout)["warnings"]
    assert len(warnings) == 1


def test_plan_check_online_looks_for_your_commands(plan_file: Path) -> None:
    fence = "{fence: {command: [/usr/local/sbin/power-offf, hv1]}, uri: "
    plan_file.write_text(plan_file.read_text().replace("{uri: ", fence, 1))
    # A plan may be checked on another machine than the controller's.
    assert "power-offf" not in vcrecovery("plan", "check", plan_file).stdout
    said = vcrecovery("plan", "check", "--online", plan_file).stdout
    assert "warning: hypervisors.hv1.fence.command: this machine has no command /usr/local/sbin/power-offf" in said


def test_plan_check_online_finds_what_is_down(plan_file: Path) -> None:
    done = vcrecovery("plan", "check", "--online", plan_file)
    assert done.returncode == ExitCode.USAGE
    for part in ("hypervisors.hv1", "secondaries.sec1", "dns.zones.example.test"):
        assert part in done.stdout
    assert f"outside plan {plan_file}, which is good by itself; fix that" in done.stderr


def test_the_schema_is_json() -> None:
    schema = json.loads(vcrecovery("plan", "schema").stdout)
    assert schema["properties"]["services"]


def test_help_names_the_variable_that_stands_for_the_plan() -> None:
    assert "VCRECOVERY_PLAN" in vcrecovery("status", "--help").stdout


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_explains_itself(verb: str) -> None:
    done = vcrecovery(verb, "--help")
    assert done.returncode == 0
    assert "Usage:" in done.stdout


@pytest.mark.parametrize("group", ["standby", "plan", "snmp-agent", "notify", "secondary"])
def test_no_line_of_a_list_of_verbs_breaks_off(group: str) -> None:
    _, verbs = vcrecovery(group, "--help").stdout.split("Commands:")
    assert "..." not in verbs


def test_acknowledge_ends_a_cool_down(plan_file: Path, tmp_path: Path) -> None:
    said = vcrecovery("acknowledge", "web", "--plan", plan_file)
    assert "nothing to do" in said.stdout
    now = time.time()
    journal = Journal(tmp_path / "state/journal.db")
    finish(journal, journal.open("web", "libvirt: crashed", Request(automatic=True), now), now)
    journal.serve_from_primary("web", now)
    entry = json.loads(vcrecovery("status", "--json", "--plan", plan_file).stdout)["services"][0]
    assert entry["cools_until"] == pytest.approx(now + 3600)
    assert "no automatic failover until" in vcrecovery("status", "--plan", plan_file).stdout
    assert "`vcrecovery acknowledge web` ends it" in vcrecovery("history", "--plan", plan_file).stdout
    assert "automatic failover is enabled again" in vcrecovery("acknowledge", "web", "--plan", plan_file).stdout
    assert "no failover by itself" not in vcrecovery("status", "--plan", plan_file).stdout
    assert "acknowledged" in vcrecovery("history", "--plan", plan_file).stdout


def test_a_journal_of_an_older_version_is_used_on(plan_file: Path, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    with contextlib.closing(sqlite3.connect(tmp_path / "state/journal.db")) as db:
        db.execute(
            "CREATE TABLE service (name TEXT PRIMARY KEY, epoch INTEGER NOT NULL DEFAULT 0, "
            "side TEXT NOT NULL DEFAULT 'primary', seen_running_at REAL, "
            "paused_since REAL, paused_until REAL, pause_reason TEXT) STRICT"
        )
        db.execute("INSERT INTO service (name, epoch) VALUES ('web', 7)")
        db.commit()
    entry = json.loads(vcrecovery("status", "--json", "--plan", plan_file).stdout)["services"][0]
    assert entry["epoch"] == 7


def test_a_wheel_without_libvirts_binding_says_so(plan_file: Path) -> None:
    words = ["status", "--plan", str(plan_file)]
    program = f"""
import sys
sys.modules["libvirt"], sys.argv[1:] = None, {words!r}
from vcrecovery.cli.main import main
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == ExitCode.EXTERNAL
    assert done.stderr.startswith("vcrecovery: error: libvirt's binding for Python is not installed; run the role")
    assert len(done.stderr.splitlines()) == 1
