"""A database whose files are copied as they are is pointed out; one that is taken care of is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vcrecovery.plan.load import load_plan
from vcrecovery.plan.model import Service
from vcrecovery.standby.databases import copied_as_files
from vcrecovery.transfer.rootfs import Rootfs


def service(plan_file: Path, **sync: Any) -> Service:
    data = load_plan(plan_file).services["web"].model_dump(mode="json")
    data["sync"].update(sync)
    return Service.model_validate(data)


@pytest.fixture
def tree(tmp_path: Path) -> Rootfs:
    for inside in ("mysql/ibdata1", "postgresql/15/main/PG_VERSION", "dpkg/status"):
        file = tmp_path / "root/var/lib" / inside
        file.parent.mkdir(parents=True)
        file.write_text("x")
    # An empty folder, as a package that only has a client leaves it, and a link to elsewhere.
    (tmp_path / "root/var/lib/redis").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("x")
    (tmp_path / "root/var/lib/ldap").symlink_to(tmp_path / "outside")
    return Rootfs(tmp_path / "root", [])


def test_what_is_copied_as_files_is_named(plan_file: Path, tree: Rootfs) -> None:
    mysql, postgresql = copied_as_files("web", service(plan_file), tree)
    assert mysql.startswith("services.web.sync: /var/lib/mysql (MySQL or MariaDB) is copied file by file")
    assert "/var/lib/postgresql (PostgreSQL)" in postgresql
    assert "sync.consistency" in mysql


@pytest.mark.parametrize(
    "sync",
    [
        {"exclude": ["/var/lib/mysql", "/var/lib/postgresql/"]},
        {"exclude": ["/var/lib"]},
        {"engine": "periodic", "reconcile": "30s", "consistency": {"kind": "snapshot"}},
        {"engine": "periodic", "reconcile": "30s", "consistency": {"kind": "hook", "hook": {"before": "true"}}},
        {"consistency": {"kind": "native", "paths": ["/var/lib/mysql", "/var/lib/postgresql"], "by": "replication"}},
    ],
)
def test_what_is_taken_care_of_is_not(sync: dict[str, Any], plan_file: Path, tree: Rootfs) -> None:
    assert copied_as_files("web", service(plan_file, **sync), tree) == []


def test_a_path_beside_an_excluded_one(plan_file: Path, tree: Rootfs) -> None:
    (only,) = copied_as_files("web", service(plan_file, exclude=["/var/lib/my", "/var/lib/postgresql"]), tree)
    assert "/var/lib/mysql" in only


def test_a_database_beside_one_that_is_replicated(plan_file: Path, tree: Rootfs) -> None:
    consistency = {"kind": "native", "paths": ["/var/lib/mysql"], "by": "MariaDB replication"}
    (only,) = copied_as_files("web", service(plan_file, consistency=consistency), tree)
    assert "/var/lib/postgresql" in only
