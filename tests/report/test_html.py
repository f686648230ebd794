"""The report carries the whole result in one file that fetches nothing."""

import base64
import gzip
import json
import re
from pathlib import Path

import pytest

from railyard.report import report_html, write_report


def embedded(page: str) -> dict[str, object]:
    match = re.search(r'id="railyard-result">([^<]*)<', page)
    assert match is not None
    return json.loads(gzip.decompress(base64.b64decode(match.group(1))))


def test_the_result_comes_back_out_of_the_page() -> None:
    result = {"format": "railyard/1", "name": "</script><b>é", "variants": [{"name": "roce", "x": 1.25}]}
    assert embedded(report_html(result)) == result


def test_the_same_result_gives_the_same_bytes(tmp_path: Path) -> None:
    result = {"format": "railyard/1", "name": "a", "variants": []}
    write_report(result, tmp_path / "one.html")
    write_report(result, tmp_path / "two.html")
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["one.html", "two.html"]


def test_nothing_is_fetched() -> None:
    page = report_html({"format": "railyard/1", "name": "a", "variants": []})
    assert not re.search(r'(?:src|href)="(?!data:)', page)
    assert not re.search(r"@import|url\(", page)


def test_numbers_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        report_html({"format": "railyard/1", "x": float("nan")})
