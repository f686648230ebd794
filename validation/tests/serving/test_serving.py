"""`railyard validate serving` on rows of the shapes that published tables have."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
import pytest

from railyard import catalog
from railyard.face.cli.guard import run
from railyard.kit.errors import InputError
from railyard.measure.model_error import (
    FEWEST,
    SERVING,
    measured_deployments,
    record,
    serving_error,
    serving_family,
    serving_key,
)
from railyard.work.serving.software import CONSTANTS, ServingSoftwareColumns
from railyard_validation.serving import fit as fitting
from railyard_validation.serving import metrics
from railyard_validation.serving.cases import Case, case_of
from railyard_validation.serving.compare import METRICS, ServingReport, validate_serving
from railyard_validation.serving.left_out import evidence_of, quarter_of
from railyard_validation.serving.noise import label_noise
from railyard_validation.serving.states import States, run_states
from railyard_validation.serving.table import Row, read

if TYPE_CHECKING:
    from railyard_validation.serving.model import Table

HEADER = (
    "id,status,source,date,model,accelerator,n_accel,network,framework,parallelism,pd_split,precision,isl,osl,load,"
    "ttft_ms,ttft_stat,tpot_ms,out_tok_s_per_gpu,in_tok_s_per_gpu,total_out_tok_s,power_w,usd_per_mtok,notes"
)
# aiconfigurator's silicon samples (Apache-2.0, ai-dynamo/aiconfigurator): one measurement under two labels, one split.
ROWS = (
    "I1710,read,aiconfigurator silicon_sample.csv dsr1_h200_sglang_fp8_agg_1024x1024_c4_cfg81,2026-03-25,"
    "deepseek-ai/DeepSeek-V3,h200_sxm,8,,sglang 0.5.9,TP8 PP1 aDP1 mTP8 mEP1,agg,fp8,1024,1024,conc 4,259.9114,,"
    "10.2923,,,,,,",
    "I3434,read,aiconfigurator silicon_sample.csv 2026_03_25_deepseek_r1_h200,2026-03-25,deepseek-ai/DeepSeek-R1,"
    "h200_sxm,8,,sglang 0.5.9,TP8 PP1 aDP1 mTP8 mEP1,agg,fp8,1024,1024,conc 4,259.9114,,10.2923,,,,,,",
    "I2056,read,aiconfigurator silicon_sample.csv dsr1_h200_trtllm_fp8_disagg_1024x1024_c576_cfg303,2026-02-14,"
    "deepseek-ai/DeepSeek-V3,h200_sxm,80,,trtllm 0.8.1.post1,P 1x(TP8 aDP1 EP8 bs1) D 9x(TP8 aDP1 EP8 bs64),disagg,"
    "fp8,1024,1024,conc 576,1807.8681,,30.901,,,,,,",
    "I9001,read,somewhere,2026-01-01,A-Model-Of-No-Catalogue,h200_sxm,8,,vllm 0.12,TP8 PP1 aDP1 mTP8 mEP1,agg,fp8,1024,"
    "1024,conc 4,100,,10,,,,,,",
    "I9002,read,somewhere,2026-01-01,deepseek-ai/DeepSeek-V3,TPU-trillium,8,,vllm 0.12,TP8,agg,fp8,1024,1024,conc 4,1,,"
    "1,,,,,,",
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "measured.csv"
    path.write_text("\n".join((HEADER, *ROWS)) + "\n", encoding="utf-8")
    return path


def test_rows_are_compared_once_and_others_named(table: Path) -> None:
    report = validate_serving(table, catalog.load())
    status = {row.id: row.status for row in report.rows}
    assert status == {"I1710": "ok", "I3434": "duplicate", "I2056": "ok", "I9001": "skipped", "I9002": "skipped"}
    reasons = {row.id: row.reason for row in report.rows}
    assert "I1710" in reasons["I3434"]
    assert "A-Model-Of-No-Catalogue" in reasons["I9001"]
    assert "TPU-trillium" in reasons["I9002"]
    summary = report.summary()
    assert (summary["n"], summary["skipped"], summary["coverage"]) == (2, 2, 0.5)
    assert float(summary["median_abs_error"] or 9.0) < 0.4


def test_rows_have_the_band_of_a_scenario_with_the_same_facts(table: Path) -> None:
    """One pool and pools for prompts, both published before; what is refused has no band."""
    rows = {row.id: row for row in validate_serving(table, catalog.load()).rows}
    for name, split in (("I1710", False), ("I2056", True)):
        band = serving_error("tpot", experts=True, split=split, published=True)
        predicted = rows[name].predicted
        assert predicted is not None
        assert (rows[name].low, rows[name].high) == (predicted * (1 + band.low), predicted * (1 + band.high))
    assert rows["I9001"].low is rows["I9001"].high is None


@pytest.mark.parametrize("metric", METRICS)
def test_json_is_whole(table: Path, metric: str) -> None:
    content = json.loads(validate_serving(table, catalog.load(), metric=metric).to_json())
    assert set(content) == {"table", "metric", "rows", "summary", "sources", "loads"}
    assert {"n", "skipped", "coverage", "mean_abs_error", "median_abs_error", "p90_abs_error"} <= set(
        content["summary"]
    )
    for row in content["rows"]:
        assert {"id", "line", "source", "status", "reason", "metric", "measured", "predicted", "error"} <= set(row)


SAMPLE = Path(__file__).parent / "data" / "silicon_sample.csv"
"""Published rows, a sample of all kinds."""


@pytest.fixture(scope="module")
def reports() -> dict[str, ServingReport]:
    """The sample under the two metrics of time, which are read off the same runs of its rows."""
    runs: dict[tuple[str, ...], States] = {}

    def run_once(whole: Table, software: ServingSoftwareColumns, planned: States) -> States:
        rows = tuple(case.row.id for case in whole.cases)
        if rows not in runs:
            runs[rows] = run_states(whole, software, planned)
        return runs[rows]

    with patch.object(metrics, "run_states", run_once):
        return {metric: validate_serving(SAMPLE, catalog.load(), metric=metric) for metric in ("tpot", "ttft")}


def test_loads_stand_apart_and_incomplete_labels_too(reports: dict[str, ServingReport]) -> None:
    """Each compared row is of one load; a label is incomplete where a recipe told what was deployed."""
    report = reports["tpot"]
    loads = report.loads()
    assert sum(int(found["n"] or 0) for found in loads.values()) == report.summary()["n"]
    assert {"closed", "split", "split, incomplete label"} <= set(loads)
    for row in report.rows:
        assert row.load.endswith("incomplete label") == any(told.startswith("the label ") for told in row.defaults)


def test_an_unknown_metric_is_refused(table: Path) -> None:
    with pytest.raises(InputError, match="latency"):
        validate_serving(table, catalog.load(), metric="latency")


def test_a_table_without_its_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("id,model\n1,a\n", encoding="utf-8")
    with pytest.raises(InputError, match="lacks the columns"):
        validate_serving(path, catalog.load())


# How far the law lies from published rows, a sample of all kinds: with eight fitted constants.


@pytest.mark.parametrize(("metric", "median"), [("tpot", 0.14), ("ttft", 0.29)])
def test_published_rows_are_met_in_the_median(reports: dict[str, ServingReport], metric: str, median: float) -> None:
    summary = reports[metric].summary()
    assert float(summary["coverage"] or 0.0) >= 0.97
    assert float(summary["median_abs_error"] or 9.0) <= median


# Two measurements under one label.


def case(milliseconds: float, framework: str = "vllm 0.19") -> SimpleNamespace:
    return SimpleNamespace(row=Row("x", 2, {"framework": framework, "load": "conc 8"}, {"tpot_ms": milliseconds}))


def test_pairs_under_one_label_are_compared_whichever_is_larger() -> None:
    """10, 12 and 15 ms: a fifth, a quarter and a half; another version is another label."""
    noise = label_noise([case(12.0), case(10.0), case(15.0), case(99.0, "vllm 0.20")], "tpot")
    assert noise is not None
    assert noise.pairs == 3
    assert noise.median == pytest.approx(0.25)
    assert noise.p90 == pytest.approx(0.25 + 0.8 * 0.25)


def test_labels_that_stand_once_tell_nothing() -> None:
    assert label_noise([case(12.0)], "tpot") is None
    assert label_noise([case(12.0), case(10.0)], "ttft") is None


# Every serving row has a month, and forecasts of a quarter see nothing that came with it or after it.

BY_TIME_TABLE = Path(__file__).resolve().parents[2] / "data/serving/measured.csv"


@pytest.fixture(scope="module")
def rows():
    return read(BY_TIME_TABLE)


def test_every_row_has_the_month_of_its_publication_and_a_source(rows):
    assert all(re.fullmatch(r"202[56]-(0[1-9]|1[0-2])", row.get("published")) for row in rows)
    assert all(row.get("source") for row in rows)
    # Nothing is published before it is measured.
    dated = [row for row in rows if re.fullmatch(r"\d{4}-\d\d-\d\d", row.get("date"))]
    assert len(dated) > 2000
    assert all(row.get("published") >= row.get("date")[:7] for row in dated)


def test_a_later_measurement_changes_no_earlier_constant(rows):
    """The later of two quarters measured twice as slow: constants of both stay, and those of other splits do not."""
    known = catalog.load()
    cases = [case for case in (case_of(row, known) for row in rows) if isinstance(case, Case)]
    some = [case for case in cases if case.kind == "closed" and case.users <= 4 and fitting.first_s(case)]
    early, late = ([case for case in some if quarter_of(case) == quarter][:6] for quarter in ("2025-10", "2026-01"))
    seen = evidence_of([*early, *late])
    twice = np.where([quarter_of(case) == "2026-01" for case in seen.rows.cases], 2.0, 1.0)
    slower = replace(seen, told=seen.told * twice)
    for keep, same in ((np.less, True), (np.not_equal, False)):
        plain, changed = (fitting.left_out(one, quarter_of, seen.rows.cases, keep) for one in (seen, slower))
        alike = [np.array_equal(getattr(plain, name), getattr(changed, name)) for name in CONSTANTS]
        assert all(alike) is same


def test_bands_widen_with_distance():
    """Of a deployment like published ones, of a new one, and of several pools; unknown kinds have a new one's."""
    bands = record()
    for question in ("tpot", "ttft"):
        near, new = (bands[question, f"experts, one pool{suffix}"] for suffix in ("", ", new"))
        split = bands[question, "pools for prompts"]
        assert near.median < new.median
        assert near.median < split.median
    for question in SERVING:
        assert serving_error(question, experts=True, split=True, published=False).held_out == "time"
    assert serving_family(experts=False, split=False, published=False) == "dense, one pool, new"
    assert serving_key("llama-3-70b", "blackwell", "tensorrt-llm", "fp8") in measured_deployments()
    assert serving_key("llama-3-70b", "volta", "tensorrt-llm", "fp8") not in measured_deployments()


def test_a_family_of_one_row_takes_the_band_of_new_deployments() -> None:
    """One published row of tokens/s of experts in one pool says nothing of eight in ten; 43 of new ones do."""
    assert record()["throughput", "experts, one pool"].rows < FEWEST
    found = serving_error("throughput", experts=True, split=False, published=True)
    assert found == record()["throughput", "experts, one pool, new"]
    assert serving_error("tpot", experts=True, split=True, published=False).rows >= FEWEST


# The page of recorded runs.

RUNS = Path(__file__).parents[2] / "data/serving_runs"


def test_the_command(tmp_path, capsys):
    shutil.copytree(RUNS / "RTXPRO6000/Llama-3.1-8B", tmp_path / "own")
    page = tmp_path / "runs.md"
    assert run(["validate", "serving", "--runs", str(tmp_path), "--page", str(page), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["summary"]["n"] == 1
    assert content["rows"][0]["fitted"]
    assert "<svg" in (tmp_path / "runs-1-ttft.svg").read_text(encoding="utf-8")
    assert "KS distance of TPOT" in page.read_text(encoding="utf-8")
