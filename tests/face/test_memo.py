"""The decision memo: its chart adds up to what is lost, the same memo gives the same bytes, and a PDF is one page."""

from __future__ import annotations

import re

import pytest

import railyard
from railyard.face import memo as memos
from railyard.face.report.decision import decision
from railyard.face.verbs.memo import _memo_of
from railyard.face.web.documents import Decision
from railyard.kit.errors import InputError
from railyard.measure.result.section import KeyFigure
from railyard.work.study.memo import DecisionMemo, LossChart

SMALL = {
    "name": "small",
    "cluster": {"accelerators": 16, "server": "hgx-h100", "back_end": {"topology": "leaf-spine"}},
    "workload": {
        "training": {"model": "llama-3-8b", "global_batch": 16, "sequence": 2048, "parallelism": {"tp": 2, "pp": 1}}
    },
    "compare": {"vary": {"fabric": ["roce", "uec", "ideal"]}},
}
MEMO = DecisionMemo(
    "a <b>", "Build a.", [KeyFigure("Cost", "$1", "0.5 to 2"), KeyFigure("Step", "1 s"), KeyFigure("Tax", "3.0 %")],
    LossChart("Lost, %", " %", {"a": {"wait": 3.0, "bubble": 1.0}, "b": {"bubble": 2.0}}, 1.0, "ideal"),
    ["A price."], ["A band."], [], "Railyard",
)  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return railyard.run(SMALL, out=tmp_path_factory.mktemp("runs"), engine="analytic")


def test_bars_of_a_run_are_what_its_steps_lose(run):
    """A bar is the step without computation, in percent; parts below 0.05 % are left out."""
    memo = _memo_of(run.folder)
    assert list(memo.chart.bars) == ["roce", "uec"]
    for one in run.result.variants:
        lost = 100 * (1 - one.tax.rest.get("compute", 0.0))
        if not one.bound:
            assert sum(memo.chart.bars[one.name].values()) == pytest.approx(lost, abs=0.3)
        else:
            assert memo.chart.bound == pytest.approx(lost, abs=0.3)
    assert "million tokens" in memo.recommendation
    assert [figure.name for figure in memo.figures] == ["Cost of a million tokens", "Step", "Scale-out network tax"]


def test_the_first_screen_of_the_report_is_the_memo(run):
    """Lengths are amounts over the longest bar, and no reason is said twice."""
    memo, shown = _memo_of(run.folder), Decision.model_validate(decision(run.result))
    assert shown.verdict == memo.recommendation
    assert [bar.name for bar in shown.chart.bars] == list(memo.chart.bars)
    for bar in shown.chart.bars:
        amounts = memo.chart.bars[bar.name]
        lengths = {shown.chart.parts[part.part]: part.length * memo.chart.top for part in bar.parts}
        assert lengths == pytest.approx({part: amount for part, amount in amounts.items() if amount > 0})
    assert shown.chart.bound == pytest.approx(memo.chart.bound / memo.chart.top)
    assert not set(shown.why) & {line for each in shown.lists for line in each.lines}


def test_markdown_shows_bars_in_proportion():
    """4 % fill 40 characters, 2 % half of them; the bound stands below."""
    text = memos.as_markdown(MEMO)
    assert f"a    4.0 %  {'█' * 40}  wait 3.0 %, bubble 1.0 %\n" in text
    assert f"b    2.0 %  {'█' * 20}  bubble 2.0 %\n" in text
    assert " 1.0 %  bound: ideal\n" in text
    assert "## Assumptions" not in text


def test_html_escapes_names_and_has_no_scripts():
    text = memos.as_html(MEMO)
    assert "<h1>a &lt;b&gt;</h1>" in text
    assert "<script" not in text
    assert "width:75.00%" in text
    assert "left:25.00%" in text


def test_a_pdf_is_one_page_and_always_the_same(tmp_path):
    pytest.importorskip("fpdf")
    first, second = memos.as_pdf(MEMO), memos.as_pdf(MEMO)
    assert first == second
    assert len(re.findall(rb"/Type /Page\b", first)) == 1
    memos.write_memo(MEMO, tmp_path / "memo.pdf")
    assert (tmp_path / "memo.pdf").read_bytes() == first


def test_what_has_no_memo_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such format"):
        memos.write_memo(MEMO, tmp_path / "memo.docx")
    assert not any(tmp_path.iterdir())
    with pytest.raises(InputError, match="holds nothing that can be shown"):
        _memo_of(tmp_path)
