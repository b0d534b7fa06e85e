"""Whom agents are asked as, and whom they may send as, while passphrases are replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from vcrecovery.errors import UsageError
from vcrecovery.plan.model import Hypervisor, Plan
from vcrecovery.plan.monitoring import Snmp
from vcrecovery.relay.credentials import Credentials


def plan(folder: Path) -> Plan:
    agent = {"address": "192.0.2.1", "user": "relay"}
    user = {"auth_file": str(folder / "auth"), "privacy_file": str(folder / "privacy")}
    hypervisor = Hypervisor.model_validate({"snmp": agent})
    snmp = Snmp.model_validate({"users": {"relay": user}})
    # There is nothing else in it that matters here.
    return Plan.model_construct(version=1, services={}, hypervisors={"hv1": hypervisor}, snmp=snmp)


def put(folder: Path, **secrets: str) -> None:
    for name, text in secrets.items():
        file = folder / name.replace("_", ".")
        file.touch(mode=0o600)
        file.write_text(text + "\n")


def test_there_is_one_user(tmp_path: Path) -> None:
    put(tmp_path, auth="old auth words", privacy="old privacy words")
    found = Credentials(plan(tmp_path))
    assert found.names == {"relay": ("relay",)}
    assert list(found.keys) == list(found.masters) == ["relay"]


def test_the_next_passphrases_have_a_user_of_their_own_who_is_tried_first(tmp_path: Path) -> None:
    put(tmp_path, auth="old auth words", privacy="old privacy words")
    put(tmp_path, auth_next="new auth words")
    # The other file is still to come.
    assert Credentials(plan(tmp_path)).names == {"relay": ("relay",)}
    put(tmp_path, privacy_next="new privacy words")
    found = Credentials(plan(tmp_path))
    assert found.names == {"relay": ("relaynext", "relay")}
    assert found.keys["relaynext"]["authKey"] == b"new auth words"
    assert found.keys["relay"]["privKey"] == b"old privacy words"


def test_once_they_are_the_users_own_it_is_tried_first_again(tmp_path: Path) -> None:
    put(tmp_path, auth="new auth words", privacy="new privacy words")
    put(tmp_path, auth_next="new auth words", privacy_next="new privacy words")
    assert Credentials(plan(tmp_path)).names == {"relay": ("relay", "relaynext")}


def test_the_next_ones_have_to_be_secret_too(tmp_path: Path) -> None:
    put(tmp_path, auth="old auth words", privacy="old privacy words")
    put(tmp_path, auth_next="new auth words", privacy_next="new privacy words")
    (tmp_path / "auth.next").chmod(0o644)
    with pytest.raises(UsageError, match=r"can be read by others: .*auth\.next"):
        Credentials(plan(tmp_path))
