"""Verify: everybody who asks is led to the one that serves."""

from __future__ import annotations

from vcrecovery.core.episode import Episode
from vcrecovery.core.evidence import Verified
from vcrecovery.operations import records, virtual_address
from vcrecovery.operations.steps.subject import Subject


def verify(subject: Subject, episode: Episode) -> Verified:
    if not episode.request.back:
        # The virtual address may have gone since, with a restart of this machine.
        virtual_address.keep(subject.env, subject.service)
    servers = records.verify(subject.names_after(episode), subject.service.timeouts.dns)
    return Verified(f"on {', '.join(servers) or 'this machine'}")
