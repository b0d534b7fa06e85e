"""Switch: the names and the virtual address lead to the standby; after a failback, the names lead to the VM."""

from __future__ import annotations

from vcrecovery.core.episode import Episode
from vcrecovery.core.evidence import Switched
from vcrecovery.errors import ExternalError
from vcrecovery.operations import records, virtual_address
from vcrecovery.operations.steps.subject import Subject


def switch(subject: Subject, episode: Episode) -> Switched:
    names = subject.names_after(episode)
    # DNS first: it knows whether another controller has a newer epoch. A server that is down holds nothing else up.
    try:
        before = records.switch(names, episode.epoch)
    except ExternalError:
        _take_the_address(subject, episode)
        raise
    moved = _take_the_address(subject, episode)
    named = [records.summary(names)] if names else []
    return Switched("; ".join([*named, *moved]), {name: tuple(values) for name, values in before.items()})


def _take_the_address(subject: Subject, episode: Episode) -> list[str]:
    """What has moved. A failback has given it up before its VM served."""
    return [] if episode.request.back else virtual_address.take(subject.env, subject.service)
