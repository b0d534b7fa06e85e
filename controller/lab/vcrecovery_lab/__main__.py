"""`python -m vcrecovery_lab up | demo | down`."""

from __future__ import annotations

import argparse
import os
import sys

from vcrecovery.errors import VCRecoveryError

from .demo import demo
from .image import DEFAULT_CACHE, ensure_image
from .lab import down, up
from .layout import read_layout
from .progress import stderr_progress
from .run import LabError


def main() -> int:
    """Carries out one verb; the exit status."""
    parser = argparse.ArgumentParser(prog="vcrecovery_lab", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("image", help="build the VMs' image, if it is not in the cache")
    verbs.add_parser("up", help="lay out the lab")
    verbs.add_parser("demo", help="lay out the lab, crash the primary, show the failover")
    verbs.add_parser("down", help="remove everything that the lab made")
    verb = parser.parse_args().verb
    if os.geteuid() != 0:
        sys.stderr.write("lab: run this as root: it makes VMs, containers and bridges\n")
        return 1
    layout = read_layout()
    try:
        match verb:
            case "image":
                ensure_image(DEFAULT_CACHE, stderr_progress)
            case "up":
                up(layout)
            case "demo":
                down(layout)
                demo(layout, up(layout))
            case "down":
                down(layout)
    except (LabError, VCRecoveryError) as error:
        sys.stderr.write(f"lab: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("lab: interrupted; `make lab-down` removes what is there\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
