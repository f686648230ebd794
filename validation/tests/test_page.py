"""The page of a validation says what the rows say, whole or not at all."""

import re

import pytest

from railyard.face.cli import guard
from railyard.kit.errors import InputError
from railyard_validation.page import Point, Validation, histogram, markdown, of_serving, write
from railyard_validation.plot import Axis, Curve, Plot, _width_px
from railyard_validation.serving.compare import ServingReport, ServingResult


@pytest.fixture
def page():
    points = [
        Point("a", "first", 1.0, 1.1, 0.1, "a cause"),
        Point("b", "first", 2.0, 1.0, -0.5),
        Point("c", "second", 10.0, 10.0, 0.0, scored=False),
    ]
    return Validation("Title", "", "step, seconds", points, ["line 7: no time", "line 9: no time"])


def test_table_counts_scored_rows_only(page):
    text = markdown(page, "x")
    assert "| first | 2 | 2 | 30.0 % | 30.0 % | 46.0 % | 50.0 % |" in text
    assert "| all | 3 | 2 | 30.0 % |" in text
    assert "| 2 | no time |" in text
    worst = text[text.index("The worst rows") :]
    assert worst.index("| b |") < worst.index("| a |")


def test_histogram_holds_every_scored_row_and_puts_far_ones_in_the_last_bar(page):
    figure = histogram(page)
    assert "Signed error of 2 scored rows; 1 within 10 %" in figure
    assert figure.count("stroke-width: 22") == 2


@pytest.mark.parametrize("name", ["page.md", "page.html"])
def test_written_whole(page, tmp_path, name):
    write(page, tmp_path / name)
    assert not list(tmp_path.glob("*.tmp"))
    assert "Title" in (tmp_path / name).read_text()
    assert (tmp_path / "page-scatter.svg").exists() == name.endswith(".md")


def test_html_of_a_table_is_shown_and_not_kept(tmp_path):
    evil = "<img src=x onerror=alert(1)> | [go](javascript:alert(1))\n<script>"
    rows = [Point(evil, evil, 1.0, 1.1, 0.1, evil)]
    write(Validation(evil, "", "s", rows, [evil]), tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert "<img" not in text
    assert "<script" not in text
    assert "\n&lt;script" not in text
    assert "&lt;img src=x onerror=alert(1)&gt; \\| \\[go](javascript" in text
    for figure in tmp_path.glob("*.svg"):
        assert "<img" not in figure.read_text()
        assert "<script" not in figure.read_text()
    write(Validation(evil, evil, "s", rows, [evil]), tmp_path / "page.html")
    assert "<img" not in (tmp_path / "page.html").read_text()


def test_another_ending_is_refused(page, tmp_path):
    with pytest.raises(InputError, match=r"Markdown or HTML"):
        write(page, tmp_path / "page.pdf")
    assert not list(tmp_path.iterdir())


def test_the_page_of_serving_says_how_much_of_each_source_is_covered():
    rows = (
        ServingResult("a", 2, "a blog", "ok", "", "tpot_s", 0.01, 0.011, 0.1, "vllm/hopper/2026"),
        ServingResult("b", 3, "a blog", "skipped", "line 3: no load"),
        ServingResult(
            "c", 4, "aiconfigurator silicon_sample.csv x", "ok", "", "tpot_s", 0.01, 0.01, 0.0, "sglang/h/2026"
        ),
    )
    text = markdown(of_serving(ServingReport("table.csv", "tpot", rows)), "x")
    assert "time per token" in text
    assert "| a blog | 1 | 1 | 10.0 % | 10.0 % | 10.0 % | 10.0 % | 50 % |" in text
    assert "| aiconfigurator silicon samples, sglang | 1 |" in text
    assert "| all | 2 | 2 | 5.0 % | 5.0 % | 9.0 % | 10.0 % | 67 % |" in text


# Charts: the same chart is the same text, whatever has been drawn before, and says what it shows.


def chart(**changes):
    curve = {"name": "fct", "points": [(1.0, 2.0), (10.0, 30.0), (100.0, 5.0)], **changes}
    return Plot("A title", Axis("x, us", log=True), Axis("y, %", low=0, suffix=" %"), [Curve(**curve)])


def texts(svg):
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_the_same_chart_is_the_same_file():
    first = chart().svg()
    chart(name="another", dashed=True).svg()
    assert chart().svg() == first


def test_nothing_of_when_or_by_what_it_was_drawn():
    svg = chart().svg()
    assert svg.startswith("<svg")
    assert "dc:date" not in svg
    assert "Matplotlib v" not in svg


def test_words_stay_text_and_ticks_carry_their_suffix():
    found = texts(chart().svg())
    assert {"A title", "x, us", "y, %", "1", "10", "100", "0 %"} <= set(found)


def test_marks_and_their_words():
    axis = Axis("kind", marks=(1.0, 2.0), words=("near", "far"))
    found = texts(Plot("t", axis, Axis("y"), [Curve("c", [(1.0, 1.0), (2.0, 3.0)])]).svg())
    assert [word for word in found if word in ("near", "far")] == ["near", "far"]


def test_a_single_curve_needs_no_legend():
    assert "fct" not in texts(chart().svg())
    two = Plot("t", Axis("x"), Axis("y"), [Curve("one", [(0, 1), (1, 2)]), Curve("two", [(0, 2), (1, 1)])])
    assert {"one", "two"} <= set(texts(two.svg()))


@pytest.mark.parametrize(("columns", "longest"), [(1, 7), (2, 7 + 2), (3, 4 + 7 + 2)])
def test_a_legend_is_as_wide_as_the_longest_names_of_its_columns(columns, longest):
    """Five names of 3, 4, 7, 1 and 2 letters; columns are filled one after another, the first ones with one more."""
    names = ["aaa", "aaaa", "a" * 7, "a", "aa"]
    assert _width_px(names, columns) == pytest.approx(50 * columns + 6.4 * longest)


# `railyard validate` as a user meets it: an installed command of the product's own command line.


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("training", {"--table", "--leave-out", "--page", "--json", "--help"}),
        ("memory", {"--table", "--page", "--json", "--help"}),
        ("faults", {"--only", "--page", "--json", "--help"}),
        ("collectives", {"--logs", "--page", "--json", "--help"}),
        ("serving", {"--table", "--metric", "--runs", "--profiles", "--page", "--json", "--help"}),
    ],
)
def test_options_are_few_and_frozen(capsys, command, options):
    assert guard.run(["validate", command, "--help"]) == 0
    words = capsys.readouterr().out.split()
    assert {word.rstrip(",.") for word in words if word.startswith("--")} == options


def test_help_lists_it_with_one_line(capsys):
    assert guard.run(["--help"]) == 0
    assert "Predicted against measured, row by row." in capsys.readouterr().out


def test_a_table_and_runs_exclude_one_another(capsys):
    assert guard.run(["validate", "serving"]) == 2
    assert "--table FILE.csv" in capsys.readouterr().err
