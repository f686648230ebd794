"""The price of a service's day comes from predicted units: a table of two units and the day."""

from pathlib import Path

import pytest

from railyard import catalog
from railyard_validation.serving.compare import validate_serving

HEADER = (
    "id,status,source,date,model,accelerator,n_accel,network,framework,parallelism,pd_split,precision,isl,osl,load,"
    "ttft_ms,ttft_stat,tpot_ms,out_tok_s_per_gpu,in_tok_s_per_gpu,total_out_tok_s,power_w,usd_per_mtok,notes"
)
# Units of a kind that the model knows, at a stated load; the day is DeepSeek's.
PREFILL = (
    "U1,read,a service,2026-02,deepseek-ai/DeepSeek-V3,H200,8,,sglang 0.5.9,TP8 PP1 aDP1 mTP8 mEP1,prefill unit,fp8,"
    "4096,1,conc 8,,,,,{rate},,,,"
)
DECODE = (
    "U2,read,a service,2026-02,deepseek-ai/DeepSeek-V3,H200,8,,sglang 0.5.9,TP8 PP1 aDP1 mTP8 mEP1,decode unit,fp8,"
    "1024,1024,conc 64,,,,{rate},,,,,"
)
DAY = (
    'U3,read,a service,,a service,H200,,,sglang,,disaggregated,,,,"24 h: 608B input tokens (342B cached), 168B output",'
    ',,,,,,,0.1,"226.75 avg nodes, 278 at the peak, $2/GPU-h assumed"'
)


def report(folder: Path, *rows: str, metric: str = "cost"):
    path = folder / "table.csv"
    path.write_text("\n".join((HEADER, *rows)) + "\n", encoding="utf-8")
    return {row.id: row for row in validate_serving(path, catalog.load(), metric=metric).rows}


def test_the_price_follows_predicted_rates_and_not_published_ones(tmp_path: Path) -> None:
    found = [
        report(tmp_path, PREFILL.format(rate=rate), DECODE.format(rate=rate), DAY)["U3"].predicted
        for rate in (10, 100_000)
    ]
    assert found[0] == found[1]
    units = report(tmp_path, PREFILL.format(rate=1), DECODE.format(rate=1), metric="throughput")
    each = 608e9 / units["U1"].predicted + 168e9 / units["U2"].predicted
    assert found[0] == pytest.approx(each * 2 / 3600 / 776e9 * 1e6, rel=0.01)


def test_a_day_without_its_units_is_skipped_with_the_reason(tmp_path: Path) -> None:
    row = report(tmp_path, PREFILL.format(rate=1), DAY)["U3"]
    assert (row.status, "no row of the service's decode unit" in row.reason) == ("skipped", True)
