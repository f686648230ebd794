"""Measured rows through the serving engine: what is sent, by which scheduler, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from railyard import catalog
from railyard_validation.serving.cases import Case, case_of
from railyard_validation.serving.compare import validate_serving
from railyard_validation.serving.model import deployment_software, part, table
from railyard_validation.serving.queue import runs, served
from railyard_validation.serving.schedule_cases import FRESH, SEEDS, draw
from railyard_validation.serving.schedulers import scheduler_of
from railyard_validation.serving.schedules import ours, recorded
from railyard_validation.serving.schedules_page import DATA, text
from railyard_validation.serving.states import mean_is_told
from railyard_validation.serving.table import read

SAMPLE = Path(__file__).parent / "data" / "silicon_sample.csv"
HEADER = (
    "id,source,date,model,accelerator,n_accel,framework,parallelism,precision,isl,osl,load,ttft_ms,ttft_stat,tpot_ms\n"
)
RATE = "own,2026-01,meta-llama/Llama-3.1-8B-Instruct,H100,1,vllm 0.19.0,TP1,bf16,512,256,Poisson {} req/s,90,p50,9\n"


def _cases(path: Path = SAMPLE) -> list[Case]:
    known = catalog.load()
    found = [case_of(row, known) for row in read(path)]
    return [case for case in found if isinstance(case, Case)]


def test_a_first_wave_waits_and_one_user_does_not() -> None:
    cases = [case for case in _cases() if case.kind == "closed" and runs(case)]
    whole = table(cases)
    queued = served(whole, deployment_software(whole.cases), np.arange(len(cases)))
    assert np.isfinite(queued.ttft_mean_s).all()
    # Little's law: users = rate x time of an answer, but for filling and draining.
    held = queued.rate_per_s * (queued.ttft_mean_s + queued.tpot_s * (whole.output - 1.0))
    assert np.median(held / whole.users) == pytest.approx(1.0, abs=0.1)
    crowd = whole.users >= 64
    assert (queued.ttft_mean_s[crowd] > queued.ttft_median_s[crowd] * 0.99).mean() > 0.8


def test_what_does_not_say_its_load_is_not_run() -> None:
    cases = _cases()
    vague = [case for case in cases if case.vague]
    assert vague
    assert not any(runs(case) for case in vague)


def test_open_loops_wait_longer_the_nearer_they_are_to_saturation(tmp_path: Path) -> None:
    path = tmp_path / "open.csv"
    lines = [HEADER] + [f"r{rate}," + RATE.format(rate) for rate in (1, 10, 40, 400)]
    path.write_text("".join(lines), encoding="utf-8")
    cases = _cases(path)
    whole = table(cases)
    queued = served(whole, deployment_software(whole.cases), np.arange(4))
    assert (np.diff(queued.ttft_median_s) > 0).all()
    assert (np.diff(queued.busy) > 0).all()
    # Below saturation what is asked is served, above it no more than the engine can.
    assert queued.rate_per_s[:2] == pytest.approx([1.0, 10.0], rel=0.15)
    assert queued.rate_per_s[3] < 200.0


def test_the_order_of_rows_does_not_show() -> None:
    cases = [case for case in _cases() if case.kind == "closed"][:6]
    whole = table(cases)
    software = deployment_software(whole.cases)
    forward = served(whole, software, np.arange(6)).ttft_mean_s
    back = part(whole, np.arange(5, -1, -1))
    backward = served(back, deployment_software(back.cases), np.arange(6)).ttft_mean_s
    assert forward.tolist() == backward[::-1].tolist()


def test_schedulers_are_those_of_the_engines() -> None:
    for case in _cases():
        scheduler = scheduler_of(case)
        assert scheduler.prompts_first == (case.engine == "sglang")
        assert scheduler.chunked == (case.engine != "tensorrt-llm")
        assert scheduler.budget >= 1024
        assert scheduler.chunked or scheduler.budget >= case.prompt


def test_a_mean_is_compared_with_a_mean() -> None:
    told = {case.row.get("ttft_stat"): mean_is_told(case) for case in _cases()}
    assert told["as in InferenceX db (median)"]


def test_both_columns_are_reported(tmp_path: Path) -> None:
    lines = SAMPLE.read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "some.csv").write_text("".join([lines[0], *lines[1::8]]), encoding="utf-8")
    report = validate_serving(tmp_path / "some.csv", catalog.load(), metric="ttft")
    done = [row for row in report.rows if row.status == "ok"]
    assert all(row.closed_form is not None for row in done)
    assert any(row.closed_form != row.predicted for row in done)
    assert report.summary()["closed_form_median_abs_error"] is not None


def test_cards_without_scale_up_reach_one_another_over_the_pcie_of_their_server(tmp_path: Path) -> None:
    """And rows of recorded runs have the limits of their records."""
    path = tmp_path / "cards.csv"
    line = "own,2026-01,Qwen3-32B,{},2,vllm 0.19.0,TP2,bf16,858,655,Poisson 10 req/s,90,p50,9\n"
    lines = [
        f"a,{line.format('RTX PRO 6000')}",
        f"b,LLMServingSim {line.format('RTX PRO 6000')}",
        f"c,{line.format('H100')}",
    ]
    path.write_text(HEADER + "".join(lines), encoding="utf-8")
    own, recorded, switched = _cases(path)
    assert own.domain == 8
    assert switched.domain == switched.device.scale_up_domain
    assert scheduler_of(own).most == 1024
    assert (scheduler_of(recorded).most, scheduler_of(recorded).budget) == (128, 2048)


# The serving engine's iterations against those that vLLM's own scheduler made of the same traces.

FOLDER = Path(__file__).parent / "data"
THEIRS = {seed: answer for file in DATA for seed, answer in recorded(FOLDER / file).items()}
CUT = 2775
"""Its context ends one token behind a request, where vLLM cuts guesses: the engine knows no longest context."""


def test_every_case_is_recorded():
    assert set(THEIRS) == {*SEEDS, *FRESH}


@pytest.mark.parametrize("seed", sorted(set(THEIRS) - {CUT}))
def test_batches_are_those_of_vllm(seed):
    found = ours(draw(seed))
    assert found.iterations == THEIRS[seed].iterations
    assert found.equals(THEIRS[seed])


def test_the_case_that_differs_does_so_where_the_context_ends():
    found, theirs = ours(draw(CUT)), THEIRS[CUT]
    at = found.same(theirs)
    assert found.iterations[at].replace("20:3", "20:2") == theirs.iterations[at]
    request = draw(CUT).requests[20]
    assert request.input + request.output == draw(CUT).max_batched_tokens - 1


def test_another_budget_is_not_equal():
    case = draw(SEEDS[0])
    assert not ours(replace(case, max_batched_tokens=case.max_batched_tokens - 1)).equals(THEIRS[SEEDS[0]])


def test_the_page_is_fresh():
    page = Path(__file__).parents[3] / "docs/validation/serving-schedules.md"
    assert page.read_text(encoding="utf-8") == text(FOLDER)


# The price of a service's day comes from predicted units: a table of two units and the day.

SERVICE_COST_HEADER = (
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
    path.write_text("\n".join((SERVICE_COST_HEADER, *rows)) + "\n", encoding="utf-8")
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
