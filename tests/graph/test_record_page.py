"""The page of columns is what the declarations give."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_is_fresh() -> None:
    page = runpy.run_path(str(ROOT / "tools" / "record_page.py"))["page"]()
    assert (ROOT / "docs" / "reference" / "record.md").read_text("utf-8") == page, "run tools/record_page.py"
