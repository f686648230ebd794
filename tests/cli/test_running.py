"""`railyard run` and `compare` as a user sees them, and the same words from Python."""

from __future__ import annotations

import json

import polars as pl
import pytest

import railyard
from railyard.face.api import TABLES
from railyard.face.cli import guard
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


@pytest.fixture
def call(capsys):
    def command(*arguments: str):
        code = guard.run(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def test_compare_prints_a_plain_table_a_reason_and_the_report(call, file, tmp_path):
    code, out, err = call("compare", str(file), "--vary", "fabric=roce,uec,ideal", "--out", str(tmp_path / "runs"))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split()[:3] == ["variant", "network", "tax"]
    assert [line.split()[0] for line in lines[1:4]] == ["roce", "uec", "ideal"]
    assert lines[4] == ""
    assert out.isascii()  # no box drawing in a pipe
    report = lines[-1].removeprefix("report: ")
    assert report.endswith("report.html")
    with open(report, encoding="utf-8") as page:  # noqa: PTH123 - the path as it was printed
        assert "<html" in page.read()


def test_json_is_the_result_and_nothing_else(call, file, tmp_path):
    code, out, err = call("run", str(file), "--json", "--set", "seed=7", "--engine", "analytic", "--out", str(tmp_path))
    result = json.loads(out)
    assert (code, err) == (0, "")
    assert result["provenance"]["engine"] == "analytic"
    assert result["provenance"]["seed"] == 7
    assert result["scenario"]["seed"] == 7


def test_quiet_is_the_table_alone(call, file, tmp_path):
    code, out, _ = call("run", str(file), "--quiet", "--out", str(tmp_path))
    assert code == 0
    assert len(out.splitlines()) == 2


def test_compare_wants_something_to_compare(call, file):
    code, _, err = call("compare", str(file))
    assert code == 2
    assert "--vary fabric=" in err


def test_an_out_that_cannot_be_is_said_so(call, file, tmp_path):
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    code, _, err = call("run", str(file), "--out", str(tmp_path / "taken"))
    assert code == 2
    assert "cannot be made" in err


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


@pytest.mark.parametrize("name", list(TABLES))
def test_every_table_is_a_frame(finished, name):
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
    assert numbers.band(Band(low=0.1, typical=0.25, high=0.5)) == "0.100 / 0.250 / 0.500"


def test_alike_variants_are_said_to_be_alike(finished):
    variants = finished.result.variants[:1] * 2
    twin = finished.result.model_copy(update={"variants": variants, "verdict": verdict_of(variants)})
    assert " Both variants are tied" in words.why(twin)
