"""The boot of a standby VM in a standby's order: what answers its port first, the rest once that runs."""

from __future__ import annotations

import shlex

from vcrecovery.excludes.machine_specific import REST_UNIT
from vcrecovery.standby.modes import rest_units

_UNITS = "/etc/systemd/system"
_TARGET = "service-first.target"
#: What a boot went to before, and the rest still goes to.
_WHOLE = "multi-user.target"
#: Brings up the address, which a container has from its secondary before it boots.
_NETWORK = "networking.service"


def units(unit: str) -> dict[str, str]:
    """Files for a VM whose service is `unit`, besides the target's being the default one."""
    wants = f"Wants=sysinit.target {_NETWORK} {unit} {REST_UNIT}\n"
    texts = {name: text.replace("default.target", _WHOLE) for name, text in rest_units([unit]).items()}
    texts[_TARGET] = f"[Unit]\nDescription=The service first\nAllowIsolate=yes\n{wants}"
    return {f"{_UNITS}/{name}": text for name, text in texts.items()}


def command(unit: str) -> str:
    """A shell command that makes a VM boot so from the next time on."""
    writes = [f"printf %s {shlex.quote(text)} >{path}" for path, text in units(unit).items()]
    return " && ".join([*writes, f"systemctl set-default {_TARGET}"])
