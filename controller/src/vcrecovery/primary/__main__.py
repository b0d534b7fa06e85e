"""`python3 -m vcrecovery.primary VERB`, which systemd and the role `primary` run in the VM."""

from __future__ import annotations

import argparse
import sys
from typing import List, Optional

from ..excludes.errors import ExcludeError
from .heartbeat import beat
from .last_files import send_last_files
from .package_runs import take_mark, wait_until_idle
from .programs import ProgramError, run
from .receivers import until_found
from .reconcile import ReconcileError, reconcile
from .refresh import refresh
from .settings import DEFAULT_PATH, Settings, read_settings
from .superseded import until_it_may_serve
from .watched_mounts import WatchedMounts
from .watches import WatchError, ensure_watches
from .who_serves import at_boot

_PACKAGE_RUN_SECONDS = 900.0
_VERBS = {
    "refresh": "regenerate the exclude list after a package run",
    "reconcile": "compare the whole tree with the standby and send what differs",
    "watches": "raise inotify's limit to what the tree needs",
    "find-receiver": "after a session that failed: ask each secondary whether the standby waits there by now",
    "beat": "stamp the heartbeat file, for ever",
    "who-serves": "at boot: ask the secondary, and start no service where the standby serves",
    "superseded": "copy the standby's files back when told to; once this VM is to serve, start its services",
    "last-files": "send what the services have left, once they have stopped",
}


def main(arguments: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="vcrecovery.primary", description=__doc__)
    parser.add_argument("verb", choices=sorted(_VERBS), help="; ".join(f"{n}: {text}" for n, text in _VERBS.items()))
    parser.add_argument("--settings", default=DEFAULT_PATH, metavar="FILE")
    parser.add_argument("--patience", type=float, default=15.0, metavar="SECONDS", help="of who-serves")
    parser.add_argument("--every", type=float, default=10.0, metavar="SECONDS", help="of beat")
    options = parser.parse_args(arguments)
    try:
        settings = read_settings(options.settings)
        if options.verb == "refresh":
            _refresh(settings)
        elif options.verb == "reconcile":
            _reconcile(settings)
        elif options.verb == "watches":
            print(ensure_watches(settings.source, settings.lists["lsyncd"]))
        elif options.verb == "who-serves":
            at_boot(settings, run, print, options.patience)
        elif options.verb == "find-receiver":
            until_found(settings, run, lambda line: print(line, flush=True))
        elif options.verb == "superseded":
            until_it_may_serve(settings, run, lambda line: print(line, flush=True))
        elif options.verb == "last-files":
            done = send_last_files(settings, run)
            if done is None:
                print("this machine goes on: nothing is sent")
            else:
                print(f"the standby is complete: {done.files} files, {done.bytes} bytes sent last")
        else:
            mounts = WatchedMounts(settings, lambda: _tell_sync(settings), lambda line: print(line, flush=True))
            beat(
                settings.state_dir, settings.run_dir, options.every, units=settings.units, receivers=settings.receivers,
                look=mounts.look,
            )  # fmt: skip
    except ExcludeError as error:
        print(f"error: {error}; the list stays as it was", file=sys.stderr)
        return 1
    except (ReconcileError, ProgramError, WatchError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def _refresh(settings: Settings) -> None:
    if not wait_until_idle(_PACKAGE_RUN_SECONDS):
        print(f"a package run has not ended for {_PACKAGE_RUN_SECONDS:.0f} s; reading the packages as they are")
    take_mark()
    written = refresh(settings, lambda: _tell_sync(settings))
    print(f"changed: {', '.join(written)}" if written else "unchanged")


def _reconcile(settings: Settings) -> None:
    report = reconcile(settings, run, lambda: _tell_sync(settings), lambda line: print(line, flush=True))
    seconds = report["ended"] - report["began"]
    print(f"whole: {report['changes']} changes, {report['files']} files, {report['bytes']} bytes sent, {seconds:.1f} s")
    if report["list_error"]:
        print(f"warning: {report['list_error']}; the list stays as it was", file=sys.stderr)


def _tell_sync(settings: Settings) -> None:
    # lsyncd reads its list at its start only, and has the whole tree compared then.
    if settings.engine == "lsyncd":
        run(["systemctl", "--no-block", "try-restart", "vcrecovery-sync.service"], 60)


if __name__ == "__main__":
    sys.exit(main())
