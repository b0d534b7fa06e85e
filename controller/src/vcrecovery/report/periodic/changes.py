"""What has changed since an earlier report, from both as data. Pure.

The earlier one is a file that another version wrote, or somebody else: whatever of it is not as it should be counts as
not said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from vcrecovery.core.text import plain
from vcrecovery.report.periodic.words import seconds

#: A percentile that is so many times another one is worth a line; below a second, nothing is.
_NOTABLE, _SMALL = 2.0, 1.0


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """A sentence each; none where nothing has changed."""
    parts = (_services, _providers, _findings, _targets, _freshness, _costs)
    return [plain(sentence) for part in parts for sentence in part(before, now)]


def _services(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    old, new = _map(before, "services"), _map(now, "services")
    if added := sorted(new.keys() - old.keys()):
        yield f"New in the plan: {', '.join(added)}."
    if gone := sorted(old.keys() - new.keys()):
        yield f"No longer in the plan: {', '.join(gone)}."
    for name in sorted(old.keys() & new.keys()):
        was, has = _map(old, name), _map(new, name)
        if was.get("mode") != has.get("mode"):
            yield f"{name}: its standby waits {has.get('mode')}; it was {was.get('mode')}."
        for key, word in (("rto_target", "RTO"), ("rpo_target", "RPO")):
            if was.get(key) != has.get(key):
                yield f"{name}: its {word} target is {_age(has.get(key))}; it was {_age(was.get(key))}."


def _providers(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """One whose services are all those of another name is the same one, renamed."""
    old, new = _by_provider(before), _by_provider(now)
    renamed = {
        was: has
        for was, of_old in old.items()
        for has, of_new in new.items()
        if was not in new and has not in old and of_old == of_new
    }
    for was, has in sorted(renamed.items()):
        yield f"Provider {was} is now called {has}; its services are the same."
    known = set(renamed) | set(renamed.values())
    if added := sorted(new.keys() - old.keys() - known):
        yield f"New providers: {', '.join(added)}."
    if gone := sorted(old.keys() - new.keys() - known):
        yield f"Providers without a service: {', '.join(gone)}."


def _by_provider(data: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    services = _map(data, "services")
    for name in services:
        provider = _map(services, name).get("provider")
        if isinstance(provider, str):
            found.setdefault(provider, set()).add(name)
    return {provider: frozenset(names) for provider, names in found.items()}


def _findings(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    old, new = _by_service(before), _by_service(now)
    known = _map(now, "services")
    for name in sorted(new.keys() - old.keys()):
        yield f"{name} needs attention; it did not before."
    for name in sorted((old.keys() - new.keys()) & known.keys()):
        yield f"{name} needs no attention any more."


def _by_service(data: Mapping[str, Any]) -> dict[str, None]:
    found = data.get("findings")
    rows = found if isinstance(found, list) else []
    return {str(row["service"]): None for row in rows if isinstance(row, Mapping) and "service" in row}


def _targets(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    was, has = _missed(before), _missed(now)
    if was != has:
        yield f"Targets missed: {has}, after {was} in the report before."


def _missed(data: Mapping[str, Any]) -> int:
    found = data.get("operations")
    rows = found if isinstance(found, list) else []
    return sum(
        isinstance(row, Mapping) and "missed" in (row.get("rto_verdict"), row.get("rpo_verdict")) for row in rows
    )


def _freshness(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    old, new = _map(before, "freshness"), _map(now, "freshness")
    for name in sorted(old.keys() & new.keys()):
        was, has = _number(_map(old, name).get("p95")), _number(_map(new, name).get("p95"))
        if was is None or has is None or max(was, has) < _SMALL:
            continue
        if has >= _NOTABLE * was or was >= _NOTABLE * has:
            word = "older" if has > was else "fresher"
            yield f"{name}: its standby is {word}: 95 % of the time up to {seconds(has)}, after {seconds(was)}."


def _costs(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    old, new = _map(before, "costs"), _map(now, "costs")
    if not old or not new:
        if old and not new:
            yield "The cost cannot be reckoned any more."
        return
    currency = new.get("currency")
    if old.get("currency") != currency:
        yield f"Sums are in {currency} now; they were in {old.get('currency')}."
        return
    was, has = _this_plan(old), _this_plan(new)
    if was is not None and has is not None and was != has:
        word = "more" if has > was else "less"
        yield f"This plan costs {has:,} {currency} a month: {abs(has - was):,} {word} than before."


def _this_plan(costs: Mapping[str, Any]) -> Decimal | None:
    rows = costs.get("alternatives")
    first = rows[0] if isinstance(rows, list) and rows else None
    try:
        found = Decimal(str(first["month"])) if isinstance(first, Mapping) and first.get("month") else None
    except InvalidOperation:
        return None
    return found if found is not None and found.is_finite() else None


def _map(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = data.get(key)
    return found if isinstance(found, Mapping) else {}


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e12 else None


def _age(value: Any) -> str:
    found = _number(value)
    return "none" if found is None else seconds(found)
