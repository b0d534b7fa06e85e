"""The four services that come back."""

from __future__ import annotations

from vcrecovery.plan.modes import Mode

from .answers import DATABASE, WEB
from .rounds import Way

#: As in the paper, section V.A, with nginx for Apache and MariaDB for MySQL.
SERVICES = {"web1": WEB, "web2": WEB, "web3": WEB, "db1": DATABASE}
MODES = {Way.COLD: Mode.COLD, Way.FROZEN: Mode.FROZEN, Way.WARM: Mode.WARM, Way.HOT: Mode.HOT}
#: Patient with an emulated CPU.
TIMEOUTS = {"start": "15m", "ports": "15m"}
