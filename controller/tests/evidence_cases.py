"""What steps that were done have left, for tests in which most of it does not matter."""

from __future__ import annotations

from typing import Any

from vcrecovery.core.episode import Step
from vcrecovery.core.evidence import Failed, Proof, Unreadable
from vcrecovery.store.evidence_json import of_data


def proof(step: Step, **data: Any) -> Proof:
    """As the journal would read it back. A confirmation, if not said otherwise, of a primary that is off."""
    found = of_data(step, ok=True, data={"power": "shutoff", **data} if step is Step.CONFIRM else data)
    assert not isinstance(found, Failed | Unreadable)
    return found
