"""Databases whose files a standby holds: copied one by one while the database writes, they may not fit together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from vcrecovery.plan.model import Service
from vcrecovery.transfer.rootfs import Rootfs

#: Where distributions' packages keep their data.
DATA: Mapping[str, str] = {
    "/var/lib/cassandra": "Cassandra",
    "/var/lib/clickhouse": "ClickHouse",
    "/var/lib/couchdb": "CouchDB",
    "/var/lib/dirsrv": "389 Directory Server",
    "/var/lib/elasticsearch": "Elasticsearch",
    "/var/lib/etcd": "etcd",
    "/var/lib/firebird": "Firebird",
    "/var/lib/influxdb": "InfluxDB",
    "/var/lib/ldap": "OpenLDAP",
    "/var/lib/mongo": "MongoDB",
    "/var/lib/mongodb": "MongoDB",
    "/var/lib/mysql": "MySQL or MariaDB",
    "/var/lib/neo4j": "Neo4j",
    "/var/lib/opensearch": "OpenSearch",
    "/var/lib/pgsql": "PostgreSQL",
    "/var/lib/postgresql": "PostgreSQL",
    "/var/lib/redis": "Redis",
    "/var/lib/valkey": "Valkey",
}


def copied_as_files(name: str, service: Service, tree: Rootfs) -> list[str]:
    """A warning for each database in `tree` that the plan syncs as plain files."""
    if service.sync.consistency.kind in ("snapshot", "hook"):
        return []
    left_out = [PurePosixPath(path) for path in service.sync.left_out]
    return [
        f"services.{name}.sync: {path} ({database}) is copied file by file while it is written to, and may not be "
        "usable on the standby; set sync.consistency, or leave it out with sync.exclude and replicate it"
        for path, database in DATA.items()
        if not any(PurePosixPath(path).is_relative_to(excluded) for excluded in left_out) and tree.holds_files(path)
    ]
