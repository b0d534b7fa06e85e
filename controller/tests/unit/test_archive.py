"""The archive of `ansible-galaxy collection build`: what is in it, what it says it needs, how it is found."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from vcrecovery.plan.load import load_plan
from vcrecovery_lab.built_collection import BuiltCollection, build_and_install
from vcrecovery_lab.layout import CHECKOUT

PLAYBOOKS = sorted(path.stem for path in (CHECKOUT / "playbooks").glob("*.yml"))
#: What users of the collection need. Whatever else lies in a clone, also one that was worked in, stays out.
PARTS = {
    "CONTRIBUTING.md", "FILES.json", "LICENSE", "MANIFEST.json", "README.md", "SECURITY.md",
    "changelogs", "controller", "docs", "inventory", "meta", "playbooks", "plugins", "roles", "templates",
}  # fmt: skip
LOCKS = {f"requirements{name}.lock" for name in ("", "-build", "-notify", "-report")}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> BuiltCollection:
    return build_and_install(tmp_path_factory.mktemp("archive"))


def test_the_archive_holds_what_a_site_needs(built: BuiltCollection) -> None:
    with tarfile.open(built.archive) as archive:
        names = archive.getnames()
    assert {name.partition("/")[0] for name in names} == PARTS
    inside = {name.split("/")[1] for name in names if name.startswith("controller/")}
    assert inside == {"LICENSE", "README.md", "man", "pyproject.toml", "src", *LOCKS}
    assert [name for name in names if re.search(r"/\.|__pycache__|\.pyc$|egg-info|_cache|lab\b", name)] == []


def test_it_declares_the_collections_that_it_uses() -> None:
    texts = [path.read_text() for part in ("playbooks", "plugins", "roles") for path in (CHECKOUT / part).rglob("*.*")
             if path.suffix in (".yml", ".py", ".j2")]  # fmt: skip
    used = set(re.findall(r"\b((?:ansible|community)\.[a-z]+)\.[a-z_]+\b", "\n".join(texts)))
    declared = yaml.safe_load((CHECKOUT / "galaxy.yml").read_text())["dependencies"]
    assert set(declared) == used - {"ansible.builtin", "ansible.plugins", "ansible.errors"}
    pinned = {entry["name"] for entry in yaml.safe_load((CHECKOUT / "requirements.yml").read_text())["collections"]}
    assert set(declared) <= pinned


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_a_playbook_is_found_by_its_name(playbook: str, built: BuiltCollection) -> None:
    words = ("-i", built.installed / "inventory", "--syntax-check", f"vcrecovery.standby.{playbook}")
    assert f"playbook: {built.installed}/playbooks/{playbook}.yml" in built.ansible("ansible-playbook", *words)


def test_the_example_inventory_is_a_whole_site(built: BuiltCollection, tmp_path: Path) -> None:
    folder = built.installed / "inventory"
    variables: dict[str, Any] = yaml.safe_load((folder / "group_vars/all/main.yml").read_text())
    file = tmp_path / "plan.yml"
    file.write_text(yaml.safe_dump(variables["vcrecovery_plan"]))
    plan = load_plan(file)
    groups = yaml.safe_load((folder / "hosts.yml").read_text())["all"]["children"]
    hosts = {group: set(entry["hosts"]) for group, entry in groups.items()}
    assert hosts["hypervisors"] == set(plan.hypervisors)
    assert hosts["dns_servers"] == set(plan.dns.servers)
    assert hosts["secondaries"] == set(plan.secondaries)
    assert hosts["controllers"]
    assert hosts["monitoring"]
    primaries = groups["primaries"]["hosts"].values()
    assert {entry["primary_service"]: entry["ansible_host"] for entry in primaries} == {
        name: str(service.primary.address) for name, service in plan.services.items()
    }
    assert all(host.fence for host in plan.hypervisors.values())
    assert plan.groups
