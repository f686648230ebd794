"""Tables fit where they go."""

from __future__ import annotations

import contextlib
import io

import pytest

from railyard.face.terminal import Progress, Table


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def table():
    table = Table(["variant", "step", "why"], right=[1], turn=True)
    table.add("roce", "9.03 s", "bandwidth and contention on the links between leaf and spine")
    table.add("ideal", "12.7 s", "nothing")
    return table


@pytest.fixture
def screen(monkeypatch):
    """A terminal; pytest sets its own streams at the start of the test, so ours are put in there."""
    monkeypatch.setenv("NO_COLOR", "1")
    return Terminal()


@contextlib.contextmanager
def on(terminal):
    with contextlib.redirect_stdout(terminal), contextlib.redirect_stderr(terminal):
        yield


def test_plain_columns_are_aligned_and_never_cut(table, capsys):
    table.print()
    assert capsys.readouterr().out == (
        "variant    step  why\n"
        "roce     9.03 s  bandwidth and contention on the links between leaf and spine\n"
        "ideal    12.7 s  nothing\n"
    )


def test_a_wide_terminal_shows_a_rule(table, screen, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with on(screen):
        table.print()
    lines = screen.getvalue().splitlines()
    assert lines[1] == "─" * len(lines[2])


@pytest.mark.parametrize("columns", [30, 40, 60])
def test_a_narrow_terminal_turns_the_table_and_loses_no_word(table, screen, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    with on(screen):
        table.print()
    shown = screen.getvalue()
    assert max(map(len, shown.splitlines())) <= max(columns, len("variant") + 2 + 26)
    words = shown.split()
    assert all(words.count(word) >= 1 for row in table.rows for cell in row for word in cell.split())


def test_a_narrow_terminal_folds_the_last_column_of_other_tables(screen, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    table = Table(["field", "source"])
    table.add("memory", "a datasheet with a very long title indeed")
    with on(screen):
        table.print()
    lines = screen.getvalue().splitlines()
    assert max(map(len, lines)) <= 40
    assert " ".join(" ".join(lines[2:]).split()) == "memory a datasheet with a very long title indeed"


def test_colours_are_an_option(table, screen, monkeypatch):
    monkeypatch.delenv("NO_COLOR")
    with on(screen):
        table.print()
    assert "\x1b[1m" in screen.getvalue()


def test_progress_waits_before_it_shows_and_clears_its_line(screen, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setenv("COLUMNS", "60")
    with on(screen), Progress(wanted=True) as progress:
        progress("early", 0.1)
        assert screen.getvalue() == ""
        now[0] = 2.0
        progress("x" * 200, 0.5)
    shown = screen.getvalue().split("\r")
    assert " 50%" in shown[1]
    assert len(shown[1]) < 60
    assert shown[-2].strip() == ""


def test_no_progress_without_a_terminal(capsys):
    with Progress(wanted=True) as progress:
        progress.begin -= 10
        progress("late", 0.5)
    assert capsys.readouterr().err == ""
