"""Charts: the same chart is the same text, whatever has been drawn before, and says what it shows."""

import re

import pytest

from railyard_validation.plot import Axis, Curve, Plot, _width_px


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
