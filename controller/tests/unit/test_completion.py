"""The shell's completion, and what else has to be quick."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from view_program import PATIENCE, env
from warm_program import vcrecovery

import vcrecovery as vcrecovery_package
from vcrecovery.cli.main import cli


def completed(line: str, plan: Path, shell: str = "bash") -> list[str]:
    words = line.split(" ")
    changes = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_VCRECOVERY_COMPLETE": f"{shell}_complete"}
    done = vcrecovery(VCRECOVERY_PLAN=str(plan), **changes)
    assert (done.returncode, done.stderr) == (0, "")
    return [text.removeprefix("plain,") for text in done.stdout.split()]


def test_completion_knows_the_plan(failed_over: Path) -> None:
    assert completed("vcrecovery exp", failed_over) == ["explain"]
    for verb in ("failover", "status", "suspend", "standby reset"):
        assert completed(f"vcrecovery {verb} w", failed_over) == ["web"]
    assert completed("vcrecovery failover x", failed_over) == []
    assert completed("vcrecovery explain ", failed_over) == ["last", "web", "1"]
    assert completed("vcrecovery failover --vm 6", failed_over) == ["6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0001"]
    assert "--check" in completed("vcrecovery status --c", failed_over)
    assert completed("vcrecovery watch --log-format j", failed_over) == ["json"]
    other = failed_over.parent / "other.yml"
    other.write_text("services: {mail: {}, 'a; rm -rf /': {}}")
    assert completed(f"vcrecovery status --plan {other} ", failed_over) == ["mail"]


def test_completion_of_a_failover(plan_file: Path) -> None:
    text = plan_file.read_text().replace('/no-libvirt"}', '/no-libvirt", site: north}')
    text = text.replace("secondaries:\n", "  hv2: {site: south}\nsecondaries:\n", 1)
    plan_file.write_text(f"{text}  mail: {{needs: [web]}}\ngroups: {{front: {{services: [web]}}}}\n")
    for said, offered in (
        ("", ["web", "mail"]),
        ("web ", []),
        ("--host ", ["hv1", "hv2"]),
        ("--host h", ["hv1", "hv2"]),
        ("--host hv1 ", []),
        ("--site ", ["north", "south"]),
        ("--group ", ["front"]),
        ("--restore-point ", ["latest"]),
        # The word that takes a fence's place is the name of what is meant.
        ("web --primary-is-down ", ["web"]),
        ("--force mail --primary-is-down ", ["mail"]),
        ("--host hv2 --primary-is-down ", ["hv2"]),
        ("--site north --primary-is-down ", ["north"]),
        ("--site north --primary-is-down s", []),
        ("--group front --primary-is-down ", ["front"]),
        ("--vm 6F1C2A54-7c0d-4a7e-9a51-0d3b1f7e0001 --primary-is-down ", ["web"]),
        ("--primary-is-down ", ["web", "mail", "hv1", "hv2", "north", "south", "front"]),
        ("--primary-is-down hv1 --host ", ["hv1", "hv2"]),
    ):
        assert completed(f"vcrecovery failover {said}", plan_file) == offered, said


#: Parameters by name -> what is offered for them, whatever the verb.
ALIKE = {
    "service": ["web"],
    "services": ["web"],
    "vm": ["6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0001"],
    "host": ["hv1"],
    "site": ["main"],
    "group": [],
    "primary_is_down": ["web", "hv1", "main"],
    "restore_point": ["latest"],
    "episode": ["last", "web"],
}


def verbs(command: click.Command, context: click.Context) -> Iterator[click.Command]:
    if not isinstance(command, click.Group):
        yield command
        return
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from verbs(found, context)


def test_every_verb_completes_alike(plan_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VCRECOVERY_PLAN", str(plan_file))
    with click.Context(cli, resilient_parsing=True) as context:
        asked = [parameter for verb in verbs(cli, context) for parameter in verb.params if parameter.name in ALIKE]
        for parameter in asked:
            offered = [item.value for item in parameter.shell_complete(context, "")]
            assert offered == ALIKE[parameter.name or ""], parameter
    assert len(asked) > 20


def test_nothing_private_of_another_library_is_used() -> None:
    """What a library does not promise, its next version may not have."""
    source = Path(vcrecovery_package.__file__).parent
    for file in source.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.ImportFrom) and not f"{node.module}.".startswith(("vcrecovery.", "__future__.")):
                names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
                assert node.level or not [name for name in names if name.startswith("_")], f"{file}: {names}"


def test_completion_of_a_broken_plan_is_empty(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yml"
    for text in ("services: [", "- a", "services: 3", "", "services: {web: }\x00"):
        plan.write_text(text)
        assert completed("vcrecovery status ", plan) == [], text
    # One with a mistake in it is not broken: its names are known.
    plan.write_text("services: {web: , 1: x}\nhypervisors: 3\n")
    assert completed("vcrecovery status ", plan) == ["web", "1"]
    assert completed("vcrecovery explain ", tmp_path / "none.yml") == ["last"]
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    done = vcrecovery("completion", shell)
    assert done.returncode == 0
    assert f"_VCRECOVERY_COMPLETE={shell}_complete" in done.stdout


def test_bash_takes_the_script(failed_over: Path, tmp_path: Path) -> None:
    program = tmp_path / "bin/vcrecovery"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m vcrecovery "$@"\n')
    program.chmod(0o755)
    script = tmp_path / "completion"
    script.write_text(vcrecovery("completion", "bash").stdout)
    typed = "COMP_WORDS=(vcrecovery status w); COMP_CWORD=2"
    ask = f'. {script}; {typed}; _vcrecovery_completion {program}; echo "$COMPREPLY"'
    done = subprocess.run(
        ["bash", "--norc", "-c", ask],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=env(VCRECOVERY_PLAN=str(failed_over)),
    )
    assert (done.stdout, done.stderr) == ("web\n", "")


_LOADED = """
import sys
from vcrecovery.cli.main import main
try:
    main()
finally:
    heavy = {"pydantic", "libvirt", "pylxd", "dns", "requests", "pysnmp"} & set(sys.modules)
    print(sorted(heavy), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        (["--help"], {}),
        (["status", "--help"], {}),
        (["explain", "--help"], {}),
        (["completion", "bash"], {}),
        ([], {"COMP_WORDS": "vcrecovery fail", "COMP_CWORD": "1", "_VCRECOVERY_COMPLETE": "bash_complete"}),
        ([], {"COMP_WORDS": "vcrecovery status w", "COMP_CWORD": "2", "_VCRECOVERY_COMPLETE": "bash_complete"}),
    ],
)
def test_what_must_be_quick_loads_little(words: list[str], changes: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOADED, *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=env(**changes),
    )
    assert done.stderr.splitlines()[-1] == "[]"
