"""The one exception of this package."""

from __future__ import annotations


class ExcludeError(Exception):
    """The list cannot be made; the message is one line that names the thing and the way out."""


class NotWrittenError(ExcludeError):
    """It is made, and there is no room for it, or no right to write it."""
