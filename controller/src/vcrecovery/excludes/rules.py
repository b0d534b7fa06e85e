"""The data of this package: generated-file rules and profiles, from JSON."""

from __future__ import annotations

import json
import pkgutil
from typing import Any, Dict, List, NamedTuple, Tuple

from .errors import ExcludeError

_FILES = ("data/generated.json", "data/profiles.json")


class GeneratedRule(NamedTuple):
    """Files that no package owns, but that belong to the packages of a pattern.

    In `paths`, `{1}` is what the pattern's first `*` stood for, `{2}` the second; `{version}` is the
    package's version with its release, `{arch}` its architecture. A path that ends in a slash is a directory.
    """

    backend: str
    packages: Tuple[str, ...]
    paths: Tuple[str, ...]


class Profile(NamedTuple):
    """A named selection: package patterns per backend, and paths excluded whoever owns them."""

    description: str
    packages: Dict[str, Tuple[str, ...]]
    paths: Tuple[str, ...]


class Rules(NamedTuple):
    """Everything that is data, not code."""

    generated: Tuple[GeneratedRule, ...]
    profiles: Dict[str, Profile]

    def profile(self, name: str) -> Profile:
        """The profile of that name, or an ExcludeError that lists the names."""
        if name not in self.profiles:
            raise ExcludeError(f"there is no profile {name!r}: choose one of {', '.join(sorted(self.profiles))}")
        return self.profiles[name]


def rules_from_json(*texts: str) -> Rules:
    """The rules in JSON documents, each with `generated`, `profiles` or both."""
    generated: List[GeneratedRule] = []
    profiles: Dict[str, Profile] = {}
    for text in texts:
        try:
            document = json.loads(text)
            generated.extend(_generated(entry) for entry in document.get("generated", ()))
            profiles.update({n: _profile(entry) for n, entry in document.get("profiles", {}).items()})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ExcludeError(f"the exclude rules are damaged ({error!r}): reinstall vcrecovery") from None
    return Rules(tuple(generated), profiles)


def shipped_rules() -> Rules:
    """The rules that lie beside this module, also when it runs from a zip file."""
    texts = []
    for name in _FILES:
        try:
            data = pkgutil.get_data(__package__ or __name__.rpartition(".")[0], name)
        except OSError:
            data = None
        if data is None:
            raise ExcludeError(f"the exclude rules {name} are missing: reinstall vcrecovery, or pass them")
        texts.append(data.decode("utf-8"))
    return rules_from_json(*texts)


def _generated(entry: Dict[str, Any]) -> GeneratedRule:
    return GeneratedRule(str(entry["backend"]), _strings(entry["packages"]), _strings(entry["paths"]))


def _profile(entry: Dict[str, Any]) -> Profile:
    packages: Dict[str, Tuple[str, ...]] = {}
    # Families that share a backend are told apart by their package names alone.
    for family in entry["families"].values():
        backend = str(family["backend"])
        packages[backend] = packages.get(backend, ()) + _strings(family["packages"])
    return Profile(str(entry["description"]), packages, _strings(entry["paths"]))


def _strings(values: Any) -> Tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TypeError("expected a list of strings")
    return tuple(values)
