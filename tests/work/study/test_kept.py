"""Runs that were kept, side by side."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import railyard
from railyard import catalog
from railyard.catalog.hugging_face import hf_config
from railyard.face import api
from railyard.face.cli import guard
from railyard.face.reports import report_html
from railyard.face.web.views import prices
from railyard.kit.errors import InputError
from railyard.work.scenario import load
from railyard.work.study.folder import read_result
from railyard.work.study.provenance import estimates
from railyard.work.study.study import prepare
from railyard.work.training import present as words
from railyard.work.training.graphs import Graphs, build

SMALL = {
    "name": "small",
    "cluster": {"accelerators": 16, "server": "hgx-h100", "back_end": {"topology": "rail-optimized", "fabric": "roce"}},
    "workload": {
        "training": {
            "model": "llama-3.2-1b", "tokens": "1 T", "global_batch": 16, "sequence": 2048, "parallelism": {"tp": 2},
        }
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for changes in ({}, {"fabric": "uec"}, {"workload.training.sequence": 4096, "name": "longer"}):
        railyard.run(SMALL, overrides=changes, out=folder)
    return folder


def runs(folder, *names):
    return [next(path for path in folder.iterdir() if path.name.startswith(name)) for name in names]


def fabric_of(path):
    return "uec" if "name: uec" in (path / "scenario.yaml").read_text() else "roce"


def test_a_network_apart_shares_computations_as_a_comparison_of_one_scenario_does(folder):
    pair = [path for path in folder.iterdir() if path.name.startswith("small")]
    joined = railyard.face.api.compare_runs(pair, out=None).result
    compared = railyard.compare(SMALL, vary={"fabric": [fabric_of(path) for path in pair]}, out=None).result
    assert [one.name for one in joined.variants] == [path.name for path in pair]
    assert [dict(one.settings) for one in joined.variants] == [
        {"cluster.back_end.fabric.name": fabric_of(path)} for path in pair
    ]
    (mine,), (theirs,) = joined.verdict.differences, compared.verdict.differences
    assert mine.shared == theirs.shared == "computation"
    assert mine.model_copy(update={"variant": theirs.variant}) == theirs


def test_runs_of_other_work_stand_side_by_side_without_a_winner(folder):
    joined = railyard.face.api.compare_runs(runs(folder, "small", "longer"), out=None).result
    assert joined.name == "small against longer"
    assert [one.name for one in joined.variants] == ["small", "longer"]
    verdict = joined.verdict
    assert (verdict.leading, verdict.best, verdict.ranking, verdict.differences) == (None, None, (), ())
    assert verdict.unlike == ("workload.training.sequence",)
    said = words.verdict(joined)
    assert said.startswith("The variants do different work (workload.training.sequence 2048 and 4096)")


def test_joined_runs_make_a_folder_that_can_be_joined_again(folder, tmp_path):
    first = railyard.face.api.compare_runs(runs(folder, "small", "longer"), out=tmp_path)
    assert (first.folder / "report.html").is_file()
    again = railyard.face.api.compare_runs([first.folder, *runs(folder, "longer")], out=None).result
    assert len(again.variants) == 3


def test_the_command_line_names_what_is_wrong(folder, capsys, tmp_path):
    one = str(runs(folder, "longer")[0])
    cases = {
        (one,): "one run is nothing to compare",
        (one, one): "this run is given twice",
        (one, str(tmp_path)): "this folder holds no run",
        (one, "examples/first.yaml"): "a scenario cannot be compared with runs",
        (one, str(runs(folder, "small")[0]), "--vary", "fabric=roce"): "--vary: a stored run cannot be changed",
    }
    for arguments, wrong in cases.items():
        assert guard.run(["compare", *arguments, "--out", str(tmp_path / "out")]) == 2
        assert wrong in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_serving_against_training_has_no_figure_in_common(folder, tmp_path):
    flows = tmp_path / "flows.cm"
    flows.write_text("Nodes 2\nConnections 1\n0->1 start 0 size 1000\n")
    assert guard.run(["packet", "--traffic", str(flows), "--out", str(tmp_path), "-q"]) == 0
    other = next(path.parent for path in tmp_path.glob("*/result.json"))
    with pytest.raises(InputError, match="different kinds of work"):
        railyard.face.api.compare_runs([*runs(folder, "small"), other], out=None)


# Other prices for a run that was kept: the one formula again, and where the choice turns.

REPRICING_SMALL = {
    "name": "small",
    "cluster": {"accelerators": 16, "server": "hgx-h100", "back_end": {"topology": "rail-optimized", "fabric": "roce"}},
    "workload": {
        "training": {
            "model": "llama-3.2-1b", "tokens": "1 T", "global_batch": 16, "sequence": 2048, "parallelism": {"tp": 2},
        }
    },
    "compare": {"vary": {"fabric": ["roce", "infiniband"]}},
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return railyard.run(REPRICING_SMALL, out=tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def rows(run):
    return prices.ledgers(run.result, run.folder)


def test_at_the_same_prices_the_cost_is_that_of_the_run(run, rows):
    for row, variant in zip(rows, run.result.variants, strict=True):
        found = row.at_prices({})
        assert (found.cpmt.low, found.cpmt.typical, found.cpmt.high) == pytest.approx(variant.cpmt.ends)
        parts = {part.name: part.typical for part in variant.cpmt.breakdown}
        assert found.parts == pytest.approx(parts)


@pytest.mark.parametrize(
    ("name", "override", "value"),
    [
        ("electricity_usd_per_kwh", "economics.electricity", 0.31),
        ("pue", "economics.pue", 1.42),
        ("life_years", "economics.life", 2.5),
        ("cost_of_capital", "economics.cost_of_capital", 0.17),
    ],
)
def test_a_moved_price_gives_what_a_run_with_it_gives(rows, name, override, value):
    units = {"economics.electricity": f"{value} USD/kWh", "economics.life": f"{value} years"}
    again = railyard.run(REPRICING_SMALL, overrides={override: units.get(override, value)}, out=None)
    for row, variant in zip(rows, again.result.variants, strict=True):
        found = row.at_prices({name: value})
        assert (found.cpmt.low, found.cpmt.typical, found.cpmt.high) == pytest.approx(variant.cpmt.ends)


def test_a_dearer_accelerator_costs_its_share_of_capital_and_operations(rows):
    row = rows[0]
    before, after = row.at_prices({}), row.at_prices({"accelerators": 1.5})
    bought = sum(row.inputs[f"{name}_usd"].typical for name in prices.FACTORS)
    share = row.inputs["accelerators_usd"].typical / bought
    assert after.parts["capital"] == pytest.approx(before.parts["capital"] * (1 + 0.5 * share))
    assert after.parts["operations"] == pytest.approx(before.parts["operations"] * (1 + 0.5 * share))
    assert after.parts["energy"] == before.parts["energy"]


@given(st.sampled_from(prices.FACTORS), st.floats(0.3, 3.0))
def test_where_the_choice_turns_both_cost_the_same(rows, name, value):
    changes = {name: value}
    for turn in prices.turns(rows, changes):
        there = {**changes, turn.price: turn.value}
        costs = {row.name: row.at_prices(there).cpmt.typical for row in rows}
        assert costs["roce"] == pytest.approx(costs["infiniband"], rel=1e-9)
        assert turn.now / 10 <= turn.value <= turn.now * 10


def test_another_catalogue_than_that_of_the_run_is_noticed(run, tmp_path):
    (tmp_path / "scenario.yaml").write_text(
        (run.folder / "scenario.yaml").read_text().replace("economics: {}", "economics: {pue: 1.9}")
    )
    with pytest.raises(InputError, match="has changed its price since its run"):
        prices.ledgers(read_result(run.folder / "result.json"), tmp_path)


# A scenario that knows its own measured steps: the prediction moves towards them, and its band says how far.

TABLE = """\
id,gpu,n_gpu,model,seq_len,global_batch_seqs,tp,pp,micro_batch,precision,software,step_time_s
a,h100-sxm,16,llama-3.1-8b,8192,32,2,1,1,bf16,megatron-2025,{}
b,h100-sxm,16,llama-3.1-8b,8192,64,2,1,1,bf16,megatron-2025,{}
c,h100-sxm,16,llama-3.1-8b,8192,48,2,1,1,bf16,megatron-2025,{}
"""
SCENARIO = """\
cluster: {{accelerators: 16, server: hgx-h100}}
workload:
  training:
    model: llama-3.1-8b
    sequence: 8192
    global_batch: 40
    parallelism: {{tp: 2}}
    software: {{profile: {}{}}}
"""


def shown(folder, capsys, profile="megatron-2025", more=", constants: own.toml"):
    path = folder / "s.yaml"
    path.write_text(SCENARIO.format(profile, more))
    assert guard.run(["run", str(path), "--engine", "analytic", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    (variant,) = content["variants"]
    return content, next(row for row in variant["model_error"] if row["figure"] == "step_s")


def test_own_steps_move_the_step_and_its_band(tmp_path, capsys):
    _, plain = shown(tmp_path, capsys, more="")
    slower = 1.2 * plain["typical"] / 40
    (tmp_path / "mine.csv").write_text(TABLE.format(32 * slower, 64 * slower, 48 * slower))
    assert (
        guard.run(["calibrate", "runs", "--table", str(tmp_path / "mine.csv"), "--out", str(tmp_path / "own.toml")])
        == 0
    )
    capsys.readouterr()
    _, moved = shown(tmp_path, capsys)
    assert 1.12 < moved["typical"] / plain["typical"] < 1.21
    assert moved["family"] == "step: own runs"
    assert (moved["rows"], moved["sources"]) == (3, 1)
    assert moved["low"] < moved["typical"] < moved["high"] < 1.1 * moved["typical"]
    # Of another software the file says nothing, and the result tells so.
    _, other = shown(tmp_path, capsys, profile="megatron-2024")
    _, same = shown(tmp_path, capsys, profile="megatron-2024", more="")
    assert other == same


def test_a_missing_file_is_named(tmp_path, capsys):
    (tmp_path / "s.yaml").write_text(SCENARIO.format("megatron-2025", ", constants: none.toml"))
    assert guard.run(["run", str(tmp_path / "s.yaml")]) == 2
    assert "none.toml" in capsys.readouterr().err


# Results say which parts of a model were estimated: scans of recurrences, projectors of towers.

DATA = Path(__file__).parents[2] / "catalog" / "data"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nemotron-h-56b", ["the 54 mamba2 layers of nemotron-h-56b were estimated"]),
        ("qwen3.5-397b", ["the 45 gated-delta layers of qwen3.5-397b were estimated"]),
        ("kimi-k2.5", ["what joins a tower of its kind to the language model was estimated"]),
        ("qwen3-vl-2b", []),  # its tower's tensors are known
        ("llama-3-8b", []),
    ],
)
def test_each_estimate_is_one_sentence(name, words):
    found = list(estimates(hf_config.read(DATA / name)))
    assert len(found) == len(words)
    for part, sentence in zip(words, found, strict=True):
        assert part in sentence


def test_the_catalogue_estimates_recurrences_and_what_joins_towers_and_nothing_else():
    known = catalog.load()
    for model in map(known.model, known.names("models")):
        side = model.provenance.get("side_parameters")
        joined = side is not None and side.confidence == "estimated"
        assert len(list(estimates(model))) == (model.recurrent is not None) + joined, model.name
        assert not model.assumed


def test_a_training_result_and_its_report_say_it():
    training = {
        "model": str(DATA / "nemotron-3-nano" / "config.json"),
        "global_batch": 16,
        "sequence": 4096,
        "parallelism": {"ep": 8},
    }
    scenario = {
        "name": "x",
        "cluster": {"accelerators": 16, "server": "hgx-h100"},
        "engine": "analytic",
        "workload": {"training": training},
    }
    found = api.run(scenario, out=None)
    sentence = "the 23 mamba2 layers of nemotron-3-nano were estimated"
    assert any(sentence in warning for warning in found.result.plain()["variants"][0]["warnings"])
    data = re.search(r'id="railyard-result">([^<]*)<', report_html(found.result))
    assert sentence in gzip.decompress(base64.b64decode(data.group(1))).decode("utf-8")


# Variants share the graph of a step, and each has the losses of its network, whichever is built first.

FIRST = Path(__file__).parents[3] / "examples" / "first.yaml"


def test_a_shared_graph_has_the_losses_of_each_network():
    job = prepare(load.load(FIRST))[0]
    slower = job.cluster.scaled(nic=0.5, fabric_tiers=0.5)
    for order in ((job.cluster, slower), (slower, job.cluster)):
        graphs = Graphs()
        first, second = (graphs.of(job.training, cluster) for cluster in order)
        assert first.dep_idx is second.dep_idx
        assert not np.array_equal(first.loss, second.loss)
        for cluster, graph in zip(order, (first, second), strict=True):
            assert np.array_equal(graph.loss, build(job.training, cluster).loss)


def test_the_oldest_graph_goes_beyond_so_many_tasks():
    job = prepare(load.load(FIRST))[0]
    size = len(Graphs().of(job.training, job.cluster))
    for tasks, goes in ((int(1.9 * size), True), (int(2.2 * size), False)):
        graphs = Graphs(most=1, tasks=tasks)
        kept = graphs.of(job.training, job.cluster)
        graphs.of(job.training, job.cluster, checkpoint=True)
        assert (graphs.of(job.training, job.cluster).dep_idx is not kept.dep_idx) == goes


def test_all_but_the_last_few_are_forgotten():
    job = prepare(load.load(FIRST))[0]
    graphs = Graphs(most=1)
    kept = graphs.of(job.training, job.cluster)
    last = graphs.of(job.training, job.cluster, checkpoint=True)
    graphs.forget()
    assert graphs.of(job.training, job.cluster, checkpoint=True).dep_idx is last.dep_idx
    assert graphs.of(job.training, job.cluster).dep_idx is not kept.dep_idx
