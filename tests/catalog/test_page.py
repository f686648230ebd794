"""The reference page of the catalogue."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_the_page_shows_every_entry():
    from railyard import catalog

    text = (ROOT / "docs" / "reference" / "catalog.md").read_text("utf-8")
    known = catalog.load()
    for kind in catalog.KINDS:
        for name in known.names(kind):
            assert f"`{name}`" in text
