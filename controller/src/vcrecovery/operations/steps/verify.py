"""Verify: everybody who asks is led to the one that serves."""

from __future__ import annotations

from vcrecovery.core.evidence import Verified
from vcrecovery.core.service_state import Side
from vcrecovery.operations import records, virtual_address
from vcrecovery.operations.steps.subject import Subject


def verify(subject: Subject) -> Verified:
    # The virtual address may have gone since, with a restart of this machine.
    virtual_address.keep(subject.env, subject.service)
    servers = records.verify(subject.names, subject.service.timeouts.dns)
    return Verified(f"on {', '.join(servers) or 'this machine'}")


def verify_back(subject: Subject) -> Verified:
    names = records.names_of(subject.env, subject.service, Side.PRIMARY)
    servers = records.verify(names, subject.service.timeouts.dns)
    return Verified(f"on {', '.join(servers) or 'this machine'}")
