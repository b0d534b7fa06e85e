"""The score of the tests: what counts as noticed, and that none that stays is forgotten."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import vcrecovery
from exclude_bench.target import failures
from mutant_bench.__main__ import WANTED, Results, targets_of, text
from mutant_bench.outcome import KNOWN, LAB, Change, Mutant, known, scores, stale, total
from mutant_bench.place import WITHOUT_TOO, prepare
from vcrecovery_lab.run import LabError

DECIDE, READ = "vcrecovery.core.decide.x__may_start__mutmut_", "vcrecovery.drivers.dns.xǁZoneǁread__mutmut_"
SHOWN = """\
--- src/vcrecovery/core/decide.py
+++ src/vcrecovery/core/decide.py
@@ -1,4 +1,4 @@
 def _may_start(left: float) -> bool:
-    return left > 0
+    return left >= 0
"""
FOUND = [
    Mutant(f"{DECIDE}1", "killed", ""),
    Mutant(f"{DECIDE}2", "survived", SHOWN),
    Mutant(f"{DECIDE}3", "no tests", "-a\n+b"),
    Mutant(f"{DECIDE}4", "survived", "-a\n+c"),
    Mutant(f"{READ}1", "timeout", ""),
    Mutant(f"{READ}2", "types", ""),
    Mutant(f"{READ}3", "survived", "-d\n+e"),
]
REASON = """\
core.decide:
  - {before: return left > 0, after: return left >= 0, as: equivalent, why: "it is never 0"}
"""


def test_only_what_a_test_or_the_type_checker_finds_is_noticed() -> None:
    assert [(one.module, one.noticed) for one in FOUND] == [
        *(("core.decide", noticed) for noticed in (True, False, False, False)),
        *(("drivers.dns", noticed) for noticed in (True, True, False)),
    ]


def test_one_that_changes_nothing_does_not_count() -> None:
    assert FOUND[1].change == Change("core.decide", "return left > 0", "return left >= 0")
    by_module = scores(FOUND, known(REASON))
    assert by_module["core.decide"].share == pytest.approx(100 / 3)
    of_all = total(by_module.values())
    assert (of_all.mutants, of_all.by_types, of_all.by_tests, of_all.equivalent, of_all.left) == (7, 1, 2, 1, 3)
    assert of_all.share == 50


@pytest.mark.parametrize("word", ["lab", "stays"])
def test_one_that_only_the_lab_notices_counts_as_not_noticed(word: str) -> None:
    of_all = total(scores(FOUND, known(REASON.replace("equivalent", word))).values())
    assert (of_all.equivalent, of_all.left) == (0, 3)
    assert of_all.share == pytest.approx(300 / 7)


@pytest.mark.parametrize("change", [("equivalent", "harmless"), ('"it is never 0"', '""')])
def test_a_known_one_has_a_reason(change: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match=r"^core.decide: 'return left >= 0': `as` is equivalent, lab or stays"):
        known(REASON.replace(*change))


def test_a_reason_is_stale_once_a_test_notices_or_the_line_is_another() -> None:
    reasons = known(REASON)
    assert stale(FOUND, reasons) == []
    assert stale([Mutant(f"{DECIDE}2", "killed", SHOWN)], reasons) == [reasons[0].change]
    assert stale([FOUND[0]], reasons) == [reasons[0].change]
    assert stale([FOUND[-1]], reasons) == []  # of a module that was not broken nothing is known


@pytest.mark.parametrize(
    ("noticed", "left", "old", "says"),
    [
        (96.0, 0, 0, ""),
        (94.9, 0, 0, "noticed of what is not equivalent: MISSED by 0.1 %"),
        (96.0, 1, 0, "not noticed, without a reason: MISSED by 1"),
        (96.0, 0, 1, "stale reasons: MISSED by 1"),
    ],
)
def test_it_fails_where_the_score_does_not_hold_or_one_that_stays_has_no_reason(
    noticed: float, left: int, old: int, says: str
) -> None:
    assert WANTED == 95
    assert "; ".join(failures(targets_of(noticed, left, old, 0))) == says


def test_what_it_says_names_those_without_a_reason() -> None:
    said = text(Results(scores(FOUND, []), [FOUND[1].change], [], [], 1.0, targets_of(42.9, 1, 0, 0)))
    assert re.search(r"core\.decide +4 +0 +1 +0 +0 +0 +3 +25\.0 %", said)
    assert re.search(r"core\.decide +return left > 0 +return left >= 0", said)


def test_a_module_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"there is no controller/src/vcrecovery/core/fence\.py: name modules as in"):
        prepare(tmp_path, ["core/fence.py"])


def test_each_test_that_is_left_out_is_there() -> None:
    for file, name in (one.split("::") for one in WITHOUT_TOO):
        assert f"def {name}(" in (Path(__file__).parents[2] / file).read_text()


def test_each_known_one_here_is_of_a_line_that_is_there() -> None:
    reasons = known(KNOWN.read_text())
    changes = [one.change for one in reasons]
    assert len(changes) == len(set(changes))
    package = Path(inspect.getfile(vcrecovery)).parent
    for change in changes:
        lines = (package / f"{change.module.replace('.', '/')}.py").read_text().splitlines()
        assert change.before in " ".join(line.strip() for line in lines), f"{change}: stale"


def test_one_for_the_lab_names_the_test_that_notices_it() -> None:
    for one in known(KNOWN.read_text()):
        if one.as_ == LAB:
            named = re.search(r"\b(test_[a-z]_\w+\.py)::(test_\w+)", one.why)
            assert named, f"{one.change}: `why` names the test as test_x_y.py::test_z"
            assert f"def {named[2]}(" in (Path(__file__).parents[1] / "lab" / named[1]).read_text()
