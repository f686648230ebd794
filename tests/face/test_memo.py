"""The decision memo: its chart adds up to what is lost, the same memo gives the same bytes, and a PDF is one page."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

import railyard
from railyard.ask.plan.memo import _behind
from railyard.face import memo as memos
from railyard.face.reports import decision
from railyard.face.verbs.memo import _memo_of
from railyard.face.web.documents import Decision
from railyard.kit.errors import InputError
from railyard.measure.result.section import KeyFigure
from railyard.work.study.memo import DecisionMemo, LossChart, bar_names, subject_of
from railyard.work.study.purchase import purchase
from railyard.work.training.explain_leaf import TimeNode, TimeTree
from railyard.work.training.explain_words import _bubble

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
    assert sorted(memo.chart.bars) == ["roce", "uec"]
    assert list(memo.chart.bars) == [row[0] for row in memo.table[1:]] == list(run.result.verdict.ranking)
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


def test_a_purchase_is_the_first_row_and_its_bill(run):
    """Capital and power of the table are those of the line; uec needs 16 NICs that cost $800 more, each."""
    memo = _memo_of(run.folder)
    first = memo.table[1]
    assert first[0] == "roce"
    assert memo.purchase.startswith(f"Buy: {first[0]}, {first[2]} of capital, {first[3]}, the cheapest to build ")
    assert memo.purchase.endswith("$12.8k less to build than uec, the next: NICs that the fabric needs -$12.8k.")


def test_a_memo_names_cluster_and_work_but_not_what_variants_change(run):
    """The scenario of the fixture, one line below the title; a key that variants change is no common subject."""
    assert _memo_of(run.folder).subject == "16 accelerators in hgx-h100; llama-3-8b"
    variants = [SimpleNamespace(settings={"cluster.accelerators": count}) for count in (256, 512)]
    scenario = {
        "cluster": {"accelerators": 256, "server": "hgx-h100"},
        "workload": {"training": {"model": "llama-3-70b", "tokens": "2 T"}},
    }
    assert subject_of(SimpleNamespace(variants=variants, scenario=scenario)) == "llama-3-70b, 2 T tokens"
    same = [SimpleNamespace(settings={"fabric": "roce"})]
    whole = subject_of(SimpleNamespace(variants=same, scenario=scenario))
    assert whole == "256 accelerators in hgx-h100; llama-3-70b, 2 T tokens"


def bill(capital, *, fitting=None, **parts):
    """A capital of the rest and parts given as dollars and count, and what NICs that fit would cost more."""
    parts = {"accelerators": (capital - sum(usd for usd, _ in parts.values()), 64), **parts}
    rows = [SimpleNamespace(name=name, typical_usd=usd, count=count) for name, (usd, count) in parts.items()]
    total = SimpleNamespace(typical=capital)
    capex = SimpleNamespace(components=rows, total_usd=total, fitting_nics_usd=fitting)
    return SimpleNamespace(capex=capex, power=SimpleNamespace(total_w=SimpleNamespace(typical=2e6)))


@pytest.mark.parametrize(
    ("difference", "leading", "begins"),
    [
        (0.01, "a, 4:1", 'Buy: "a, 4:1", $9.00M of capital, 2.00 MW, the cheapest to build of the 2 that are equal. '),
        (0.01, "b", 'Buy: "a, 4:1", $9.00M of capital, 2.00 MW, the cheapest to build of the 2 that are equal. '),
        (
            0.06,
            "a, 4:1",
            'Buy: cost does not decide between "a, 4:1" and b. At typical prices "a, 4:1" costs least: '
            "$9.00M of capital, 2.00 MW. ",
        ),
    ],
)
def test_the_bill_of_the_purchase_is_compared_with_the_next_one(difference, leading, begins):
    """$9M against $10M with $3M of 20 switches in place of $4M of 30; accelerators cost as much."""
    rows = [SimpleNamespace(difference=difference, band=0.08, tied=True)]
    ranking = (leading, *({"a, 4:1", "b"} - {leading}))
    verdict = SimpleNamespace(leading=leading, ranking=ranking, ties=ranking[1:], differences=rows, same=())
    variants = [
        SimpleNamespace(name="b", bill=bill(10e6, switches=(4e6, 30))),
        SimpleNamespace(name="a, 4:1", bill=bill(9e6, switches=(3e6, 20))),
    ]
    said = purchase(SimpleNamespace(verdict=verdict, variants=variants))
    assert said == f"{begins}It costs $1.00M less to build than b, the next: switches -$1.00M (20, not 30)."


def test_a_variant_whose_nics_do_not_fit_is_not_the_cheapest_to_build():
    """$9M and $1.5M for NICs that its fabric needs are $0.5M more than the $10M of the other."""
    rows = [SimpleNamespace(difference=0.01, band=0.08, tied=True)]
    verdict = SimpleNamespace(leading="a", ranking=("a", "b"), ties=("b",), differences=rows, same=())
    variants = [
        SimpleNamespace(name="a", bill=bill(9e6, fitting=1.5e6, switches=(3e6, 20))),
        SimpleNamespace(name="b", bill=bill(10e6, switches=(4e6, 30))),
    ]
    assert purchase(SimpleNamespace(verdict=verdict, variants=variants)) == (
        "Buy: b, $10.0M of capital, 2.00 MW, the cheapest to build of the 2 that are equal. It costs $500k less to"
        " build than a, the next: NICs that the fabric needs -$1.50M, switches +$1.00M (30, not 20)."
    )


def test_what_only_the_purchase_is_warned_of_stands_in_its_line():
    """Both are warned of the band; a alone has cards that do not fit."""
    verdict = SimpleNamespace(leading="a", ranking=("a", "b"), ties=(), differences=[], same=())
    lines = {"a": ("a wide band", "cards do not fit; others do, for $1k more"), "b": ("a wide band",)}
    variants = [SimpleNamespace(name=name, bill=bill(9e6), warnings=lines[name]) for name in lines]
    said = purchase(SimpleNamespace(verdict=verdict, variants=variants))
    assert said.endswith("The bill of b, the next, is the same. Of a: cards do not fit; others do, for $1k more.")


def test_names_lose_what_all_share_and_bars_beyond_twelve_are_counted():
    """Of 14 designs in rails, the last two are said to be worse than the twelfth."""
    names = [f"fabric {number}, rails, 2:1" for number in range(14)]
    chart = LossChart.of("Lost, %", " %", {name: {"wait": 1.0} for name in names}, best_first=True)
    assert list(chart.bars) == [f"fabric {number}" for number in range(12)]
    assert chart.title == "Lost, %; all rails, 2:1; and 2 more, each worse than fabric 11"
    assert bar_names(["roce", "roce, 2:1"]) == ({"roce": "roce", "roce, 2:1": "roce, 2:1"}, "")


@pytest.mark.parametrize(("better", "behind"), [("small", 5.0), ("large", 0.0)])
def test_designs_of_a_plan_are_shown_by_how_much_worse_they_are(better, behind):
    """42 is 5 % more than 40: worse where small is better, never a bar to the left."""
    one, best = (SimpleNamespace(objectives={"cpmt": value}) for value in (42.0, 40.0))
    assert _behind(one, best, SimpleNamespace(name="cpmt", better=better)) == pytest.approx(behind)


def test_explain_names_a_bubble_that_run_prints_as_another_figure():
    """3.91 % of the step as it ran and 4.33 % without networks are two figures; 4.31 % and 4.33 % print as one."""

    def said(share):
        tree = TimeTree("a", 10_000, 1, TimeNode("step", 10_000, children=(TimeNode("pipeline bubble", share),)))
        rest = SimpleNamespace(tax=SimpleNamespace(rest={"bubble": 0.0433}))
        return " ".join(" ".join(_bubble(SimpleNamespace(tree=tree, variant=rest))).split())

    assert said(391).startswith("The pipeline bubble is 3.9 % of the step as it ran; 4.3 %, the figure of `run`")
    assert said(431) == ""


def test_a_long_memo_still_is_one_page():
    """What would fill two pages is set in smaller type: its last line stands above the margin of one A4 page."""
    pytest.importorskip("fpdf")
    names = [f"a long name of a fabric, and of its topology, number {number}" for number in range(12)]
    table = [["variant", "price"], *([name, "$1"] for name in names)]
    chart = LossChart.of("Lost, %", " %", {name: {"wait": 3.0} for name in names})
    long = replace(MEMO, table=table, chart=chart, assumptions=["A default. " * 20] * 12)
    plain, small = memos._fitted(MEMO), memos._fitted(long)
    assert small.k < plain.k
    assert small.get_y() <= small.h - 18
    assert (small.w * small.k, small.h * small.k) == pytest.approx((plain.w * plain.k, plain.h * plain.k))
    assert len(re.findall(rb"/Type /Page\b", memos.as_pdf(long))) == 1


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
    (tmp_path / "plan.json").write_text("")
    with pytest.raises(InputError, match="Invalid JSON") as wrong:
        _memo_of(tmp_path)
    assert wrong.value.problems[0].file == str(tmp_path / "plan.json")
