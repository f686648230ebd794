"""The committed reference page is what the entries give."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_the_reference_page_is_fresh():
    page = runpy.run_path(str(ROOT / "tools" / "catalog_page.py"))["page"]()
    assert (ROOT / "docs" / "reference" / "catalog.md").read_text("utf-8") == page, "run tools/catalog_page.py"


def test_the_page_shows_every_entry():
    from railyard import catalog

    text = (ROOT / "docs" / "reference" / "catalog.md").read_text("utf-8")
    known = catalog.load()
    for kind in catalog.KINDS:
        for name in known.names(kind):
            assert f"`{name}`" in text
