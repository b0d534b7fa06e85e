"""What the benchmarks' commands have in common: options, a scratch folder, and what is said at the end."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from vcrecovery.errors import VCRecoveryError
from vcrecovery.excludes import ExcludeError
from vcrecovery_lab.run import LabError

from .scratch import default_parent, scratch_folder
from .target import Target, failures


class _WithTargets(Protocol):
    @property
    def targets(self) -> Sequence[Target]: ...


Results = TypeVar("Results", bound=_WithTargets)


def as_json(results: Any) -> str:
    """For machines: a dataclass with `targets`. The figure of a void one is null, and it is not met."""
    document = asdict(results)
    for entry, target in zip(document["targets"], results.targets, strict=True):
        entry["met"] = target.met
        entry["verdict"] = target.verdict
        if target.void:
            entry["measured"] = None
    return json.dumps(document, indent=1) + "\n"


@dataclass(frozen=True)
class Benchmark(Generic[Results]):
    """`measure` gets a folder that is removed afterwards, whether to be quick, and the seed.

    `instead`: an option -> what `--help` says of it, and what measures with it.
    """

    name: str
    about: str
    seed_of: str
    measure: Callable[[Path, bool, int], Results]
    text: Callable[[Results], str]
    work_help: str = "where the tree is made and removed again"
    work: Path | None = None
    instead: Mapping[str, tuple[str, Callable[[Path, bool, int], Results]]] = field(default_factory=dict)

    def main(self) -> int:
        """The exit status: 0 although a limit was missed, since this is a measurement; 1 where a figure is void."""
        parser = argparse.ArgumentParser(prog=self.name, description=self.about)
        parser.add_argument("--quick", action="store_true", help="everything small: only to see that it runs")
        parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE too")
        parser.add_argument("--work", type=Path, metavar="FOLDER", default=self.work, help=self.work_help)
        parser.add_argument("--seed", type=int, default=1, help=f"of {self.seed_of} (default: 1)")
        parser.set_defaults(measure=self.measure)
        for option, (text, measure) in self.instead.items():
            parser.add_argument(option, dest="measure", action="store_const", const=measure, help=text)
        options = parser.parse_args()
        try:
            with scratch_folder(options.work or default_parent()) as folder:
                results: Results = options.measure(folder, options.quick, options.seed)
            # First what a person reads: half an hour of measuring must not be lost to a file that cannot be written.
            sys.stdout.write(self.text(results))
            sys.stdout.flush()
            if options.json:
                options.json.write_text(as_json(results), encoding="utf-8")
        except (VCRecoveryError, ExcludeError, LabError, OSError) as error:
            sys.stderr.write(f"{self.name}: {error}\n")
            return 1
        except KeyboardInterrupt:
            sys.stderr.write(f"{self.name}: interrupted\n")
            return 130
        failed = failures(results.targets)
        for line in failed:
            sys.stderr.write(f"{self.name}: {line}\n")
        return 1 if failed else 0
