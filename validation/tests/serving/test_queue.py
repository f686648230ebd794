"""Measured rows through the serving engine: what is sent, by which scheduler, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from railyard import catalog
from railyard_validation.serving.cases import Case, case_of
from railyard_validation.serving.compare import validate_serving
from railyard_validation.serving.model import deployment_software, part, table
from railyard_validation.serving.queue import runs, served
from railyard_validation.serving.schedulers import scheduler_of
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
