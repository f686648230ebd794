"""Frameworks, devices, precisions and words that no table shown so far has: a dated profile, and the default named."""

import csv

import pytest

from railyard.work.training import profiles
from railyard_validation.training.cases import read_cases

ROW = {
    "id": "1",
    "tier": "B",
    "source_doc": "A paper, 2023",
    "model": "GPT-13B",
    "layers": "40",
    "hidden": "5120",
    "heads": "40",
    "seq_len": "2048",
    "gpu": "A100-SXM-80GB",
    "n_gpu": "64",
    "gpus_per_node": "8",
    "precision": "bf16",
    "framework": "Megatron-LM",
    "tp": "2",
    "pp": "2",
    "dp": "16",
    "fsdp_zero": "",
    "micro_batch": "2",
    "global_batch_seqs": "256",
    "recompute": "none",
    "step_time_s": "8",
}


@pytest.fixture
def case(tmp_path, catalog):
    def make(**cells):
        path = tmp_path / "runs.csv"
        row = {**ROW, **cells}
        with path.open("w", newline="") as handle:
            writer = csv.DictWriter(handle, list(row))
            writer.writeheader()
            writer.writerow(row)
        found, refused = read_cases(path, catalog)
        assert not refused, refused
        return found[0]

    return make


@pytest.mark.parametrize(
    ("framework", "gpu", "profile"),
    [
        ("DeepSpeed", "A100-SXM-80GB", "megatron-2023"),
        ("GPT-NeoX", "A100-SXM-80GB", "megatron-deepspeed-2021"),
        ("Megatron-LM 2.6", "A100-SXM-80GB", "megatron-2021"),
        ("Megatron-Core r0.6", "H100-SXM-80GB", "megatron-2024"),
        ("Megatron-Core r0.12", "H100-SXM-80GB", "megatron-2025"),
        ("NeMo 1.20", "H100-SXM-80GB", "megatron-2023"),
        ("NeMo 24.03.01", "H100-SXM-80GB", "nemo-2024"),
        ("NeMo 24.03.01", "A100-SXM-80GB", "megatron-2023"),
        ("NeMo 25.07", "H100-SXM-80GB", "megatron-2025"),
        ("OLMo (PyTorch FSDP)", "A100-SXM-80GB", "fsdp-composer-2023"),
        ("PaLM (Pathways)", "TPU-v5p", "maxtext"),
        ("JAX", "H100-SXM-80GB", "megatron-2023"),
        ("Primus", "MI300X", "unmeasured-2026"),
        ("Optimum Habana", "Gaudi2", "unmeasured-2026"),
        ("Meta's own", "H100-SXM-80GB", "meta-2024"),
        ("TorchTitan", "H100-SXM-80GB", "torchtitan-2024"),
    ],
)
def test_every_software_has_a_dated_profile(case, framework, gpu, profile):
    found = case(framework=framework, gpu=gpu)
    assert found.training.software.name == profile
    assert profile in profiles.names()


def test_a_software_without_a_profile_is_named(case):
    assert any("Colossal-AI has no profile" in line for line in case(framework="Colossal-AI").defaults)
    assert any("was read on cdna3" in line for line in case(framework="Primus", gpu="MI300X").defaults)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("A100-SXM4-80GB", "a100-sxm-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("A800-SXM4-80GB", "a800-sxm"),
        ("H20-96GB", "h20"),
        ("Gaudi-2", "gaudi2"),
        ("MI250X", "mi250x"),
    ],
)
def test_devices_by_the_names_that_tables_give_them(case, catalog, spelling, name):
    assert case(gpu=spelling).machine.accelerator == catalog.accelerator(name)


@pytest.mark.parametrize(
    ("text", "precision"),
    [
        ("bfloat16", "bf16"),
        ("float16", "fp16"),
        ("half", "fp16"),
        ("fp8-mixed", "fp8"),
        ("E4M3", "fp8"),
        ("TF32", "bf16"),
    ],
)
def test_precisions_by_the_names_that_tables_give_them(case, text, precision):
    found = case(precision=text, gpu="H100-SXM-80GB")
    assert found.training.precision == precision
    assert any("is not modelled" in line for line in found.defaults) == (text == "TF32")


@pytest.mark.parametrize(
    ("text", "zero", "shard"),
    [
        ("ZeRO stage 3", 3, 64),
        ("full shard", 3, 64),
        ("HYBRID_SHARD", 3, 8),
        ("ZeRO-2", 2, 64),
        ("NO_SHARD", 0, 64),
        ("distributed optimizer", 1, 64),
    ],
)
def test_sharding_by_the_names_that_tables_give_it(case, text, zero, shard):
    layout = case(fsdp_zero=text, tp="1", pp="1", dp="64").training.layout
    assert (layout.zero, layout.shard_ranks) == (zero, shard)


@pytest.mark.parametrize(
    ("text", "recompute"), [("yes", "full"), ("every layer", "full"), ("no", "none"), ("0", "none")]
)
def test_recomputation_by_the_words_that_tables_give_it(case, text, recompute):
    assert case(recompute=text).training.layout.recompute == recompute


def test_one_missing_size_is_what_the_others_leave(case):
    found = case(pp="")
    assert found.training.layout.pp == 2
    assert "pp 2" in found.defaults


@pytest.mark.parametrize(
    ("cells", "rank", "targets"),
    [
        ({"model": "Llama-2-70B-LoRA"}, 16, "all"),
        ({"notes": "LoRA rank 8, attention only"}, 8, "attention"),
        ({"notes": "LoRA rank 64, all linear; attention by FlashAttention-2"}, 64, "all"),
    ],
)
def test_adapters_are_read(case, cells, rank, targets):
    lora = case(**cells).training.lora
    assert (lora.rank, lora.targets) == (rank, targets)


@pytest.mark.parametrize("cells", [{"model": "Llama-2-70B-DoRA"}, {"framework": "Axolotl QLoRA"}])
def test_other_adapters_are_refused_by_name(case, cells):
    with pytest.raises(AssertionError, match="trains few weights of a frozen model"):
        case(**cells)


def test_a_scale_a_row_is_read(case):
    assert case(gpu="H100", precision="fp8 (rowwise)").training.software.fp8_scaling == "row"
    assert case(gpu="H100", precision="fp8 (tensorwise)").training.software.fp8_scaling == "tensor"
