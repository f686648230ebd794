"""The commands and their options; what they do is imported when one of them runs."""

from __future__ import annotations

from importlib import import_module

ORDER = ("scenarios", "placing", "observing", "halls", "beginning", "serving", "known", "deciding")
"""Of the help."""


def load() -> None:
    """Adds every command to the command line."""
    for name in ORDER:
        import_module(f"{__name__}.{name}")
