"""The report carries the whole result in one file that fetches nothing."""

import base64
import gzip
import json
import re
from pathlib import Path

import numpy as np

from railyard.face.report import report_html, write_report
from railyard.graph import Record
from railyard.measure.network import packet_section
from railyard.measure.result.reading import Result
from railyard.measure.result.section import ProvenanceFigures
from railyard.measure.result.variants import TrafficVariant

NONE = np.zeros(0, np.int64)
NOTHING = Record(
    rows="flows",
    who=NONE.astype(np.int32),
    what=NONE.astype(np.int32),
    start_ps=NONE,
    end_ps=NONE,
    size_bytes=NONE,
    optional={"target": NONE.astype(np.int32)},
)


def embedded(page: str) -> dict[str, object]:
    match = re.search(r'id="railyard-result">([^<]*)<', page)
    assert match is not None
    return json.loads(gzip.decompress(base64.b64decode(match.group(1))))


def named(name: str) -> Result:
    """A result of nothing but a name."""
    words = dict.fromkeys(("version", "engine", "digest", "created"), "x")
    lists = dict.fromkeys(("sources", "left_out", "defaults"), ())
    return Result(
        format="railyard/result-1",
        name=name,
        scenario={"rate": 1.25},
        provenance=ProvenanceFigures(**words, **lists, seed=0),
        variants=(TrafficVariant(name="roce", settings={}, packet=packet_section(NOTHING, {})),),
    )


def test_the_result_comes_back_out_of_the_page() -> None:
    result = named("</script><b>é")
    assert embedded(report_html(result)) == result.plain()


def test_the_same_result_gives_the_same_bytes(tmp_path: Path) -> None:
    result = named("a")
    write_report(result, tmp_path / "one.html")
    write_report(result, tmp_path / "two.html")
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["one.html", "two.html"]


def test_nothing_is_fetched() -> None:
    page = report_html(named("a"))
    assert not re.search(r'(?:src|href)="(?!data:)', page)
    assert not re.search(r"@import|url\(", page)
