"""Recipes behind published runs: what the files of the releases say, and what a row makes of it."""

import csv
from pathlib import Path

import pytest

from railyard import catalog
from railyard.model.architecture import UNBALANCED
from railyard.work.training.spec import DISPATCHERS, GRAPH_SCOPES, RECOMPUTE_MODULES
from railyard_validation.training import recipes
from railyard_validation.training import table as tables
from railyard_validation.training.cases import case_of

BRIDGE = Path(recipes.__file__).parents[1] / "data" / "bridge_recipes.csv"
PAGE = {
    "id": "P1",
    "tier": "B",
    "model": "DeepSeekV3",
    "gpu": "B200-SXM",
    "n_gpu": "256",
    "gpus_per_node": "8",
    "precision": "MXFP8",
    "seq_len": "4096",
    "global_batch_seqs": "4096",
    "tp": "1",
    "pp": "8",
    "vpp": "2",
    "cp": "1",
    "ep": "32",
    "micro_batch": "1",
    "step_time_s": "19.7",
    "framework": "Megatron-Bridge 26.04.01 (Pre-Training Performance)",
    "source_doc": "NVIDIA Megatron-Bridge performance summary, NeMo container 26.04.01",
}


@pytest.fixture(scope="module")
def known():
    return catalog.load()


def row(tmp_path, **cells):
    content = {name: text for name, text in {**PAGE, **cells}.items() if text is not None}
    path = tmp_path / "rows.csv"
    with path.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, list(content))
        writer.writeheader()
        writer.writerow(content)
    return tables.read(path)[0]


def test_every_recipe_uses_known_words():
    with BRIDGE.open(newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert len(rows) > 500
    for known in rows:
        assert set(known["recompute"].split("+")) <= {*RECOMPUTE_MODULES, "mhc", ""}, known["name"]
        assert known["dispatcher"] in {*DISPATCHERS, ""}, known["name"]
        scopes = set(known["graph_scope"].split("+")) - {""}
        assert scopes <= {*GRAPH_SCOPES, "mamba"}, known["name"]
        assert int(known["gpus"]) % (int(known["tp"]) * int(known["pp"]) * int(known["cp"])) == 0, known["name"]


def test_a_recipe_of_the_release_completes_a_row(known, tmp_path):
    # v0.4.2, deepseek_workload_base_configs.py: DEEPSEEK_V3_PRETRAIN_CONFIG_B200_FP8_MX_V2.
    case = case_of(row(tmp_path), known)
    assert case.training.software.dispatcher == "deepep"
    assert case.training.software.graphs == ("attn", "moe_router", "moe_preprocess")
    assert case.training.layout.recompute_modules == ("mla_up_proj", "mlp")
    assert case.training.layout.overlap_expert
    assert any("deepseek_v3_b200_fp8_mx_v2" in line for line in case.defaults)


def test_one_release_earlier_it_was_another_recipe(known, tmp_path):
    before = row(
        tmp_path,
        framework="Megatron-Bridge 26.04 (Pre-Training Performance)",
        source_doc="NVIDIA Megatron-Bridge performance summary, NeMo container 26.04",
        pp="16",
        vpp=None,
        ep="8",
    )
    case = case_of(before, known)
    assert case.training.software.dispatcher == "hybridep"
    assert case.training.software.graphs == ()
    assert not case.training.layout.overlap_expert


def test_cells_of_the_row_win(known, tmp_path):
    again = "moe_act, mlp, layernorm, mla_up_proj"
    cells = {"gpu": "B300-SXM", "overlap_notes": "EP overlap off; alltoall", "micro_batch": "2"}
    said = row(tmp_path, recompute=again, **cells)
    case = case_of(said, known)
    assert case.training.layout.recompute_modules == tuple(again.split(", "))
    assert case.training.layout.micro_batch == 2
    assert not case.training.layout.overlap_expert
    assert case.training.software.dispatcher == "alltoall"


def test_the_recipe_wins_where_the_row_does_not_fit(known, tmp_path):
    # Two sequences with their attention and expert products kept do not fit on 180 GB: what ran was the recipe's one.
    said = row(tmp_path, recompute="moe_act", overlap_notes="EP overlap off; alltoall", micro_batch="2")
    case = case_of(said, known)
    assert case.training.layout.micro_batch == 1
    assert any("micro_batch" in line and "do not fit" in line for line in case.defaults)


def test_an_unknown_model_has_no_recipe_and_is_predicted(known, tmp_path):
    shape = {"layers": "32", "hidden": "4096", "heads": "32", "ffn": "14336", "gated_mlp": "1", "vocab": "128256"}
    strange = row(tmp_path, model="Mistral-7B", gpu="H200-SXM", ep=None, vpp=None, **shape)
    assert recipes.recipe_of(strange) is None
    assert case_of(strange, known).training.software.graphs == ()


def test_a_file_of_the_submission_tells_what_the_row_infers(known, tmp_path):
    # Dell's config_1xXE9680Lx8B200-SXM-180GB.sh sources config_common_fp4.sh; the row names another system's file.
    mlperf = row(
        tmp_path,
        model="Llama-3.1-8B",
        precision="fp8",
        n_gpu="8",
        seq_len="8192",
        global_batch_seqs="16",
        pp="1",
        vpp=None,
        ep=None,
        micro_batch="2",
        framework="NeMo 25.09",
        source_doc="MLPerf Training v5.1 results (Dell, 1xXE9680Lx8B200-SXM-180GB)",
        missing_facts="precision FP8/FP4 inferred from config file name only",
    )
    case = case_of(mlperf, known)
    assert case.training.precision == "fp4"
    assert case.training.software.graphs == ("layer",)
    assert any("inferred" in line for line in case.defaults)


def test_what_all_nemo_configurations_of_a_benchmark_say(known, tmp_path):
    cells = {"source_doc": "MLPerf Training v6.0 results (Nobody, x)", "framework": "NVIDIA NeMo 26.04", "pp": "1"}
    cells |= {"vpp": None, "seq_len": "8192", "n_gpu": "8", "global_batch_seqs": "16", "micro_batch": "2"}
    case = case_of(row(tmp_path, **cells, model="gpt-oss-20b", ep="1"), known)
    assert case.training.routing_skew == UNBALANCED
    # 768 million parameters, gradients of 2 bytes.
    assert case.training.layout.bucket_bytes == 1_536_000_000
    assert case.training.software.fused_experts
    adapted = {**cells, "model": "Llama-2-70B", "notes": "LoRA rank 16, attention", "micro_batch": "1", "ep": None}
    assert case_of(row(tmp_path, **adapted), known).training.software.attention_precision == "fp8"
    # What the row says counts more.
    said = {**adapted, "attention_precision": "bf16"}
    assert case_of(row(tmp_path, **said), known).training.software.attention_precision == "bf16"
    assert recipes.recipe_of(row(tmp_path, **{**adapted, "framework": "Primus"})) is None


@pytest.mark.parametrize(
    "cells",
    [
        {"framework": "Megatron-Bridge", "source_doc": "Megatron-Bridge performance page"},
        {
            "framework": "Megatron-Bridge 27.01.03",
            "source_doc": "NVIDIA Megatron-Bridge performance summary, NeMo 27.01.03",
        },
        {"precision": "FP8-CS (values in () on page: FP8-MX/blockwise)"},
        {"precision": "bfloat16"},
        {"vpp": "n/a", "micro_batch": None},
        {"source_doc": "MLPerf Training v5.1 results", "model": "Llama-3.1-8B"},
        {"source_doc": "MLPerf Training v5.1 results (Nobody, x)", "model": "Llama-3.1-8B", "n_gpu": "8.0"},
    ],
)
def test_odd_cells_are_no_error(known, tmp_path, cells):
    odd = row(tmp_path, **cells)
    found = recipes.recipe_of(odd)
    assert found is None or found.line().startswith("recipe ")
