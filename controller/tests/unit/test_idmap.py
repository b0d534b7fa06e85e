"""How owners are mapped is read, not assumed; what is unclear is refused with the reason."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from vcrecovery.errors import RefusedError
from vcrecovery.transfer import idmap

OWN_USER, OWN_GROUP = os.getuid(), os.getgid()


def entry(kind: str, host: int, inside: int = 0, length: int = 65536) -> dict[str, Any]:
    return {"Isuid": kind == "uid", "Isgid": kind == "gid", "Hostid": host, "Nsid": inside, "Maprange": length}


#: A map under which this test's own user and group are root inside.
OWN = [entry("uid", OWN_USER), entry("gid", OWN_GROUP)]
SHIFTED = [entry("uid", 100000), entry("gid", 100000)]


def config(last_state: object, **more: str) -> dict[str, str]:
    return {idmap.LAST_STATE: last_state if isinstance(last_state, str) else json.dumps(last_state), **more}


def test_idmapped_mounts_need_no_map(tmp_path: Path) -> None:
    assert idmap.of_tree("web", config([], **{"volatile.idmap.next": json.dumps(SHIFTED)}), tmp_path) == []


def test_privileged_containers_need_no_map(tmp_path: Path) -> None:
    assert idmap.of_tree("web", config([], **{"security.privileged": "true"}), tmp_path) == []


def test_a_shifted_tree_has_its_map(tmp_path: Path) -> None:
    assert idmap.of_tree("web", config(OWN), tmp_path) == OWN


def test_a_root_folder_of_another_user_inside(tmp_path: Path) -> None:
    below = [entry("uid", max(0, OWN_USER - 5)), entry("gid", max(0, OWN_GROUP - 5))]
    assert idmap.of_tree("web", config(below), tmp_path) == below


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({}, "has not chosen yet"),
        (config("{"), "no JSON"),
        (config(""), "no JSON"),
        (config({}), "no range of IDs"),
        (config(["x"]), "no range of IDs"),
        (config([entry("uid", 100000, length=0), entry("gid", 100000)]), "no range of IDs"),
        (config([entry("uid", -1), entry("gid", 100000)]), "no range of IDs"),
        (config([{"Isuid": True, "Hostid": "100000", "Nsid": 0, "Maprange": 1}]), "no range of IDs"),
        (config([entry("neither", 100000)]), "no range of IDs"),
        (config([entry("uid", 100000)]), "no place for root"),
        (config([entry("uid", 100001, 1), entry("gid", 100000)]), "no place for root"),
        (config(SHIFTED, **{"security.privileged": "true"}), "privileged by now"),
        (config(SHIFTED), r"are shifted, but .* belongs to user \d+"),
    ],
)
def test_what_is_unclear_is_refused(found: dict[str, str], why: str, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=rf"owners of web are mapped is not clear: .*{why}.*; delete that container"):
        idmap.of_tree("web", found, tmp_path)


@pytest.mark.skipif(OWN_USER != 0, reason="gives a folder away")
def test_a_shifted_tree_that_is_said_not_to_be(tmp_path: Path) -> None:
    os.chown(tmp_path, 100000, 100000)
    with pytest.raises(RefusedError, match=r"nothing is shifted on disk, but .* belongs to user 100000"):
        idmap.of_tree("web", config([]), tmp_path)


def test_a_tree_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="cannot be read"):
        idmap.of_tree("web", config([]), tmp_path / "none")
