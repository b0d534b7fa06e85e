"""How the journal keeps what a step saw or proved: as JSON with a version, read back as the type that it was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pydantic import TypeAdapter, ValidationError

from vcrecovery.core.episode import Step
from vcrecovery.core.evidence import (
    Answered,
    Booted,
    Complete,
    Confirmation,
    Copied,
    Evidence,
    Failed,
    Fenced,
    HandedOver,
    Kept,
    PoweredOn,
    Proof,
    Receives,
    Restored,
    ShutDown,
    Started,
    Stopped,
    Switched,
    Synced,
    TakenBack,
    Unreadable,
    Verified,
)

#: Of what is written here. What has none was written before there was one, with the same keys.
VERSION = 1
_PROOF_OF: Mapping[Step, type[Proof]] = {
    Step.CONFIRM: Confirmation,
    Step.SHUTDOWN: ShutDown,
    Step.LAST_FILES: Complete,
    Step.TAKE_BACK: TakenBack,
    Step.BOOT: Booted,
    Step.COPY: Copied,
    Step.STOP: Stopped,
    Step.LAST_COPY: Copied,
    Step.HAND_OVER: HandedOver,
    Step.RECEIVE: Receives,
    Step.SYNC: Synced,
    Step.FENCE: Fenced,
    Step.POWER_ON: PoweredOn,
    Step.RESTORE: Restored,
    Step.START: Started,
    Step.PROBE: Answered,
    Step.SWITCH: Switched,
    Step.VERIFY: Verified,
    Step.KEEP: Kept,
}

#: What is left out where there is nothing of it.
_SELDOM = frozenset({"hooks", "reached", "keeps_address"})

_ADAPTERS: dict[type[Evidence], TypeAdapter[Any]] = {}


def evidence_data(evidence: Evidence | None) -> dict[str, Any]:
    """For machines, and for what shows a person everything."""
    if evidence is None:
        return {}
    if isinstance(evidence, Unreadable):
        return dict(evidence.data)
    # Nearly none has these.
    return {key: value for key, value in asdict(evidence).items() if key not in _SELDOM or value}


def written(evidence: Evidence) -> str:
    return json.dumps({"version": VERSION, **evidence_data(evidence)})


def read(step: Step, *, ok: bool, text: str) -> Evidence | None:
    """What a try of `step` left; None for one that has not ended.

    Raises ValueError for evidence of a later version.
    """
    found = json.loads(text)
    if (version := found.pop("version", VERSION)) > VERSION:
        raise ValueError(f"evidence of version {version}")
    return of_data(step, ok=ok, data=found) if found else None


def of_data(step: Step, *, ok: bool, data: Mapping[str, Any]) -> Evidence:
    """Keys that this version does not know are left out."""
    try:
        evidence: Evidence = _adapter(_PROOF_OF[step] if ok else Failed).validate_python(data)
    except ValidationError:
        return Unreadable(dict(data))
    return evidence


def _adapter(kind: type[Evidence]) -> TypeAdapter[Any]:
    """Made when it is first needed: most verbs read no evidence."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]
