"""What the sync has sent, as systemd has the kernel count it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from vcrecovery.primary.programs import ProgramError
from vcrecovery.primary.sent_bytes import SLICE, SentBytes, sent_bytes


class Systemd:
    def __init__(self, said: str | None) -> None:
        self.said, self.asked = said, 0

    def __call__(self, command: Sequence[str], _timeout: float) -> str:
        self.asked += 1
        assert command[-1] == SLICE
        if self.said is None:
            raise ProgramError("systemctl: Failed to connect to bus")
        return f"IPEgressBytes={self.said}\n"


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("0", 0),
        ("123456789012", 123456789012),
        ("[no data]", None),
        ("18446744073709551615", None),
        (None, None),
        ("", None),
    ],
)
def test_what_nobody_counts_is_unknown(said: str | None, found: int | None) -> None:
    assert sent_bytes(Systemd(said)) == found


def test_it_is_looked_at_once_a_minute_also_with_a_clock_that_is_set_back() -> None:
    systemd = Systemd("5")
    sent = SentBytes(systemd)
    assert {sent.at(1000.0 + second) for second in range(120)} == {5}
    assert systemd.asked == 2
    systemd.said = "9"
    assert sent.at(10.0) == 9
