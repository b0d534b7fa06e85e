"""Which of the VM's SSH connections to its secondary is used; options of ssh."""

from __future__ import annotations

from .settings import Settings

#: A long transfer would hold up lsyncd's small ones on a connection that they share.
OWN_CONNECTION = "ControlPath=none"


def shared_connection(settings: Settings) -> str:
    """Of passes back and the questions between them: an emulated machine needs two seconds for each new one.

    Not lsyncd's, which is ended by somebody else.
    """
    return f"ControlPath={settings.run_dir}/back-%C"
