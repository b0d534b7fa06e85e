"""What the README and the pages under `docs/` show is so: plans, commands, options, links."""

from __future__ import annotations

import importlib
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from reference_pages.markdown import anchor
from reference_pages.pages import PAGES
from vcrecovery.cli.main import VERBS, cli
from vcrecovery.plan.load import load_plan
from vcrecovery.plan.model import Plan
from vcrecovery.plan.monitoring import Detection

CHECKOUT = Path(__file__).resolve().parents[3]
README = CHECKOUT / "README.md"
GOLDEN = Path(__file__).parent / "golden"
TEXTS = [README, CHECKOUT / "CONTRIBUTING.md", CHECKOUT / "SECURITY.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]
TEXTS += sorted((CHECKOUT / "roles").glob("*/README.md"))
WRITTEN = [path for path in TEXTS if path not in PAGES]
_named = pytest.mark.parametrize("text", TEXTS, ids=lambda path: str(path.relative_to(CHECKOUT)))
_LINK = re.compile(r"\[[^]]*\]\((?!https?:)([^)#]*)(#[^)]*)?\)")
#: What a reader types: a code span, or a line of a code block.
_TYPED = re.compile(r"`([^`\n]+)`|(?m:^ {4,}(?:\$ )?(\S.*)$)")


def documented_yaml() -> list[str]:
    """The examples, the whole plan first; those in lists are indented."""
    texts = [path.read_text() for path in (CHECKOUT / "docs/quick-start.md", *WRITTEN)]
    return [textwrap.dedent(found) for text in texts for found in re.findall(r"(?ms)^ *```yaml\n(.*?)^ *```$", text)]


def plan_with(part: dict[str, Any]) -> dict[str, Any]:
    """The documented plan with a part of it replaced: of the plan itself, of its service, or of that one's sync."""
    plan: dict[str, Any] = yaml.safe_load(documented_yaml()[0])
    if set(part) <= set(plan) | {"detection", "notify", "snmp", "zabbix", "costs", "status_page"}:
        return plan | part
    if set(part) == {"consistency"}:
        part = {"sync": {"engine": "periodic", "reconcile": "1m"} | part}
    plan["services"]["web"] |= part
    return plan


def test_the_readme_is_short() -> None:
    assert len(README.read_text().splitlines()) <= 200


def test_the_documented_plan_is_good(tmp_path: Path) -> None:
    file = tmp_path / "plan.yml"
    file.write_text(documented_yaml()[0])
    assert set(load_plan(file).services) == {"web"}


@pytest.mark.parametrize(
    "key", ["detection", "drill", "hooks", "hypervisors", "notify", "ports", "sync", "consistency"]
)
def test_the_documented_parts_of_plans_are_good(key: str, tmp_path: Path) -> None:
    parts = [part for part in map(yaml.safe_load, documented_yaml()) if key in part]
    assert parts
    for part in parts:
        file = tmp_path / "plan.yml"
        file.write_text(yaml.safe_dump(plan_with(part)))
        load_plan(file)


def test_the_documented_thresholds_are_the_defaults() -> None:
    (shown,) = (part["detection"] for part in map(yaml.safe_load, documented_yaml()) if set(part) == {"detection"})
    assert Detection.model_validate(shown) == Detection()


@pytest.mark.parametrize(
    ("page", "golden"),
    [
        ("quick-start", "table-well"),
        ("operations", "table"),
        ("operations", "detail-well"),
        ("operations", "history"),
    ],
)
def test_the_documented_output_is_what_is_printed(page: str, golden: str) -> None:
    """Of each golden file the page shows some lines, to the letter."""
    printed = {line.strip() for line in (GOLDEN / f"{golden}.txt").read_text().splitlines()} | {"...", ""}
    blocks = re.findall(r"(?m)(?:^ {4,}.*\n)(?:(?:^ {4,}.*)?\n)*", (CHECKOUT / f"docs/{page}.md").read_text())
    assert any({line.strip() for line in block.splitlines()} <= printed for block in blocks), (
        f"docs/{page}.md shows what is not printed any more: copy the lines from tests/unit/golden/{golden}.txt"
    )


@pytest.mark.parametrize("key", ["version", "ports"])
def test_an_editor_accepts_the_documented_plan(key: str) -> None:
    """By the JSON Schema: durations with units, ports by their number."""
    jsonschema = importlib.import_module("jsonschema")
    (*_, part) = (part for part in map(yaml.safe_load, documented_yaml()) if key in part)
    schema = Plan.model_json_schema()
    jsonschema.validate(plan_with(part), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**plan_with(part), "servics": {}}, schema)


@_named
def test_every_link_leads_somewhere(text: Path) -> None:
    for path, fragment in _LINK.findall(text.read_text()):
        target = (text.parent / path).resolve() if path else text
        assert target.exists(), f"{text.name}: {path}"
        if fragment:
            headings = re.findall(r"(?m)^#+ (.*)$", target.read_text())
            assert fragment in map(anchor, headings), f"{text.name}: {path}{fragment}"


@pytest.mark.parametrize("text", WRITTEN, ids=lambda path: path.stem)
def test_every_command_exists(text: Path) -> None:
    for words in _commands(text.read_text()):
        command: click.Command = cli
        context = click.Context(cli, info_name="vcrecovery")
        while isinstance(command, click.Group) and words and re.fullmatch(r"[a-z][a-z-]*", words[0]):
            found = command.get_command(context, words[0])
            assert found is not None, f"{text.name}: vcrecovery {' '.join(words)}"
            command, words = found, words[1:]
        known = {name for param in command.params for name in param.opts} | {"--help"}
        unknown = {word for word in words if re.fullmatch(r"--[a-z-]+", word)} - known
        assert not unknown, f"{text.name}: {command.name} has no {unknown}"


def _commands(text: str) -> Iterator[list[str]]:
    """What follows `vcrecovery` in each, up to a comment or a semicolon."""
    for span, line in _TYPED.findall(text):
        for part in re.split(r"[;#|]", span or line):
            words = part.split()
            if words[:1] == ["vcrecovery"] and len(words) > 1:
                yield words[1:]


def test_the_examples_commands_name_what_is_in_its_plan() -> None:
    """Comments of the inventory: `vcrecovery failover NAME`, or `--group NAME` and the like."""
    text = (CHECKOUT / "inventory/group_vars/all/main.yml").read_text()
    plan = yaml.safe_load(text)["vcrecovery_plan"]
    known = {"": plan["services"], "--group": plan["groups"], "--host": plan["hypervisors"]}
    said = re.findall(r"`vcrecovery failover(?: (--[a-z-]+))? ([a-z0-9-]+)`", text)
    assert said
    for option, name in said:
        assert name in known[option], f"vcrecovery failover {option} {name}"


def test_commands_are_found() -> None:
    verbs = {words[0] for text in WRITTEN for words in _commands(text.read_text())}
    assert len(verbs & set(VERBS)) > 10


@_named
def test_every_target_of_make_exists(text: Path) -> None:
    targets = set(re.findall(r"(?m)^([a-z-]+):", (CHECKOUT / "Makefile").read_text()))
    assert set(re.findall(r"(?:`|^ {4})make ([a-z-]+)", text.read_text(), re.MULTILINE)) <= targets


def test_the_inventory_is_named_so_that_nothing_else_is_read_as_one() -> None:
    """`-i my-site` has Ansible read `my-site/plan.yml` as an inventory, and warn of its keys at every run."""
    named = {word for text in WRITTEN for word in re.findall(r"-i (my-site\S*)", text.read_text())}
    assert named == {"my-site/hosts.yml"}
