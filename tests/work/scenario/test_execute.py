"""The whole way of a run: what its result and its folder hold, and what is left when it does not end well."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from railyard.graph.parquet import read_record
from railyard.kit.errors import InputError, SimulationError
from railyard.work.scenario import load
from railyard.work.study.study import run as execute

VARIANT_KEYS = {
    "name", "settings", "model_error", "bound", "outcome",
    "layout", "step", "storage", "utilization", "tax", "time", "lockstep", "jct", "power", "capex", "cpmt",
    "bottleneck", "network", "memory", "timeline", "topology", "collectives", "warnings", "digest",
}  # fmt: skip


def run(path, *sets, varies=(), searched=False, **options):
    return execute(load.load(path, sets), varies, searched=searched, **options)


def visible(folder):
    return sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))


def test_a_result_is_complete_and_its_parts_add_up(small):
    result = run(small, varies=["fabric=roce,ideal"], searched=True).result.plain()
    assert result["format"] == "railyard/result-1"
    assert [variant["name"] for variant in result["variants"]] == ["roce", "ideal"]
    for variant in result["variants"]:
        assert set(variant) == VARIANT_KEYS
        assert sum(part["seconds"] for part in variant["time"]) == pytest.approx(variant["step"]["seconds"], rel=1e-9)
        assert sum(part["share"] for part in variant["time"]) == pytest.approx(1.0, rel=1e-9)
        busy = sum(part["share"] for part in variant["time"] if part["cause"] == "compute")
        assert variant["utilization"]["gpu"] == pytest.approx(busy, rel=1e-6)
        tokens = 16 * 2048 / variant["step"]["seconds"]
        assert variant["utilization"]["tokens_per_s"] == pytest.approx(tokens, rel=1e-9)
        parts = sum(part["typical_usd"] for part in variant["capex"]["components"])
        assert parts == pytest.approx(variant["capex"]["total_usd"]["typical"], rel=1e-9)
        assert variant["cpmt"]["low"] <= variant["cpmt"]["typical"] <= variant["cpmt"]["high"]
    sources = result["provenance"]["sources"]
    assert {"item", "field", "value", "source", "year", "confidence"} <= set(sources[0])
    assert any(source["item"] == "h100-sxm" and source["field"] == "flops.bf16" for source in sources)
    assert result["provenance"]["left_out"]


def test_the_folder_reproduces_the_run(small, tmp_path):
    first = run(small, "seed=3", varies=["fabric=roce,uec"], out=tmp_path / "runs")
    assert visible(tmp_path / "runs") == [first.folder.name]
    assert first.folder.name.startswith("small-")
    kept = ["timeline.link_windows.parquet", "timeline.links.parquet", "timeline.parquet", "trace.json"]
    assert visible(first.folder) == ["result.json", "scenario.yaml", *kept, "variants"]
    assert visible(first.folder / "variants") == ["1-uec"]
    assert visible(first.folder / "variants" / "1-uec") == kept
    assert not (tmp_path / "runs" / ".unfinished").exists()

    stored = json.loads((first.folder / "result.json").read_text(encoding="utf-8"))
    assert stored == first.result.plain()
    again = run(first.folder / "scenario.yaml", out=tmp_path / "runs")
    assert again.folder == first.folder
    digests = [
        [variant["digest"] for variant in result["variants"]] for result in (first.result.plain(), again.result.plain())
    ]
    assert digests[0] == digests[1]
    assert read_record(again.folder / "timeline.parquet").digest() == digests[0][0]
    trace = json.loads((first.folder / "trace.json").read_text(encoding="utf-8"))
    assert trace["traceEvents"]


def test_files_that_a_scenario_names_go_with_it(small, tmp_path):
    (tmp_path / "model").mkdir()
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 1024, "intermediate_size": 4096,
        "num_attention_heads": 16, "num_key_value_heads": 8, "num_hidden_layers": 8, "vocab_size": 32000,
        "max_position_embeddings": 4096,
    }  # fmt: skip
    (tmp_path / "model" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (tmp_path / "own.yaml").write_text(
        "prices: {electricity: {range: {low: $0.01/kWh, typical: $0.02/kWh, high: $0.03/kWh}}}\n", encoding="utf-8"
    )
    first = run(small, "model=./model/config.json", "catalog=own.yaml", out=tmp_path / "runs")
    copies = visible(first.folder / "inputs")
    assert [copy.rpartition("-")[2] for copy in copies] == ["config.json", "own.yaml"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    again = run(first.folder / "scenario.yaml", out=elsewhere)
    assert again.result.plain()["variants"][0]["digest"] == first.result.plain()["variants"][0]["digest"]
    assert again.result.plain()["variants"][0]["cpmt"] == first.result.plain()["variants"][0]["cpmt"]


def test_seeds_give_a_distribution(small):
    step = run(small, "repeat=4", "jitter.sigma=5 %").result.plain()["variants"][0]["step"]
    assert len(set(step["samples"])) == 4
    assert min(step["samples"]) <= step["p50_s"] <= step["p95_s"] <= step["p99_s"] == max(step["samples"])
    alone = run(small, "seed=2", "jitter.sigma=5 %").result.plain()["variants"][0]["step"]
    assert alone["samples"] == [step["samples"][2]]


def test_the_law_of_jitter_stands_around_an_undisturbed_step(small):
    """In closed form, so that the timeline is the same with and without it; drawn, the samples are what differs."""
    quantiles, none, drawn = (
        run(small, f"jitter.law={law}", "repeat=3").result.plain()["variants"][0]
        for law in ("quantiles", "none", "drawn")
    )
    assert quantiles["digest"] == none["digest"]
    step = quantiles["step"]
    assert "MLPerf" in step["jitter"]
    assert step["seconds"] == pytest.approx(step["p50_s"], rel=1e-3)
    assert step["p50_s"] < step["p95_s"] < step["p99_s"] < 1.2 * step["p50_s"]
    assert none["step"]["p95_s"] == none["step"]["p50_s"] == none["step"]["seconds"]
    assert len(set(drawn["step"]["samples"])) == 3
    assert drawn["step"]["jitter"] == ""


CROWDED = [
    "accelerators=64", "global_batch=64", "topology={kind: leaf-spine, oversubscription: 2:1, ports_per_leaf: 16}",
    "qps=1", "cluster.placement=scattered", "parallelism={tp: 1, zero: 3, recompute: full}",
]  # fmt: skip


def test_every_seed_draws_the_hashes_anew(small):
    variant = run(small, *CROWDED, "repeat=5", "jitter.law=none").result.plain()["variants"][0]
    step = variant["step"]
    assert len(set(step["samples"])) > 1
    assert step["seconds"] == step["p50_s"] == sorted(step["samples"])[2]
    assert sum(part["seconds"] for part in variant["time"]) == pytest.approx(step["p50_s"], rel=1e-9)
    for way in ("seed=3", "cluster.back_end.seed=3"):
        assert run(small, *CROWDED, way).result.plain()["variants"][0]["step"]["samples"] == [step["samples"][3]]


def test_what_is_not_random_is_the_same_under_every_seed(small):
    step = run(small, *CROWDED[:3], "fabric=uec", "repeat=3").result.plain()["variants"][0]["step"]
    assert step["samples"] == [step["seconds"]] * 3


def test_a_single_draw_of_the_hashes_says_so(small):
    def told(*sets):
        return [line for line in run(small, *sets).result.plain()["provenance"]["defaults"] if "ECMP" in line]

    assert told(*CROWDED) == ["one draw of the ECMP hashes; `repeat: 8` shows the spread"]
    assert told(*CROWDED, "repeat=2") == told(*CROWDED[:3], "fabric=uec") == []


def test_a_late_rank_costs_lockstep(small):
    late = run(small, "faults=[{kind: late, rank: 5, by: 2 ms}]").result.plain()["variants"][0]
    calm = run(small).result.plain()["variants"][0]
    assert late["step"]["seconds"] == pytest.approx(calm["step"]["seconds"] + 2e-3, rel=0.02)
    # All 15 others wait; what was slack before they waited hides a part of it.
    assert 0.5 * 15 * 2e-3 < late["lockstep"]["gpu_seconds_lost_to_stragglers"] <= 15 * 2e-3


def test_checkpoints_are_part_of_the_mean_step(small):
    storage = [
        "cluster.storage={name: local-nvme, servers: 2}",
        "workload.training.checkpoint={interval_steps: 4, asynchronous: false}",
    ]
    saved = run(small, *storage).result.plain()["variants"][0]
    causes = {part["cause"]: part["share"] for part in saved["time"]}
    assert causes["checkpoint"] > 0
    assert sum(part["share"] for part in saved["time"]) == pytest.approx(1.0)
    assert saved["jct"]["checkpoint_s"] > 0


def test_closed_forms_run_the_same_scenario(small):
    flow = run(small).result.plain()["variants"][0]["step"]["seconds"]
    analytic = run(small, engine="analytic").result.plain()["variants"][0]["step"]["seconds"]
    assert analytic == pytest.approx(flow, rel=0.1)


@pytest.mark.parametrize(
    ("sets", "key"),
    [
        (["server=hgx-h10"], "cluster.server"),
        (["accelerators=17"], "cluster.accelerators"),
        (["model=llama-4-1b"], "workload.training.model"),
        (["model=./nowhere.json"], "workload.training.model"),
        (["catalog=nowhere.yaml"], "catalog"),
        (["tp=3"], "workload.training.parallelism"),
        (["accelerators=64", "parallelism={tp: 64}"], "workload.training.parallelism.tp"),
        (["zero=0", "model=llama-3-70b"], "workload.training.parallelism"),
        (["faults=[{kind: late, rank: 16, by: 1 us}]"], "faults.0.rank"),
        (["faults=[{kind: slow-accelerator, rank: 1, factor: 0.5, start: 2 s, end: 1 s}]"], "faults.0"),
        (["workload.training.data={}"], "workload.training.data"),
        (["workload.training.software=megatron-1999"], "workload.training.software"),
        (["collectives.algorithm={dp: rong}"], "collectives"),
        (["economics.pue=0.9"], "economics.pue"),
        (["cluster.back_end.switch=tomahawk-55"], "cluster.back_end"),
        (["qps=4097"], "cluster.back_end.fabric.qps"),
        (["cluster.back_end.fabric.flowlets=2000000000"], "cluster.back_end.fabric.flowlets"),
        (["global_batch=2000000000"], "workload.training.global_batch"),
        (["global_batch=16777216", "parallelism={micro_batch: 1}"], "workload.training.global_batch"),
        (["accelerators=2000000000"], "cluster.accelerators"),
        (["topology={kind: leaf-spine, oversubscription: 0}"], "cluster.back_end.topology.oversubscription"),
    ],
)
def test_impossible_scenarios_end_before_anything_is_written(small, tmp_path, sets, key):
    with pytest.raises(InputError) as caught:
        run(small, *sets, out=tmp_path / "runs")
    assert caught.value.problems[0].key.startswith(key)
    assert caught.value.problems[0].file is not None
    assert not (tmp_path / "runs").exists()


def test_a_run_that_cannot_finish_leaves_no_folder(small, tmp_path):
    with pytest.raises(SimulationError):
        run(small, "faults=[{kind: degrade-link, tier: scale-up, factor: 1.0e-12}]", out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_failing_report_leaves_no_folder(small, tmp_path):
    def face(result, folder):
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space"):
        run(small, out=tmp_path / "runs", faces=[face])
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("how", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 143)])
def test_a_stopped_run_leaves_nothing_that_looks_finished(small, tmp_path, how, code):
    out = tmp_path / "runs"
    text = small.read_text(encoding="utf-8")
    small.write_text(
        text.replace("global_batch: 16", "global_batch: 4096") + "repeat: 1000\njitter: {sigma: 1 %}\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "railyard", "run", str(small), "--out", str(out), "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 60
    while not (out / ".unfinished").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    os.kill(process.pid, how)
    assert process.wait(timeout=60) == code
    assert not out.exists() or visible(out) == []
    small.write_text(text, encoding="utf-8")
    finished = run(small, out=out)
    assert visible(out) == [finished.folder.name]
    assert not (out / ".unfinished").exists()


RACKS = """\
name: racks
cluster: {accelerators: 128, server: gb200-nvl72, back_end: {topology: rail-optimized, fabric: infiniband}}
workload:
  training:
    model: deepseek-v3
    tokens: 1 T
    global_batch: 256
    sequence: 4096
    precision: fp8
    parallelism: {tp: 1, pp: 2, ep: 64, recompute: full, zero: 1}
engine: analytic
"""


def test_expert_groups_stay_inside_racks_that_they_do_not_divide(tmp_path):
    path = tmp_path / "racks.yaml"
    path.write_text(RACKS, encoding="utf-8")
    chosen, asked, straddling = (
        run(path, *sets).result.plain()
        for sets in ((), ("cluster.ranks_per_domain=64",), ("cluster.ranks_per_domain=72",))
    )
    steps = [result["variants"][0]["step"]["seconds"] for result in (chosen, asked, straddling)]
    assert steps[0] == steps[1] < steps[2] / 1.5
    assert any(line.startswith("ranks per domain: 64 of 72") for line in chosen["provenance"]["defaults"])
    for result in (asked, straddling):
        assert not any(line.startswith("ranks per domain") for line in result["provenance"]["defaults"])
    advice = "`cluster.ranks_per_domain: 64` keeps each inside one"
    warned = [result["variants"][0]["warnings"] for result in (chosen, asked, straddling)]
    assert [sum(advice in line for line in lines) for lines in warned] == [0, 0, 1]
    capital = [result["variants"][0]["capex"]["components"] for result in (chosen, asked, straddling)]
    assert capital[0] == capital[1]
    assert [next(part["count"] for part in parts if part["name"] == "accelerators") for parts in capital] == [
        144,
        144,
        128,
    ]
