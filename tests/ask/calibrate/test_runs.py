"""Recorded runs of vLLM, request by request: what is read, what the engine makes of them, what was fitted."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from railyard import catalog
from railyard import catalog as catalogue
from railyard.ask.calibrate import measurements
from railyard.ask.calibrate.kinds.collectives import Predicted, named
from railyard.ask.calibrate.kinds.collectives import shipped as collectives_shipped
from railyard.ask.calibrate.nccl.constants import CONSTANTS
from railyard.ask.calibrate.nccl.constants import FITTED as PRIORS
from railyard.ask.calibrate.nccl.log import parse
from railyard.ask.calibrate.nccl.rows import validate_log
from railyard.ask.calibrate.plan import attention_s
from railyard.ask.calibrate.recorded import ReplaySetting, distance, read_runs, replay
from railyard.ask.calibrate.recorded_fit import WITHIN, given_by, misfit, simplex, tells, validate_runs
from railyard.collective.constants import MEASURED, read_constants
from railyard.face import api
from railyard.kit.errors import InputError
from railyard.model.machine import Machine
from railyard.work.serving.layout import Deployments, ServingLayout
from railyard.work.serving.memory import cache_tokens
from railyard.work.serving.software import profile, read_profiles, shipped, table_profile, written

RUNS = Path(__file__).resolve().parents[3] / "validation/data/serving_runs"
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
    assert table_profile("vllm", device.architecture).weights_fraction != own.constants["weights_fraction"]
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


# Constants from a log of nccl-tests: found again, written, read by a scenario; wrong logs are refused.

KNOWN = catalogue.load()
HEADER = """# collective: all_reduce
# ranks: 8
# config: 8x B200 SXM, one process a GPU by MPI, -b 8 -e 4G
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
"""
SIZES = tuple(8 << (2 * step) for step in range(15))


def log(times, header=HEADER):
    """A log with those times of every size, alike in both placements."""
    lines = []
    for size, time_us in zip(SIZES, times, strict=True):
        algbw = size / time_us / 1e3
        half = f"{time_us:.4f} {algbw:.2f} {1.75 * algbw:.2f} 0"
        lines.append(f"{size} {size // 4} float sum -1 {half} {half}")
    return header + "\n".join(lines) + "\n"


def of_constants(header=HEADER, **library):
    """Times as constants of the library make them."""
    changed = dataclasses.replace(CONSTANTS, library=dataclasses.replace(MEASURED, **library))
    rows = validate_log(parse(log([1.0] * len(SIZES), header)), KNOWN, changed)
    return [row.predicted_us for row in rows if row.placement == "in-place"]


def collective_tables_written(folder, text, name="mine.txt"):
    path = folder / name
    path.write_text(text)
    return path


def test_a_constant_that_made_the_times_is_found(tmp_path):
    """Steps inside an Ampere domain 30 % slower than shipped; what is known of them is wide enough to follow."""
    slower = 1.3 * MEASURED.ampere_hop
    header = HEADER.replace("B200 SXM", "A100 SXM")
    kind, source = measurements.read(
        collective_tables_written(tmp_path, log(of_constants(header, ampere_hop=slower), header))
    )
    assert kind.name == "collectives"
    found = kind.calibrate(source, KNOWN)
    hop = next(one for one in found.constants if one.name == "ampere_hop")
    assert hop.value == pytest.approx(slower, rel=0.04)
    assert hop.low < slower < hop.high
    assert hop.before == MEASURED.ampere_hop
    misses = (
        (abs(row.before / row.measured - 1) for row in found.rows),
        (abs(row.after / row.measured - 1) for row in found.rows),
    )
    before, after = (np.mean(list(column)) for column in misses)
    left = np.mean([abs(row.left_out / row.measured - 1) for row in found.rows])
    assert after < 0.2 * before
    assert after <= left < 0.5 * before
    assert len(found.rows) == len(SIZES)  # both placements of a size are one row


def test_times_that_ship_move_nothing(tmp_path):
    kind, source = measurements.read(collective_tables_written(tmp_path, log(of_constants())))
    for one in kind.calibrate(source, KNOWN).constants:
        assert one.value == pytest.approx(one.before, rel=0.01)


def test_what_is_written_is_what_a_scenario_reads(tmp_path):
    kind, source = measurements.read(
        collective_tables_written(tmp_path, log(of_constants(blackwell_hop=4.0, switch_share=0.7)))
    )
    found = kind.calibrate(source, KNOWN)
    path = collective_tables_written(tmp_path, found.written, "own.toml")
    constants = read_constants(path)
    for one in found.constants:
        if one.of == "library":
            assert getattr(constants, one.name) == pytest.approx(one.value, rel=1e-3)
    layout = {"tp": 8, "micro_batch": 1}
    training = {"model": "llama-3.1-8b", "global_batch": 8, "sequence": 512, "parallelism": layout}
    scenario = {
        "name": "x",
        "engine": "analytic",
        "cluster": {"accelerators": 8, "server": "hgx-b200"},
        "workload": {"training": training},
    }
    own = {**scenario, "collectives": {"constants": str(path)}}
    step = [api.run(one, out=None).result.plain()["variants"][0]["step"]["seconds"] for one in (scenario, own)]
    # LL rings of 7 steps of 0.6 us carry its 4 MiB. Each of 8 micro-batches gathers and scatters before and after 64
    # blocks and the head. All of the forward pass waits; of the backward pass what its products do not hide.
    hops_us = 7 * 0.6 * (constants.blackwell_hop - MEASURED.blackwell_hop)
    pass_s = 8 * 65 * 2 * hops_us * 1e-6
    assert pass_s < step[1] - step[0] < 2 * pass_s


def test_a_log_as_it_is_printed_says_its_collective_and_machine(tmp_path):
    """Without a header: the program's name, and the devices that nccl-tests lists."""
    ranks = "\n".join(
        f"#  Rank  {rank} Group  0 Pid {rank} on host device  {rank} [0x1b] NVIDIA B200" for rank in range(8)
    )
    bare = "# Collective test starting: all_reduce_perf\n" + ranks + "\n" + HEADER.splitlines()[-1] + "\n"
    kind, source = measurements.read(collective_tables_written(tmp_path, log(of_constants(), bare)))
    assert named(source).headers["collective"] == "all_reduce"
    assert {row.name.split()[0] for row in kind.calibrate(source, KNOWN).rows} == {"all-reduce"}


def test_only_constants_that_move_a_row_are_fitted():
    found = Predicted(parse(log(of_constants())), KNOWN)
    names = {PRIORS[index].name for index in found.felt}
    assert "library.blackwell_hop" in names
    assert not names & {"library.ampere_hop", "library.efa_us", "tcpx_idle_us", "python_us"}
    assert math.isclose(math.exp(collectives_shipped()[found.felt[0]]), PRIORS[found.felt[0]].get(CONSTANTS))
    assert Path(found.log.path).name == "log"


# What the training model says of single operators.

PREDICTION_KNOWN = catalog.load()


@pytest.mark.parametrize("model", ["llama-3-8b", "deepseek-v3", "gemma-3-27b"])
@pytest.mark.parametrize("sequence", [3_000, 200_000])
def test_attention_has_the_heads_that_are_asked_for_whatever_the_model(model, sequence):
    """H100, batch of 3, 64 heads of 128: 2 x 3 s x s/2 x 64 x 256 FLOPs and 64 keys of the diagonal more a query.

    Blocks of 128 queries, 132 units; neither latent attention, nor a window, nor the model's longest sequence matters.
    """
    blocks = 3 * 64 * -(-sequence // 128)
    rate = 989e12 * 0.62 * max(blocks / (blocks + 66), blocks / (-(-blocks // 132) * 132)) / (1 + 128 / sequence)
    work_s = 2 * 3 * sequence * sequence / 2 * 64 * 256 / rate
    forward, both = attention_s(
        PREDICTION_KNOWN.accelerator("h100-sxm"), PREDICTION_KNOWN.model(model), (3, 64, sequence, 128)
    )
    assert forward == pytest.approx(work_s + 1.6e-6, rel=1e-9)
    assert both == pytest.approx(3.5 * work_s + 4 * 1.6e-6, rel=1e-9)
