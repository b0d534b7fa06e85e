"""Files that belong to excluded packages although no package database knows them."""

from __future__ import annotations

import os
import re
from typing import AbstractSet, Dict, Iterable, List, NamedTuple, Sequence, Set

from .canonical import Canonical
from .globbing import capturing, literal, live_matches
from .packages import Alternative, Package
from .rules import GeneratedRule


class Claim(NamedTuple):
    """A live path that a rule gives to packages."""

    path: bytes
    packages: List[Package]


def claims(
    rules: Iterable[GeneratedRule],
    backend: str,
    installed: Sequence[Package],
    excluded: AbstractSet[Package],
    canonical: Canonical,
) -> Dict[bytes, Claim]:
    """The live generated paths all of whose packages are excluded, by path.

    A path that the rules give to several installed packages is theirs together, like a shared file: the
    symlink /vmlinuz is every kernel's, and stays as long as one kernel stays.
    """
    found: Dict[bytes, Claim] = {}
    for rule in rules:
        if rule.backend != backend:
            continue
        patterns = [capturing(pattern) for pattern in rule.packages]
        if not any(pattern.fullmatch(package.name) for package in excluded for pattern in patterns):
            continue
        for package in installed:
            for match in filter(None, (pattern.fullmatch(package.name) for pattern in patterns)):
                for path in _expanded(rule, package, match.groups(), canonical):
                    found.setdefault(path, Claim(path, [])).packages.append(package)
    return {path: claim for path, claim in found.items() if all(p in excluded for p in claim.packages)}


def forced_paths(patterns: Iterable[str], canonical: Canonical) -> Set[bytes]:
    """The live paths, directories apart, that a profile excludes whoever owns them."""
    found: Set[bytes] = set()
    for pattern in patterns:
        for path in live_matches(canonical, os.fsencode(pattern)):
            if os.path.islink(canonical.live(path)) or not os.path.isdir(canonical.live(path)):
                found.add(path)
    return found


def alternative_links(
    alternatives: Iterable[Alternative], sole: AbstractSet[bytes], canonical: Canonical
) -> Set[bytes]:
    """The links of the alternatives that have live choices, all of them in `sole`.

    Only links that update-alternatives made: an administrator's file in the place of one stays, and so does the way to
    what he has chosen himself.
    """
    found: Set[bytes] = set()
    for alternative in alternatives:
        choices = [canonical.path(choice) for choice in alternative.choices]
        live = [choice for choice in choices if os.path.lexists(canonical.live(choice))]
        if not live or not all(choice in sole for choice in live):
            continue
        middle = canonical.path(b"/etc/alternatives/" + alternative.name)
        link = canonical.path(alternative.link)
        leads_to = _target(canonical, middle)
        is_choice = leads_to.startswith(b"/") and canonical.path(leads_to) in choices
        if not is_choice and os.path.lexists(canonical.live(middle)):
            continue  # led elsewhere by hand: a service may need it
        if _target(canonical, link) == b"/etc/alternatives/" + alternative.name:
            found.add(link)
        if leads_to in alternative.choices:
            found.add(middle)
    return found


def _expanded(rule: GeneratedRule, package: Package, parts: Sequence[str], canonical: Canonical) -> Iterable[bytes]:
    values = {str(number): part for number, part in enumerate(parts, 1)}
    values.update(version=package.version, arch=package.arch)
    for template in rule.paths:
        pattern = re.sub(r"\{(\w+)\}", lambda match: literal(values[match.group(1)]), template)
        wants_directory = pattern.endswith("/")
        for path in live_matches(canonical, os.fsencode(pattern)):
            live = canonical.live(path)
            if wants_directory == (os.path.isdir(live) and not os.path.islink(live)):
                yield path


def _target(canonical: Canonical, path: bytes) -> bytes:
    try:
        return os.readlink(canonical.live(path))
    except OSError:
        return b""
