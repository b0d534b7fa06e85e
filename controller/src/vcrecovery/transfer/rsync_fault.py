"""Whether this machine's rsync can take what a primary's lsyncd sends."""

from __future__ import annotations

from vcrecovery.drivers.process import run
from vcrecovery.errors import ExternalError

#: Nothing is changed by it. A path that is not there is to be deleted, in a folder that is there, as lsyncd names them.
_TRIAL = ("rsync", "--dry-run", "--dirs", "--delete-missing-args", "--from0", "--files-from=-", "/", "/")
_SECONDS = 30.0


def what_is_wrong() -> str:
    """A line with the way out; empty when all is well.

    rsync 3.4.3, and the distributions' security updates that took over its change, refuse every deletion that is named:
    no sync would ever end.
    """
    try:
        run(_TRIAL, timeout=_SECONDS, stdin=b"etc/vcrecovery-is-not-there")
    except ExternalError as error:
        return (
            f"this machine's rsync takes no deletions, so that no sync ends (rsync 3.4.3 and some security updates of "
            f"older versions are like that): {error.message}; install a newer one, Debian 12's from bookworm-security"
        )
    return ""
