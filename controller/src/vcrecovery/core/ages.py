"""How old a standby was within an hour, a day or a month: a histogram that can be added up. Pure. Times in seconds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

#: The upper bound of the first bucket. Each bucket is wider than the one before by GROWTH, so that a percentile is told
#: at most so much too high, however old a standby gets.
FIRST = 0.1
GROWTH = 2**0.25
#: The last bucket takes all that is older: by then it is a year.
LAST = math.ceil(math.log(366 * 86400 / FIRST, GROWTH))


def bucket_of(age: float) -> int:
    if age <= FIRST:
        return 0
    # An age that is a bound itself belongs below it, whatever the logarithm rounds to.
    return min(LAST, math.ceil(math.log(age / FIRST, GROWTH) - 1e-9))


def upper_bound(bucket: int) -> float:
    """Never below an age in that bucket, whatever the power rounds to."""
    return float(FIRST * GROWTH**bucket * (1 + 1e-9))


@dataclass(frozen=True)
class Ages:
    """`buckets`: how many of the ages that were read fell into each. `most`: the greatest of them, exactly.

    `unknown`: how often none could be told, as before the first sync has ended.
    """

    buckets: Mapping[int, int] = field(default_factory=dict)
    most: float = 0.0
    unknown: int = 0

    @property
    def count(self) -> int:
        return sum(self.buckets.values())

    def percentile(self, part: float) -> float | None:
        """The age that this part of them, 0.0 to 1.0, did not exceed; never too low. None where none was read."""
        wanted = max(1, math.ceil(part * self.count))
        for bucket in sorted(self.buckets):
            wanted -= self.buckets[bucket]
            if wanted <= 0:
                return self.most if bucket == LAST else min(self.most, upper_bound(bucket))
        return None


NO_AGES = Ages()


def of_ages(ages: Iterable[float | None]) -> Ages:
    """From single looks; None for one that could tell no age."""
    found = list(ages)
    known = [age for age in found if age is not None]
    return Ages(Counter(map(bucket_of, known)), max(known, default=0.0), len(found) - len(known))


def added(parts: Iterable[Ages]) -> Ages:
    """All of them together."""
    buckets: Counter[int] = Counter()
    most, unknown = 0.0, 0
    for part in parts:
        buckets.update(part.buckets)
        most, unknown = max(most, part.most), unknown + part.unknown
    return Ages(dict(buckets), most, unknown)
