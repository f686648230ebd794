"""Recorded runs of vLLM, request by request: what is read, what the engine makes of them, what was fitted."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from railyard import catalog
from railyard.ask.calibrate.recorded import ReplaySetting, distance, read_runs, replay
from railyard.ask.calibrate.recorded_fit import WITHIN, given_by, misfit, simplex, tells, validate_runs
from railyard.kit.errors import InputError
from railyard.model.machine import Machine
from railyard.work.serving.layout import Deployments, ServingLayout
from railyard.work.serving.memory import cache_tokens
from railyard.work.serving.software import profile, read_profiles, shipped, table_profile, written

RUNS = Path(__file__).resolve().parents[2] / "validation/data/serving_runs"
ADA = "RTX4090/Llama-3.1-8B/vllm"
DENSE, TENSOR = "RTXPRO6000/Llama-3.1-8B/vllm", "RTXPRO6000/Qwen3-32B/vllm"
EXPERTS = "RTXPRO6000/Qwen3-30B-A3B-Instruct-2507/vllm"


@pytest.fixture(scope="module")
def known():
    return catalog.load()


@pytest.fixture(scope="module")
def report(known):
    return {row.id: row for row in validate_runs(RUNS, known).rows}


@pytest.mark.parametrize("name", [ADA, DENSE, TENSOR])
def test_distributions_of_dense_models_are_within_a_tenth(report, name):
    row = report[name]
    assert row.requests == 300
    assert row.ttft.distance <= WITHIN
    assert row.tpot.distance <= WITHIN
    assert row.tpot.median_request_error < 0.03


def test_a_model_with_experts_on_two_copies(report):
    row = report[EXPERTS]
    assert row.ttft.distance <= WITHIN
    # WHY not a tenth: routing is taken as even, and all of its pace lies within 33 to 54 ms.
    assert row.tpot.distance <= 0.12
    assert row.tpot.median_request_error < 0.03


def test_each_run_gives_only_what_no_simpler_run_gives(report):
    assert len(report[DENSE].fitted) == 8
    assert report[TENSOR].fitted == ("reduce_s", "reduce_fraction")
    assert "weights_fraction" not in report[EXPERTS].fitted


@pytest.mark.parametrize("name", [ADA, DENSE, TENSOR, EXPERTS])
def test_what_ships_is_where_the_fit_ends(known, name):
    """No constant that a run gave can be moved by 5 % and fit it much better."""
    setting = ReplaySetting.of(next(run for run in read_runs(RUNS) if run.name == name), known)
    software = profile("vllm", setting.device)
    here = misfit(setting, software)
    for told in given_by(setting.run, shipped()["vllm", setting.device.name]):
        for factor in (0.95, 1.05):
            moved = replace(software, **{told: factor * getattr(software, told)})
            assert misfit(setting, moved) > 0.9 * here, f"{told} x {factor}"


def test_without_the_devices_own_constants_the_runs_are_off(known):
    rows = validate_runs(RUNS, known, profiles={}).rows
    assert max(row.tpot.distance for row in rows) > 0.5
    assert not any(row.fitted for row in rows)


def test_the_memory_rule_finds_the_recorded_cache(report):
    cache = report[ADA].cache_tokens
    assert cache["recorded"] == 41_408
    assert cache["predicted"] == pytest.approx(cache["recorded"], rel=0.03)


def test_the_memory_rule_on_another_device(known):
    # vLLM 0.19.0 on an A100 of 80 GB at a share of 0.65: 36.56 GiB of cache for gpt-oss-20b, whose weights are padded
    # to 13.72 GiB (myoceane.fr, 2026-04-18).
    model, device = known.model("gpt-oss-20b"), known.accelerator("a100-sxm-80gb")
    rows = Deployments.of((model, ServingLayout(precision="mxfp4"), Machine.of_device(device, 1.0)))
    held = cache_tokens(rows, share=0.65, tokens=2048.0, most=256.0)[0]
    full = 2 * 8 * 64 * 2 * model.layers / 2  # bytes of a token in the layers that see everything
    assert held * full / 2**30 == pytest.approx(36.56, rel=0.03)


def test_asynchronous_scheduling_is_what_light_loads_wait_for(known):
    run = next(run for run in read_runs(RUNS) if run.name == EXPERTS)
    setting = ReplaySetting.of(run, known)
    software = profile("vllm", setting.device)
    ahead = replay(setting, software)
    at_once = replay(replace(setting, run=replace(run, ahead=False)), software)
    assert np.median(at_once.ttft_s) < 0.8 * np.median(run.ttft_s)
    assert np.median(ahead.ttft_s) == pytest.approx(np.median(run.ttft_s), rel=0.1)


def test_distance_is_that_of_kolmogorov_and_smirnov():
    assert distance(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 3.0, 4.0])) == 0.0
    assert distance(np.array([1.0, 2.0]), np.array([3.0, 4.0])) == 1.0
    assert distance(np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.5, 2.6, 2.7, 2.8])) == 0.5
    assert distance(np.array([1.0, np.nan]), np.array([1.0])) == 0.0


def test_the_simplex_finds_the_bottom_of_a_valley():
    found = simplex(lambda x: (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2, np.array([-1.2, 1.0]), 0.5)
    assert found == pytest.approx([1.0, 1.0], abs=1e-3)


def test_what_a_run_tells_of(known):
    settings = {run.name: ReplaySetting.of(run, known) for run in read_runs(RUNS)}
    assert len(tells(settings[DENSE])) == 8
    assert set(tells(settings[TENSOR])) - set(tells(settings[DENSE])) == {"reduce_s", "reduce_fraction"}
    assert {"exchange_s", "moe_layer_s"} < set(tells(settings[EXPERTS]))


def test_profiles_stand_over_the_tables_and_can_be_read_again(tmp_path, known):
    device = known.accelerator("rtx-4090")
    own = shipped()["vllm", "rtx-4090"]
    assert profile("vllm", device).weights_fraction == own.constants["weights_fraction"]
    assert table_profile("vllm", device).weights_fraction != own.constants["weights_fraction"]
    file = tmp_path / "own.toml"
    file.write_text(written(shipped()), encoding="utf-8")
    assert read_profiles(file) == shipped()


@pytest.fixture
def copied(tmp_path):
    shutil.copytree(RUNS / "RTXPRO6000/Llama-3.1-8B", tmp_path / "own")
    return tmp_path


def test_wrong_lines_are_named(copied):
    path = copied / "own/vllm/requests.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[2] = "{"
    lines[4] = json.dumps({**json.loads(lines[4]), "first_token_ts": 0})
    lines[6] = json.dumps({key: value for key, value in json.loads(lines[6]).items() if key != "input_toks"})
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_runs(copied)
    assert [problem.line for problem in caught.value.problems] == [3, 5, 7]


def test_wrong_records_are_named(copied, tmp_path):
    meta = copied / "own/vllm/meta.json"
    content = json.loads(meta.read_text(encoding="utf-8"))
    del content["engine_kwargs"]["max_num_seqs"]
    meta.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(InputError, match="max_num_seqs"):
        read_runs(copied)
    meta.unlink()
    with pytest.raises(InputError, match="no such file"):
        read_runs(copied)
    with pytest.raises(InputError, match="no recorded run"):
        read_runs(RUNS / "RTX4090/Llama-3.1-8B/vllm" / ".." / ".." / ".." / ".." / "kernels")


def test_a_run_of_an_unknown_device_is_skipped(copied, known):
    meta = copied / "own/vllm/meta.json"
    content = json.loads(meta.read_text(encoding="utf-8"))
    meta.write_text(json.dumps({**content, "hardware": {"device_name": "Abacus 9"}}), encoding="utf-8")
    found = validate_runs(copied, known)
    assert [row.status for row in found.rows] == ["skipped"]
    assert "Abacus" in found.rows[0].reason
    assert found.summary()["coverage"] == 0.0
