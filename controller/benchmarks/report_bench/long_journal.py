"""A journal as years of failures would leave it: made by SQL, since a million failovers would take weeks."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from vcrecovery.core.ages import of_ages
from vcrecovery.core.episode import Step
from vcrecovery.core.evidence import Answered, Confirmation, Fenced, Proof, Started, Switched, Verified
from vcrecovery.core.power import Power
from vcrecovery.store.evidence_json import written
from vcrecovery.store.freshness_book import KEPT, FreshnessBook, hour_of
from vcrecovery.store.journal import Journal

YEARS = 5
SERVICES = 100
PLAN = """\
version: 1
state_dir: {folder}/state
hypervisors:
  hv1: {{uri: "qemu:///system?socket={folder}/no-libvirt"}}
secondaries:
  sec1:
    lxd: {folder}/no-lxd.socket
    network: {{bridge: vcr0, address: 10.20.0.1/24}}
    receiver: {{address: 10.10.0.1}}
services:
"""
_SERVICE = """\
  service{n}:
    primary:
      {{hypervisor: hv1, uuid: 6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e{n:04x}, address: 127.0.1.{address}}}
    standby: {{secondary: sec1, address: 10.20.0.{address}}}
    ports: [9]
    targets: {{rto: 30s, rpo: 1m}}
"""
_PROOFS: tuple[tuple[Step, Proof, float], ...] = (
    (Step.CONFIRM, Confirmation(Power.SHUTOFF, "hv1", "crashed", freshness=8.4, summary="hv1: shutoff (crashed)"), 0.2),
    (Step.FENCE, Fenced("hv1: shutoff (crashed)"), 0.1),
    (Step.START, Started("container on sec1: booted"), 1.0),
    (Step.PROBE, Answered("10.20.0.10:80", "10.20.0.10"), 3.0),
    (Step.SWITCH, Switched("www -> 10.20.0.10", {"www": ("10.10.0.10",)}), 0.1),
    (Step.VERIFY, Verified("on ns1, ns2"), 0.1),
)


def lay_out(folder: Path, episodes: int, now: float) -> Path:
    """The plan's file; its journal has so many episodes, evenly over the years."""
    services = "".join(_SERVICE.format(n=n, address=n + 10) for n in range(SERVICES))
    plan = folder / "plan.yml"
    plan.write_text(PLAN.format(folder=folder) + services)
    state = folder / "state"
    Journal(state / "journal.db")
    with sqlite3.connect(state / "journal.db") as db:
        db.execute("PRAGMA synchronous=OFF")
        _fill(db, episodes, now)
    db.close()
    _freshness(state, now)
    return plan


def _fill(db: sqlite3.Connection, episodes: int, now: float) -> None:
    begin, apart = now - YEARS * 365 * 86400, YEARS * 365 * 86400 / episodes
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {episodes})"  # noqa: S608
    request = '{"automatic": true, "force": false, "primary_is_down": false, "by": "watch", "symptom": "ended"}'
    db.execute(
        f"{numbers} INSERT INTO episode SELECT i, 'service' || (i % {SERVICES}), i / {SERVICES}, "  # noqa: S608
        "'libvirt: shutoff (crashed)', ?, ? + i * ?, ? + i * ? + 4.6, 'done', 'served by its standby' FROM n",
        (request, begin, apart, begin, apart),
    )
    # One never ended.
    db.execute("UPDATE episode SET closed_at = NULL, outcome = NULL WHERE id = 7")
    at = 0.0
    for step, proof, takes in _PROOFS:
        db.execute(
            "INSERT INTO step (episode, service, epoch, step, begun_at, ended_at, ok, evidence, sentence) "
            "SELECT id, service, epoch, ?, opened_at + ?, opened_at + ?, 1, ?, 'as the benchmark decided' FROM episode",
            (step.value, at, at + takes, written(proof)),
        )
        at += takes
    db.execute(
        f"{numbers} INSERT INTO outage (service, began_at, ended_at, why) SELECT 'service' || (i % {SERVICES}), "  # noqa: S608
        "? + i * ?, ? + i * ? + 5, 'connection refused' FROM n WHERE i % 10 = 0",
        (begin, apart, begin, apart),
    )


def _freshness(state: Path, now: float) -> None:
    book, ages = FreshnessBook(state), of_ages([1 + n / 36 for n in range(360)])
    hours = range(hour_of(now - KEPT) + 1, hour_of(now) + 1)
    book.add({(f"service{n}", hour): ages for hour in hours for n in range(SERVICES)}, now)
    book.close()
