"""`railyard run` and `compare` as a user sees them, and the same words from Python."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from importlib.metadata import EntryPoint
from threading import Event
from types import SimpleNamespace

import polars as pl
import pytest

import railyard
from railyard.face import terminal
from railyard.face.cli import commands, guard
from railyard.face.terminal import Progress, Table
from railyard.measure import numbers
from railyard.measure.result.section import Band
from railyard.measure.verdict import verdict_of
from railyard.work.training import present as words

SMALL = """\
name: small
cluster:
  accelerators: 16
  server: hgx-h100
  back_end: {topology: rail-optimized, fabric: roce}
workload:
  training: {model: llama-3.2-1b, tokens: 1 T, global_batch: 16, sequence: 2048, parallelism: {tp: 2}}
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("scenario") / "small.yaml"
    path.write_text(SMALL, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def finished(file):
    return railyard.compare(file, vary={"fabric": ["roce", "ideal"]}, out=file.parent / "runs")


def test_compare_prints_a_plain_table_a_reason_and_the_report(cli, file, tmp_path):
    code, out, err = cli("compare", str(file), "--vary", "fabric=roce,uec,ideal", "--out", str(tmp_path / "runs"))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("roce and uec are equal within error at $")
    table = lines[lines.index("") + 1 :]
    assert table[0].split()[:4] == ["variant", "step", "network", "tax"]
    assert [line.split()[0] for line in table[1:4]] == ["roce", "uec", "ideal"]
    assert table[4] == ""
    assert max(map(len, lines[:-1])) <= 100  # the last one is a path
    assert out.isascii()  # no box drawing in a pipe
    report = lines[-1].removeprefix("report: ")
    assert report.endswith("report.html")
    with open(report, encoding="utf-8") as page:  # noqa: PTH123 - the path as it was printed
        assert "<html" in page.read()


def test_json_is_the_result_and_nothing_else(cli, file, tmp_path):
    code, out, err = cli("run", str(file), "--json", "--set", "seed=7", "--engine", "analytic", "--out", str(tmp_path))
    result = json.loads(out)
    assert (code, err) == (0, "")
    assert result["provenance"]["engine"] == "analytic"
    assert result["provenance"]["seed"] == 7
    assert result["scenario"]["seed"] == 7


def test_quiet_is_the_table_alone(cli, file, tmp_path):
    code, out, _ = cli("run", str(file), "--quiet", "--out", str(tmp_path))
    assert code == 0
    assert len(out.splitlines()) == 2


def test_compare_wants_something_to_compare(cli, file):
    code, _, err = cli("compare", str(file))
    assert code == 2
    assert "--vary fabric=" in err


def test_an_out_that_cannot_be_is_said_so(cli, file, tmp_path):
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    code, _, err = cli("run", str(file), "--out", str(tmp_path / "taken"))
    assert code == 2
    assert "cannot be made" in err


def test_packets_that_bit_errors_take_are_said(cli, tmp_path):
    (tmp_path / "one.csv").write_text("source,target,size_bytes\n0,9,2000000\n")
    (tmp_path / "errors.yaml").write_text("faults: [{kind: bit-errors, ratio: 1e-6}]\n")
    _, clean, _ = cli("packet", "--traffic", str(tmp_path / "one.csv"))
    _, lossy, _ = cli("packet", "--traffic", str(tmp_path / "one.csv"), "--faults", str(tmp_path / "errors.yaml"))
    assert "no packet was dropped." in " ".join(clean.split())
    assert re.search(r"no packet was dropped, \d+ lost on links or without a route\.", " ".join(lossy.split()))


def test_a_flow_that_others_slow_between_its_hosts_is_named_with_what_it_shares(cli, tmp_path):
    """Eight hosts send 4 MB each to h64; h16 sends 2 MB to h70 below the same leaf. Another seed shares no link.

    Then the flow takes as long as alone: 49.06 us.
    """
    rows = ["source,target,size_bytes", *(f"{host},64,4000000" for host in range(8)), "16,70,2000000"]
    (tmp_path / "incast.csv").write_text("\n".join(rows) + "\n")
    sets = ("--set", "hosts=128", "--set", "tiers=2", "--fct", str(tmp_path / "fct.csv"))
    incast = ("packet", "--traffic", str(tmp_path / "incast.csv"), *sets)

    def took(*words):
        _, _, err = cli(*incast, "--fabric", *words)
        return err, float((tmp_path / "fct.csv").read_text().split()[-1].split(",")[-2])

    shared, shared_us = took("roce")
    assert f"h16->h70 took {shared_us:.2f} us, 49.06 us without the other flows" in shared
    assert re.search(r"its hashed path shares spine\d+->leaf8 with 8\.\d MB of others; no link was paused", shared)
    for fabric in (["roce", "--seed", "1"], ["spectrum-x"]):
        separate, separate_us = took(*fabric)
        assert separate_us < 1.1 * 49.06
        assert "without the other flows" not in separate


def test_python_has_the_same_words(file, finished):
    scenario = railyard.load(file, overrides={"accelerators": 32})
    assert scenario.cluster.accelerators == 32
    assert finished.variants == ["roce", "ideal"]
    assert finished.report_path.is_file()
    assert railyard.run(file, out=None).folder is None
    assert railyard.run(scenario, out=None).result.scenario["cluster"]["accelerators"] == 32
    with pytest.raises(railyard.InputError, match="did you mean `accelerators`"):
        railyard.run(file, overrides={"cluster.acelerators": 32}, out=None)


def test_a_run_is_frozen(finished):
    with pytest.raises(AttributeError):
        finished.name = "other"


def test_every_table_is_a_frame(finished):
    assert {"variants", "tax", "tasks", "sources"} < finished.tables.keys()
    for name in finished.tables:
        frame = finished.table(name)
        assert isinstance(frame, pl.DataFrame)
        assert frame.height > 0
        if name not in {"sources", "tasks"}:
            assert set(frame["variant"]) <= {"roce", "ideal"}


def test_tables_add_up(finished):
    shares = finished.table("time").group_by("variant").agg(pl.col("share").sum())
    assert shares["share"].to_list() == pytest.approx([1.0, 1.0])
    with pytest.raises(railyard.InputError, match="did you mean `ranks`"):
        finished.table("rank")


def test_the_printed_card_has_eight_lines(finished):
    lines = str(finished).splitlines()
    assert len(lines) == 8
    assert lines[2].startswith("network tax ")
    assert lines[3].startswith("model error step ")
    assert lines[0].startswith("small: 2 variants")
    assert lines[-1].endswith("report.html")


def test_the_notebook_card_is_small_and_needs_nothing(finished):
    page = finished._repr_html_()
    assert len(page.encode()) < 30_000
    assert "<script" not in page
    assert "http" not in page
    assert "prefers-color-scheme:dark" in page


def test_explain_tells_where_the_step_goes(finished):
    text = finished.explain()
    assert "roce: " in text
    assert "compute  backward" in text


def test_figures_for_people():
    assert numbers.short(1234.5) == "1,230"
    assert numbers.short(0.012345) == "0.0123"
    assert numbers.short(None) == "N/A"
    assert numbers.short(float("inf")) == "N/A"
    assert numbers.seconds(0.0123) == "12.3 ms"
    assert numbers.seconds(86400 * 30) == "30.0 d"
    assert numbers.seconds(90) == "1.50 min"
    assert numbers.dollars(41_200_000) == "$41.2M"
    assert numbers.power(1.23e6) == "1.23 MW"
    assert numbers.percent(0.1234) == "12.3 %"
    assert numbers.percent(-0.0004) == "0.0 %"
    assert numbers.band(Band(low=0.1, typical=0.25, high=0.5)) == "0.100 / 0.250 / 0.500"


def test_alike_variants_are_said_to_be_alike(finished):
    variants = finished.result.variants[:1] * 2
    names = variants[0].name
    twin = finished.result.model_copy(update={"variants": variants, "verdict": verdict_of(variants)})
    assert words.verdict(twin).startswith(f"{names} and {names} give the same answer: $")


# The line of progress: how long is left, by the pace of the stage at hand, and lines where there is no
# terminal.


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def shown(monkeypatch):
    clock, out = [100.0], Terminal()
    monkeypatch.setattr(terminal.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(terminal, "sys", SimpleNamespace(stderr=out))
    made = terminal.Progress(wanted=True)

    def at(seconds: float, share: float) -> str:
        clock[0] = 100.0 + seconds
        out.seek(0)
        out.truncate()
        made("stage", share)
        return out.getvalue().strip()

    return at


def test_what_is_left_follows_from_the_pace_so_far(shown):
    assert "left" not in shown(1.0, 0.05)  # too early to say
    assert shown(4.0, 0.1).endswith("4.0 s, 36 s left  stage")
    assert shown(50.0, 0.125).endswith("50.0 s, 6 min left  stage")
    assert "left" not in shown(51.0, 1.0)


def test_a_share_that_falls_begins_another_stage(shown):
    shown(60.0, 0.9)
    assert "left" not in shown(61.0, 0.1)
    assert shown(66.0, 0.3).endswith("66.0 s, 18 s left  stage")


def test_a_line_without_a_terminal_says_how_long_is_left(monkeypatch):
    """A tenth in 4 s leaves 36 s."""
    clock = [100.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(terminal, "sys", SimpleNamespace(stderr=io.StringIO()))
    shown = terminal.Progress(wanted=True)
    clock[0] = 104.0
    shown("flow", 0.1)
    assert shown._line() == "4 s, 10%: flow, 36 s left"
    clock[0] = 110.0  # nothing new was heard: it ends when it was to end
    assert shown._line() == "10 s, 10%: flow, 30 s left"
    clock[0] = 141.0
    assert shown._line() == "41 s, 10%: flow"


def test_minutes_of_work_are_announced_once(monkeypatch):
    clock, out = [100.0], io.StringIO()
    monkeypatch.setattr(terminal.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(terminal, "sys", SimpleNamespace(stderr=out))
    shown = terminal.Progress(wanted=True, shorter="`--engine analytic` takes seconds")
    for clock[0], share in ((102.0, 0.1), (110.0, 0.04), (120.0, 0.05)):
        shown("flow", share)
    assert out.getvalue() == ""  # a hundredth in 10 s would be 16 min, and tells little
    for clock[0], share in ((140.0, 0.14), (160.0, 0.24)):
        shown("flow", share)
    assert out.getvalue() == "this takes about 4 min; `--engine analytic` takes seconds\n"


def test_parts_with_several_names_have_the_pace_of_all(monkeypatch):
    """Ten seconds of preparing do not count; then 0.2 in 10 s leave 40 s, whichever variant reports it."""
    clock = [100.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(terminal, "sys", SimpleNamespace(stderr=io.StringIO()))
    shown = terminal.Progress(wanted=True)
    for clock[0], share, name in ((110.0, 0.0, "preparing"), (112.0, 0.01, "roce"), (120.0, 0.2, "uec")):
        shown(name, share)
    assert shown._line() == "20 s, 20%: uec, 40 s left"


def test_without_a_terminal_a_line_comes_now_and_then(monkeypatch):
    """Also while one task takes long: the stage is said once, and its line is written until the end."""
    out = io.StringIO()
    monkeypatch.setattr(terminal, "sys", SimpleNamespace(stderr=out))
    wait = Event()
    monkeypatch.setattr(terminal.Progress, "_line", lambda self: (self._latest[0] and wait.set()) or self._latest[0])
    with terminal.Progress(wanted=True, every_s=0.001) as shown:
        shown("flow: 3 of 8; best so far uec", 0.4)
        assert wait.wait(30.0)
    lines = out.getvalue().splitlines()
    assert "flow: 3 of 8; best so far uec" in lines
    with terminal.Progress(wanted=False, every_s=0.001) as silent:
        silent("stage", 0.4)
    assert out.getvalue().splitlines() == lines


# Tables fit where they go.


class TablesTerminal(io.StringIO):
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
    return TablesTerminal()


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


# Commands of other packages: found by entry point, imported when they run, one line where they are missing.

SAY = """
import typer
app = typer.Typer()
@app.command()
def say(word: str) -> None:
    typer.echo(word * 3)
"""


@pytest.fixture
def entries(monkeypatch):
    """Entry points of the group, as an environment would have them."""
    found: dict[str, EntryPoint] = {}
    monkeypatch.setattr(commands, "installed", lambda: found)
    return found


@pytest.fixture
def shouting(entries, tmp_path, monkeypatch):
    (tmp_path / "shouting.py").write_text(SAY, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "shouting", raising=False)
    entry = EntryPoint("shout", "shouting:app", commands.ENTRY_POINTS)
    entries["shout"] = entry._for(SimpleNamespace(metadata={"Summary": "Says it three times."}))


@pytest.mark.usefixtures("shouting")
def test_listed_without_being_imported(capsys):
    assert guard.run(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=1) for line in lines if "shout" in line] == [["shout", "Says it three times."]]
    assert "shouting" not in sys.modules


@pytest.mark.usefixtures("shouting")
def test_runs_with_its_arguments(capsys):
    assert guard.run(["shout", "ho"]) == 0
    assert capsys.readouterr().out == "hohoho\n"


def test_an_extra_that_is_not_installed_says_how_to_get_it(entries, capsys):
    assert guard.run(["validate", "training", "--table", "x.csv"]) == 2
    assert capsys.readouterr().err == (
        "error: `railyard validate` is not installed: `pip install railyard[validation]` adds it\n"
    )


def test_a_built_in_command_is_never_replaced(entries, capsys):
    entries["schema"] = EntryPoint("schema", "nowhere:app", commands.ENTRY_POINTS)
    assert guard.run(["schema", "--help"]) == 0
    assert "JSON schema of a scenario" in capsys.readouterr().out


def test_a_broken_package_is_named(entries, capsys):
    entries["shout"] = EntryPoint("shout", "no_such_module:app", commands.ENTRY_POINTS)
    assert guard.run(["shout"]) == 1
    assert "no_such_module" in capsys.readouterr().err
