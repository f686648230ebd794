"""The page of a validation says what the rows say, whole or not at all."""

import pytest

from railyard.kit.errors import InputError
from railyard_validation.page import Point, Validation, histogram, markdown, of_serving, write
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
