"""Faults from a file: what they do, and how wrong lines are refused."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.face.cli.guard import run as command
from railyard.kit.errors import InputError
from railyard.work.scenario.packet import fabric
from railyard.work.traffic.simulate import TrafficRun, run

MATRIX = "Nodes 16\nConnections 1\n0->15 id 1 start 0 size 2000000\n"


@pytest.fixture
def play(tmp_path):
    def go(faults: str | None, **more):
        traffic = tmp_path / "one.cm"
        traffic.write_text(MATRIX)
        path = None
        if faults is not None:
            path = tmp_path / "faults.yaml"
            path.write_text("faults:\n" + faults)
        preset = fabric("uec")
        return run(TrafficRun(traffic, None, preset, preset.settings, faults=path, **more))

    return go


def test_a_cable_a_node_and_every_link(play):
    whole = play(None).fct_ps[0]
    cut = play("- {kind: link-down, cable: h0 - leaf0, at: 5 us, for: 55 us}\n")
    assert cut.fct_ps[0] > whole + 50_000_000
    slow = play("- {kind: degrade-link, cable: h15-leaf7, factor: 50 %}\n")
    assert 1.7 * whole < slow.fct_ps[0] < 2.1 * whole
    noisy = play("# a comment\n\n- {kind: bit-errors, ratio: 1e-6}\n")
    assert noisy.record.meta["packets"]["lost"] > 0
    assert play("- {kind: switch-down, switch: core0, at: 5 us}\n").fct_ps[0] >= whole


def test_a_host_that_is_away_is_waited_for_and_what_flaps_comes_several_times(play):
    whole = play(None).fct_ps[0]
    away = play("- {kind: host-down, host: 15, at: 5 us, for: 200 us}\n").fct_ps[0]
    assert away > whole + 190_000_000
    once = play("- {kind: nic-down, host: 15, at: 5 us, for: 100 us}\n").fct_ps[0]
    often = play("- {kind: nic-down, host: 15, at: 5 us, for: 100 us, every: 110 us, times: 3}\n").fct_ps[0]
    assert whole + 90_000_000 < once < often - 100_000_000


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{kind: host-down, host: 99, at: 5 us}", "0 to 15"),
        ("{kind: switch-down, switch: rack1, at: 5 us}", "no such node"),
        ("{kind: switch-down, switch: leaf8, at: 5 us}", "did you mean `leaf"),
        ("{kind: switch-down, switch: h3, at: 5 us}", "no switch"),
        ("{kind: link-down, cable: h0-h1, at: 5 us}", "no cable joins"),
        ("{kind: link-dwon, cable: h0-leaf0, at: 5 us}", "link-down"),
        ("{kind: link-down, cable: h0-leaf0, at: 5}", "unit"),
        ("{kind: degrade-link, cable: h0-leaf0, factor: 1.5}", "1"),
        ("{kind: degrade-link, factor: 50 %}", "says what is degraded"),
        ("{kind: link-down, cable: a-b-c, at: 5 us}", "two nodes"),
        ("{kind: link-down, cable: h0-leaf0, at: -5 us}", "negative"),
        ("{kind: link-down, cable: h0-leaf0, at: 5 us, times: 3, for: 1 us}", "period"),
        ("{kind: nic-down, host: 0, for: 9 us, every: 9 us, times: 2}", "before it is over"),
        ("{kind: late, rank: 3, by: 5 us}", "no ranks"),
    ],
)
def test_a_wrong_fault_is_named(play, line, told):
    with pytest.raises(InputError, match=r"faults\.yaml") as error:
        play(f"- {{kind: host-down, host: 1, at: 1 s, for: 1 us}}\n- {line}\n")
    assert told in str(error.value)
    assert error.value.problems[0].line == 3


TABLE = "at,where,event,value\n"


@pytest.fixture
def play_table(tmp_path):
    def go(rows: str):
        (tmp_path / "one.cm").write_text(MATRIX)
        (tmp_path / "faults.csv").write_text(TABLE + rows)
        preset = fabric("uec")
        return run(TrafficRun(tmp_path / "one.cm", None, preset, preset.settings, faults=tmp_path / "faults.csv"))

    return go


@pytest.mark.parametrize(
    ("rows", "records"),
    [
        ("5 us,h0-leaf0,down,\n60 us,h0-leaf0,up,\n", "- {kind: link-down, cable: h0-leaf0, at: 5 us, for: 55 us}\n"),
        ("0 us,h15-leaf7,rate,0.5\n", "- {kind: degrade-link, cable: h15-leaf7, factor: 50 %}\n"),
        ("# noise\n0 us,*,errors,1e-6\n", "- {kind: bit-errors, ratio: 1e-6}\n"),
        ("5 us,core0,down,\n", "- {kind: switch-down, switch: core0, at: 5 us}\n"),
    ],
)
def test_a_table_of_events_is_what_the_records_are(play, play_table, rows, records):
    assert play_table(rows).record.meta["digest"] == play(records).record.meta["digest"]


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ("5 us,rack1,down,", "no such node"),
        ("5 us,h0-h1,down,", "no cable"),
        ("5 us,h0-leaf0,dwon,", "did you mean `down`"),
        ("5,h0-leaf0,down,", "unit"),
        ("5 us,h0-leaf0,down,1", "takes no value"),
        ("5 us,h0-leaf0,rate,1.5", "1"),
        ("5 us,h0-leaf0,rate,", "needs a value"),
        ("-5 us,h0-leaf0,down,", "negative"),
        ("5 us,a-b-c,down,", "two nodes"),
        ("5 us,h0-leaf0,down", "cells"),
    ],
)
def test_a_wrong_row_is_named_with_its_line(play_table, row, named):
    with pytest.raises(InputError, match=r"faults\.csv") as error:
        play_table(f"1 s,h1,down,\n{row}\n")
    assert named in str(error.value)
    assert error.value.problems[0].line == 3


@pytest.mark.parametrize("text", ["", "# nothing\n", "at,where,event\n1 us,h0,down\n"])
def test_a_table_without_its_heading_is_refused(tmp_path, play_table, text):
    (tmp_path / "one.cm").write_text(MATRIX)
    (tmp_path / "faults.csv").write_text(text)
    preset = fabric("uec")
    with pytest.raises(InputError, match="at, where, event, value"):
        run(TrafficRun(tmp_path / "one.cm", None, preset, preset.settings, faults=tmp_path / "faults.csv"))


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "one.cm").write_text("Nodes 16\nConnections 1\n0->15 id 1 start 0 size 1000\n")
    (folder / "faults.yaml").write_text(text, encoding="utf-8")
    preset = fabric("uec")
    # Whatever the text, nothing but an InputError comes out of it.
    with contextlib.suppress(InputError):
        run(TrafficRun(folder / "one.cm", None, preset, preset.settings, faults=folder / "faults.yaml"))


def test_the_command(tmp_path, capsys):
    (tmp_path / "one.cm").write_text(MATRIX)
    (tmp_path / "faults.yaml").write_text("faults: [{kind: switch-down, switch: core0, at: 5 us}]")
    given = ["packet", "--traffic", str(tmp_path / "one.cm"), "--faults", str(tmp_path / "faults.yaml"), "--json"]
    assert command(given) == 0
    assert json.loads(capsys.readouterr().out)["finished"] == 1
