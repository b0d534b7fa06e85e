"""The price sources that a plan names. What reads each is loaded for those that have one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from vcrecovery.cost.prices import PriceSource
from vcrecovery.plan.costs import Costs


def sources_of(costs: Costs, cache: Path, tell: Callable[[str], None]) -> Iterator[PriceSource]:
    """`cache`: a folder for what takes long to read; `tell`: how far that is."""
    for entry in costs.prices:
        if entry.file is not None:
            from vcrecovery.cost.price_file import PriceFile

            yield PriceFile(entry.file)
        elif entry.csv is not None:
            from vcrecovery.cost.csv_prices import CsvPrices

            yield CsvPrices(entry.csv)
        elif entry.aws is not None and entry.region is not None:
            from vcrecovery.cost.aws_offers import AwsOffers

            yield AwsOffers(entry.aws, entry.region, entry.operating_system, cache, tell)
