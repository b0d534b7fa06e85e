"""Switch: the names and the virtual address lead to the standby, or back to the VM."""

from __future__ import annotations

from vcrecovery.core.episode import Episode
from vcrecovery.core.evidence import Switched
from vcrecovery.core.service_state import Side
from vcrecovery.errors import ExternalError
from vcrecovery.operations import records, virtual_address
from vcrecovery.operations.steps.subject import Subject


def switch(subject: Subject, episode: Episode) -> Switched:
    # DNS first: it knows whether another controller has a newer epoch. A server that is down holds nothing else up.
    try:
        before = records.switch(subject.names, episode.epoch)
    except ExternalError:
        virtual_address.take(subject.env, subject.service)
        raise
    moved = virtual_address.take(subject.env, subject.service)
    named = [records.summary(subject.names)] if subject.names else []
    return Switched("; ".join([*named, *moved]), {name: tuple(values) for name, values in before.items()})


def switch_back(subject: Subject, episode: Episode) -> Switched:
    """The virtual address was given up before the VM served."""
    names = records.names_of(subject.env, subject.service, Side.PRIMARY)
    before = records.switch(names, episode.epoch)
    return Switched(records.summary(names), {name: tuple(values) for name, values in before.items()})
