"""Faults from a file: what they do, and how wrong lines are refused."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cli.guard import run as command
from railyard.errors import InputError
from railyard.scenario.packet import fabric
from railyard.study.traffic.simulate import TrafficRun, run

MATRIX = "Nodes 16\nConnections 1\n0->15 id 1 start 0 size 2000000\n"
HEADING = "at,where,event,value\n"


@pytest.fixture
def play(tmp_path):
    def go(faults: str | None, **more):
        traffic = tmp_path / "one.cm"
        traffic.write_text(MATRIX)
        path = None
        if faults is not None:
            path = tmp_path / "faults.csv"
            path.write_text(HEADING + faults)
        preset = fabric("uec-htsim")
        return run(TrafficRun(traffic, None, preset, preset.settings, faults=path, **more))

    return go


def test_a_cable_a_node_and_every_link(play):
    whole = play(None).fct_ps[0]
    cut = play("5 us,h0-leaf0,down,\n60us,h0-leaf0,up,\n")
    assert cut.fct_ps[0] > whole + 50_000_000
    slow = play("0 us,h15,rate,0.5\n")
    assert 1.7 * whole < slow.fct_ps[0] < 2.1 * whole
    noisy = play("# a comment\n\n0 us,*,errors,1e-6\n")
    assert noisy.record.meta["packets"]["lost"] > 0
    assert play("5 us,core0,down,\n").fct_ps[0] >= whole


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("5 us,h99,down,", "h0 to h15"),
        ("5 us,rack1,down,", "no such node"),
        ("5 us,h0-h1,down,", "no link joins"),
        ("5 us,h0-leaf0,dwon,", "down"),
        ("5,h0,down,", "unit"),
        ("5 us,h0,down,1", "no value"),
        ("5 us,h0,rate,", "needs a value"),
        ("5 us,h0,rate,1.5", "0 to 1"),
        ("5 us,h0", "cells"),
        ("5 us,a-b-c,down,", "no such node"),
        ("-5 us,h0,down,", "negative"),
    ],
)
def test_a_wrong_line_is_named(play, line, told):
    with pytest.raises(InputError, match=r"faults\.csv") as error:
        play(f"1 us,h1,up,\n{line}\n")
    assert told in str(error.value)
    assert error.value.problems[0].line == 3


def test_a_file_without_the_heading_is_refused(tmp_path, play):
    path = tmp_path / "x.csv"
    path.write_text("when,what\n")
    preset = fabric("uec-htsim")
    play(None)
    with pytest.raises(InputError, match="columns"):
        run(TrafficRun(tmp_path / "one.cm", None, preset, preset.settings, faults=path))


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "one.cm").write_text("Nodes 16\nConnections 1\n0->15 id 1 start 0 size 1000\n")
    (folder / "faults.csv").write_text(HEADING + text, encoding="utf-8")
    preset = fabric("uec-htsim")
    # Whatever the text, nothing but an InputError comes out of it.
    with contextlib.suppress(InputError):
        run(TrafficRun(folder / "one.cm", None, preset, preset.settings, faults=folder / "faults.csv"))


def test_the_command(tmp_path, capsys):
    (tmp_path / "one.cm").write_text(MATRIX)
    (tmp_path / "faults.csv").write_text(HEADING + "5 us,core0,down,\n")
    given = ["packet", "--traffic", str(tmp_path / "one.cm"), "--faults", str(tmp_path / "faults.csv"), "--json"]
    assert command(given) == 0
    assert json.loads(capsys.readouterr().out)["finished"] == 1
