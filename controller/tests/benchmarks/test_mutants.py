"""The score of the tests: what counts as noticed, and that none that stays is forgotten."""

from __future__ import annotations

import pytest

from mutant_bench.outcome import KNOWN, Change, change_of, known, mutants_of, scores, total

RESULTS = """\
    vcrecovery.core.decide.x__may_start__mutmut_1: killed
    vcrecovery.core.decide.x__may_start__mutmut_2: survived
    vcrecovery.core.decide.x__may_start__mutmut_3: no tests
    vcrecovery.core.decide.x__may_start__mutmut_4: survived
    vcrecovery.drivers.dns.xǁZoneǁread__mutmut_1: timeout
    vcrecovery.drivers.dns.xǁZoneǁread__mutmut_2: caught by type check
    vcrecovery.drivers.dns.xǁZoneǁread__mutmut_3: suspicious
"""
SHOWN = """\
# vcrecovery.core.decide.x__may_start__mutmut_2: survived
--- src/vcrecovery/core/decide.py
+++ src/vcrecovery/core/decide.py
@@ -1,4 +1,4 @@
 def _may_start(left: float) -> bool:
-    return left > 0
+    return left >= 0
"""
REASON = """\
core.decide:
  - {before: return left > 0, after: return left >= 0, as: equivalent, why: "it is never 0"}
"""


def test_only_what_a_test_or_the_type_checker_finds_is_noticed() -> None:
    found = mutants_of(RESULTS)
    assert [(one.module, one.noticed) for one in found] == [
        *(("core.decide", noticed) for noticed in (True, False, False, False)),
        *(("drivers.dns", noticed) for noticed in (True, True, False)),
    ]


def test_one_that_changes_nothing_does_not_count() -> None:
    found = mutants_of(RESULTS)
    same = change_of(found[1], SHOWN)
    assert same == Change("core.decide", "return left > 0", "return left >= 0")
    left = {one.name: same if one is found[1] else Change(one.module, "x", one.name) for one in found}
    by_module = scores(found, left, known(REASON))
    assert by_module["core.decide"].share == pytest.approx(100 / 3)
    assert (total(by_module).mutants, total(by_module).noticed, total(by_module).equivalent) == (7, 3, 1)
    assert total(by_module).share == 50


@pytest.mark.parametrize("change", [("equivalent", "harmless"), ('"it is never 0"', '""')])
def test_a_known_one_has_a_reason(change: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match=r"^core.decide: 'return left >= 0': `as` is equivalent or stays"):
        known(REASON.replace(*change))


def test_each_known_one_here_has_one() -> None:
    changes = [one.change for one in known(KNOWN.read_text())]
    assert len(changes) == len(set(changes))
