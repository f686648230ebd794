"""The strict reader of tables: what is read, and what each wrong table is told, with its place."""

import csv
import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from railyard.kit.errors import InputError
from railyard.kit.table import Table, read


def rows(text, **how):
    return [dict(row) for row in Table(text, "t.csv", **how)]


def told(text, **how):
    with pytest.raises(InputError) as caught:
        rows(text, **how)
    (problem,) = caught.value.problems
    assert problem.file == "t.csv"
    return problem


@pytest.mark.parametrize(
    ("text", "how", "found"),
    [
        ("a,b\n1,2\n", {}, [{"a": "1", "b": "2"}]),
        ("\ufeffa , b\r\n 1 ,2 \r\n\r\n", {}, [{"a": "1", "b": "2"}]),
        ("a\tb\n1,5\t2\n", {}, [{"a": "1,5", "b": "2"}]),
        ('a|b\nsay "x|2\n', {}, [{"a": 'say "x', "b": "2"}]),
        ('a,b\n"1,5", "say ""x"""\n', {}, [{"a": "1,5", "b": 'say "x"'}]),
        ('a,b\n"",""""\n', {}, [{"a": "", "b": '"'}]),
        ("# why\na,b\n# because\n1,2\n", {"comment": "#"}, [{"a": "1", "b": "2"}]),
        ("a,b\nx\u2028y,\x0b2\n", {}, [{"a": "x\u2028y", "b": "2"}]),
    ],
)
def test_what_a_table_says(text, how, found):
    assert rows(text, **how) == found


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("", None, None, "the table is empty"),
        ("a,,c\n", 1, 3, "a column has no name"),
        ("a,b, a\n", 1, 5, "two columns are called `a`"),
        ("a,b\n1,2\n1,2,3\n", 3, 5, "as many cells as the heading"),
        ("a,b\n1\n", 2, None, "as many cells as the heading"),
        ("a,b\n1,2,\n", 2, 5, "as many cells as the heading"),
        ('a,b\n1,2\n"1,2\n3,4\n"\n', 3, 1, "a quote opens a cell"),
        ('a,b\n1,5" disk\n', 2, 4, "a quote opens a cell"),
        ('a,b\n1,"2" x\n', 2, 3, "a quote opens a cell"),
        ('a,b\n1,"2""\n', 2, 3, "a quote opens a cell"),
        ("a,b\n1\0,2\n", 2, 2, "a character that is not text"),
        ("a,b\r1,2\r", 1, 4, "a character that is not text"),
    ],
)
def test_what_a_wrong_table_is_told(text, line, column, words):
    problem = told(text)
    assert (problem.line, problem.column) == (line, column)
    assert words in problem.message


def test_rows_of_one_key_are_refused_with_both_lines():
    problem = told("a,b,c\n1,2,3\n1,3,3\n1,2,4\n", key=("a", "b"))
    assert (problem.line, problem.column, problem.hint) == (4, 3, "line 2 does")
    assert "two rows say a and b `1` and `2`" in problem.message


@pytest.mark.parametrize(
    ("text", "words", "place"),
    [
        ("submit,after\n", "unknown column `submit`; required: submit_s; did you mean `submit_s`?", (1, 1)),
        ("submit_s,aftr\n", "unknown column `aftr`; required: submit_s; did you mean `after`?", (1, 10)),
    ],
)
def test_headings_are_checked_with_the_nearest_spelling(tmp_path, text, words, place):
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    known = ("submit_s", "after") if "aftr" in text else None
    with pytest.raises(InputError) as caught:
        read(tmp_path / "t.csv", "submit_s", known=known)
    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == place
    assert problem.headline() == words


@pytest.mark.parametrize("cell", ["", "1_000", "nan", "inf", "1e999", "0x10", "١", "12 GB", "1,5", "--1", "1e"])
def test_a_number_is_digits_and_no_unit(cell):
    (row,) = Table(f'size_bytes,x\n"{cell}",1\n', "t.csv")
    with pytest.raises(InputError, match="expected a number") as caught:
        row.number("size_bytes")
    assert (caught.value.problems[0].line, caught.value.problems[0].column) == (2, 1)


def test_numbers_and_words_and_their_ranges():
    (row,) = Table("a,b,c,d\n8.0,-1.5e3,.5,dwn\n", "t.csv")
    assert (row.integer("a"), row.number("b"), row.number("c", low=0, high=1)) == (8, -1500.0, 0.5)
    for wrong, words in (
        (lambda: row.integer("c"), "expected a whole number"),
        (lambda: row.number("b", low=0), "out of range(.|\n)*0 or more"),
        (lambda: row.one_of("d", ["up", "down"]), "did you mean `down`"),
    ):
        with pytest.raises(InputError, match=words):
            wrong()


CELLS = st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=("Cs", "Zs", "Cc", "Zl", "Zp")))


@given(st.lists(st.lists(CELLS, min_size=2, max_size=2), max_size=8))
@example([["", '",'], ['",', ""], ['x"', '"",","']])
def test_what_python_writes_is_read_back(cells):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([["a", "b"], *cells])
    assert [list(row.values()) for row in Table(text.getvalue(), "t.csv", delimiter=",")] == cells


@given(st.lists(st.text(alphabet='a", \n', max_size=12), min_size=1, max_size=6))
def test_no_row_is_swallowed_and_none_is_shifted(lines):
    """Below a heading there is one row per line that is not blank, each with the cells of the heading, or an error."""
    text = "\n".join(lines)
    try:
        found = list(Table(f"a,b\n{text}", "t.csv"))
    except InputError:
        return
    assert [row.line for row in found] == [at for at, line in enumerate(text.split("\n"), 2) if line.strip()]
    assert all(len(row) == 2 for row in found)
