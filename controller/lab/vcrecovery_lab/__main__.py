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
from .recipe import Recipe
from .run import LabError

#: Of the VM; the lab's own recipe is for the first one.
_RELEASES = {"12": None, "13": Recipe(suite="trixie")}


def main() -> int:
    """Carries out one verb; the exit status."""
    parser = argparse.ArgumentParser(prog="vcrecovery_lab", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("image", help="build the VMs' image, if it is not in the cache")
    for name, text in (
        ("up", "lay out the lab"),
        ("demo", "lay out the lab, crash the primary, show the failover"),
    ):
        made = verbs.add_parser(name, help=text)
        made.add_argument("--debian", choices=_RELEASES, default="12", help="the VM's release (default: 12)")
    verbs.add_parser("down", help="remove everything that the lab made")
    words = parser.parse_args()
    if os.geteuid() != 0:
        sys.stderr.write("lab: run this as root: it makes VMs, containers and bridges\n")
        return 1
    layout = read_layout()
    try:
        match words.verb:
            case "image":
                ensure_image(DEFAULT_CACHE, stderr_progress)
            case "up":
                up(layout, _RELEASES[words.debian])
            case "demo":
                down(layout)
                demo(layout, up(layout, _RELEASES[words.debian]))
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
