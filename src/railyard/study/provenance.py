"""The result of all variants of a study, with where its numbers come from."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from railyard.study.kind import Document, Measured


def version() -> str:
    """Of this package."""
    from importlib import metadata

    return metadata.version("railyard")


def result_of(document: Document, plain: dict[str, Any], engine: str, measured: Sequence[Measured]) -> dict[str, Any]:
    """The result as `result.json` holds it.

    Args:
        document: What was studied.
        plain: The same as plain values, defaults written out.
        engine: Name of the engine.
        measured: Every variant.
    """
    return {
        "format": "railyard/1",
        "name": document.title,
        "scenario": plain,
        "provenance": {
            "version": version(),
            "engine": engine,
            "seed": document.seed,
            "digest": measured[0].digest,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "sources": [source.to_json() for source in _unique(found.sources for found in measured)],
            "left_out": _unique(found.left_out for found in measured),
            "defaults": _unique(found.defaults for found in measured),
        },
        "variants": [found.variant for found in measured],
    }


def _unique(lists: Iterable[Iterable[Any]]) -> list[Any]:
    """All items in order, each at its first occurrence."""
    return list(dict.fromkeys(item for items in lists for item in items))
