"""`railyard validate serving` on rows of the shapes that published tables have."""

import json
from pathlib import Path

import pytest

from railyard import catalog
from railyard.kit.errors import InputError
from railyard.measure.model_error import serving_error
from railyard_validation.serving.compare import METRICS, validate_serving

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


def test_loads_stand_apart_and_incomplete_labels_too() -> None:
    """Each compared row is of one load; a label is incomplete where a recipe told what was deployed."""
    report = validate_serving(Path(__file__).parent / "data" / "silicon_sample.csv", catalog.load())
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
