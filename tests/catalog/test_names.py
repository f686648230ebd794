"""Names as the measured tables and logs write them must lead to the device that was meant."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard import catalog
from railyard.catalog.index import folded, scan_aliases
from railyard.kit.errors import InputError

CATALOG = catalog.load()

# Every device name of the published training, collective and serving tables that Railyard is validated on.
DEVICES = {
    "A100-SXM-80GB": "a100-sxm-80gb",
    "A100-class (Ampere) 80GB, 312 TF peak": "a100-sxm-80gb",
    "A100-SXM (one 8-GPU node)": "a100-sxm-80gb",
    "a100_80gb": "a100-sxm-80gb",
    "a100_40gb": "a100-sxm-40gb",
    "A100-SXM4-40GB": "a100-sxm-40gb",
    "A100_80GB_PCIe": "a100-pcie-80gb",
    "A800 80GB": "a800-sxm",
    "V100": "v100-sxm2-32gb",
    "H100": "h100-sxm",
    "H100 SXM": "h100-sxm",
    "H100-SXM-80GB": "h100-sxm",
    "H100-SXM-80GB (700W)": "h100-sxm",
    "NVIDIA H100-SXM-80GB": "h100-sxm",
    "NVIDIA H100-SXM5-80GB": "h100-sxm",
    "h100_80gb": "h100-sxm",
    "h100_sxm": "h100-sxm",
    "H100-96GB-HBM2e (500W Grand Teton)": "h100-hbm2e-96gb",
    "H100 ($6.98/h = Azure NC H100 v5, so likely H100 NVL)": "h100-nvl",
    "H200": "h200-sxm",
    "H200 SXM": "h200-sxm",
    "h200_sxm": "h200-sxm",
    "NVIDIA H200-SXM-141GB": "h200-sxm",
    "Virtualized NVIDIA H200-SXM-141GB": "h200-sxm",
    "NVIDIA H200-NVL-141GB": "h200-nvl",
    "H800": "h800-sxm",
    "H800-SXM": "h800-sxm",
    "H20": "h20-sxm",
    "GH200": "gh200-96gb",
    "B200": "b200-sxm",
    "B200-SXM": "b200-sxm",
    "b200_sxm": "b200-sxm",
    "NVIDIA B200-SXM-180GB": "b200-sxm",
    "NVIDIA Blackwell GPU (B200-SXM-180GB)": "b200-sxm",
    "GB200": "gb200",
    "gb200": "gb200",
    "GB200 NVL72": "gb200",
    "NVIDIA GB200": "gb200",
    "NVIDIA Blackwell GPU (GB200)": "gb200",
    "B300": "b300-sxm",
    "B300-SXM": "b300-sxm",
    "b300_sxm": "b300-sxm",
    "NVIDIA Blackwell Ultra GPU (B300-SXM-270GB)": "b300-sxm",
    "GB300": "gb300",
    "GB300 NVL72": "gb300",
    "NVIDIA GB300": "gb300",
    "NVIDIA Blackwell Ultra GPU (GB300)": "gb300",
    "MI300X": "mi300x",
    "AMD Instinct MI300X 192GB HBM3": "mi300x",
    "AMD Instinct MI325X 256GB HBM3e": "mi325x",
    "AMD Instinct MI350X": "mi350x",
    "AMD Instinct MI355X": "mi355x",
    "gfx950": "mi355x",
    "Habana Gaudi2": "gaudi2",
    "Intel Gaudi2": "gaudi2",
    "Intel(R) Gaudi(R) 2 AI Accelerator": "gaudi2",
    "Gaudi 3": "gaudi3",
    "TPU-v5e": "tpu-v5e",
    "TPU-v5p": "tpu-v5p",
    "TPU v6e": "tpu-v6e",
    "Trainium2": "trainium2",
    "NVIDIA L40S": "l40s",
    "RTX 4090": "rtx-4090",
    "RTX PRO 6000": "rtx-pro-6000",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtx-pro-6000",
    "[MAXSUN] MS-Intel Arc Pro B60 Dual 48G Turbo": "arc-pro-b60",
}
# What the headers of the collective logs say that they ran on.
SYSTEMS = {
    "DGX H100": "dgx-h100",
    "BM.GPU.H100.8": "oci-bm-gpu-h100-8",
    "p4de.24xlarge": "aws-p4de",
    "p5.48xlarge": "aws-p5",
    "p5en": "aws-p5en",
    "p6-b200": "aws-p6-b200",
    "GCP A3 Mega": "gcp-a3-mega",
    "GCP A3 High": "gcp-a3-high",
    "GCP A3 Ultra": "gcp-a3-ultra",
    "ND A100 v4": "azure-nd-a100-v4",
    "BM.GPU.B4.8": "oci-bm-gpu-b4-8",
    "CoreWeave HGX H100": "hgx-h100",
    "Vultr HGX B200": "hgx-b200",
    "BM.GPU.GB200.4": "oci-bm-gpu-gb200-4",
    "BM.GPU.GB200-v3.4": "oci-bm-gpu-gb200-4",
    "BM.GPU.GB300.4": "oci-bm-gpu-gb300-4",
    "OCI B300": "oci-bm-gpu-b300-8",
    "DGX A100": "dgx-a100",
    "DGX-1": "dgx-1-v100",
    "DGX-2": "dgx-2-v100",
    "MI300X server": "mi300x-8",
}
MODELS = {
    "GPT-3-175B": "gpt-3-175b",
    "GPT-175B": "gpt-3-175b",
    "GPT-529.6B": "megatron-529.6b",
    "MT-NLG-530B": "megatron-529.6b",
    "Megatron-1T": "megatron-1008b",
    "Megatron-22B": "megatron-22b",
    "GPT-OSS-120B": "gpt-oss-120b",
    "DeepSeekV3 (w/o MTP)": "deepseek-v3",
    "deepseek-ai/DeepSeek-R1": "deepseek-v3",
    "Kimi-K2-1T": "kimi-k2",
    "Llama-3.1-405B": "llama-3-405b",
    "meta-llama/Llama-3.3-70B-Instruct": "llama-3-70b",
    "llama2-70b-99": "llama-2-70b",
    "mixtral-8x7b": "mixtral-8x7b",
    "MPT-30b": "mpt-30b",
    "Qwen3-235B-A22B": "qwen3-235b-a22b",
    "Moonlight-16B-A3B": "moonlight-16b-a3b",
}


@pytest.mark.parametrize(("said", "meant"), DEVICES.items())
def test_devices(said, meant):
    assert CATALOG.accelerator(said).name == meant


@pytest.mark.parametrize(("said", "meant"), SYSTEMS.items())
def test_systems(said, meant):
    assert CATALOG.server(said).name == meant


@pytest.mark.parametrize(("said", "meant"), MODELS.items())
def test_models(said, meant):
    assert CATALOG.model(said).name == meant


def test_spelling_does_not_matter_but_digits_do():
    for word in ("H100-SXM", "h100_sxm", "H100 sxm", "  h100-SXM  "):
        assert CATALOG.accelerator(word).name == "h100-sxm"
    assert CATALOG.resolve("accelerator", "H200 SXM") != CATALOG.resolve("accelerator", "H100 SXM")


@pytest.mark.parametrize(
    ("kind", "word", "hint"),
    [("accelerator", "H10O", "H100"), ("switch", "tomahawk-55", "tomahawk-5"), ("model", "llama-3-71b", "llama-3-70b")],
)
def test_a_near_miss_names_the_neighbour(kind, word, hint):
    with pytest.raises(InputError, match=f"did you mean `{hint}`") as caught:
        CATALOG.resolve(kind, word)
    assert caught.value.problems[0].found == word
    assert hint.lower() in (caught.value.problems[0].allowed or "") or hint == "H100"


def test_find_goes_through_all_kinds_and_a_prefix_narrows_it():
    assert CATALOG.find("GB200 NVL72")[0] == "accelerators"
    assert CATALOG.find("server/GB200 NVL72")[0] == "servers"
    assert CATALOG.find("electricity")[0] == "prices"
    with pytest.raises(InputError, match="did you mean `Tomahawk 5`"):
        CATALOG.find("tomahowk 5")


@given(st.text(max_size=40))
def test_any_word_either_resolves_or_is_an_input_error(word):
    with suppress(InputError):
        assert CATALOG.entry("accelerator", word).name in CATALOG.names("accelerator")


@given(st.text(max_size=30))
def test_folding_is_idempotent(word):
    assert folded(folded(word)) == folded(word)


def test_aliases_are_read_from_the_head_of_a_file_only():
    assert scan_aliases("summary: x\naliases: [a, 'b c']\nsources: {}\n") == ["a", "b c"]
    assert scan_aliases("summary: x\nsources: {s: {aliases: [z]}}\n") == []
    assert scan_aliases("") == []


def test_no_entry_is_read_before_it_is_asked_for(monkeypatch):
    from railyard.kit.schema import yaml

    read: list[str] = []
    original = yaml.read
    monkeypatch.setattr(yaml, "read", lambda path: read.append(path.stem) or original(path))
    fresh = catalog.Catalog()
    assert "h100-sxm" in fresh.names("accelerators")
    assert read == []
    fresh.accelerator("h200-sxm")
    assert read == ["h200-sxm", "h100-sxm"], "the entry and what it extends"
    fresh.accelerator("h200-sxm")
    assert len(read) == 2


def test_nothing_near_is_no_suggestion():
    with pytest.raises(InputError) as caught:
        CATALOG.find("qqqqqqqq")
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    ("word", "near"),
    [("h100", "`dgx-h100` or `hgx-h100`"), ("b200", "`dgx-b200` or `hgx-b200`")],
)
def test_a_part_of_a_name_is_no_vendors_alias(word, near):
    """By letters alone the nearest server to `h100` was one operator's, `OCI H100`."""
    with pytest.raises(InputError) as caught:
        CATALOG.server(word)
    assert f"did you mean {near}?" in str(caught.value)
    assert "OCI" not in str(caught.value.problems[0].hint)


# Models that people serve: found by their published names, with the published number of parameters.

# Billions of parameters as published: in total, and those that one token uses (equal for a dense model). Totals are of
# cards, reports, or the tensors in the checkpoint, with the layers that predict further tokens or without. Actives are
# printed with all tables, without the input table (looked up, not multiplied) or without both tables: the count has to
# meet one of these.
PUBLISHED = {
    "command-a-111b": ("111", "111", "model card"),
    "deepseek-r1-distill-qwen-1.5b": ("1.78", "1.78", "checkpoint"),
    "deepseek-v2": ("236", "21", "arXiv 2405.04434"),
    "deepseek-v3": ("671", "37", "arXiv 2412.19437"),
    "deepseek-v3.2": ("671", "37", "model card"),
    "deepseek-v4-flash": ("284", "13", "model card"),
    "deepseek-v4-pro": ("1600", "49", "model card; its sum is 1573"),
    "devstral-2-123b": ("125", "125", "checkpoint; named 123B"),
    "ernie-4.5-21b-a3b": ("21.8", "3", "checkpoint; card"),
    "ernie-4.5-300b-a47b": ("300", "47", "model card"),
    "exaone-4.0-32b": ("32.0", "32.0", "model card"),
    "gemma-2-9b": ("9.24", "9.24", "checkpoint"),
    "gemma-3-1b": ("1.00", "1.00", "checkpoint"),
    "gemma-3-4b": ("4.30", "3.88", "checkpoint; arXiv 2503.19786"),
    "gemma-3-12b": ("12.2", "11.8", "checkpoint; arXiv 2503.19786"),
    "gemma-3-27b": ("27.4", "27.0", "checkpoint; arXiv 2503.19786"),
    "gemma-4-26b-a4b": ("25.8", "3.8", "card: 25.2B and 0.55B for images"),
    "gemma-4-31b": ("31.3", "30.7", "card: 30.7B and 0.55B for images"),
    "glm-4.5": ("355", "32", "arXiv 2508.06471"),
    "glm-4.5-air": ("106", "12", "arXiv 2508.06471"),
    "glm-4.7-flash": ("30", "3", "model card"),
    "glm-5": ("744", "40", "model card"),
    "glm-5.2": ("744", "40", "model card"),
    "gpt-oss-120b": ("116.8", "5.1", "arXiv 2508.10925"),
    "gpt-oss-20b": ("20.9", "3.6", "arXiv 2508.10925"),
    "hunyuan-a13b": ("80", "13", "model card"),
    "kimi-k2": ("1040", "32.6", "arXiv 2507.20534"),
    "kimi-k2.5": ("1030", "32", "model card: 1T with 32B active"),
    "kimi-k3": ("2800", "104", "model card"),
    "kimi-linear-48b-a3b": ("49.1", "3", "checkpoint; arXiv 2510.26692"),
    "llama-3-8b": ("8.03", "8.03", "checkpoint"),
    "llama-3-70b": ("70.6", "70.6", "checkpoint"),
    "llama-3-405b": ("406", "406", "checkpoint"),
    "llama-3.2-3b": ("3.21", "3.21", "checkpoint"),
    "llama-3.3-nemotron-super-49b": ("49.9", "49.9", "checkpoint"),
    "llama-4-maverick": ("400", "17", "model card"),
    "llama-4-scout": ("109", "17", "model card"),
    "longcat-flash": ("560", "27", "arXiv 2509.01322, mean active"),
    "mimo-7b": ("7.62", "7.62", "checkpoint without the prediction layer"),
    "mimo-v2-flash": ("309", "15", "model card"),
    "minimax-m2": ("230", "10", "model card"),
    "minimax-m3": ("428", "23", "model card"),
    "ministral-3-3b": ("3.8", "3.4", "card: 3.4B and 0.4B for images"),
    "ministral-3-8b": ("8.9", "8.4", "card: 8.4B and 0.4B for images"),
    "ministral-3-14b": ("13.9", "13.5", "card: 13.5B and 0.4B for images"),
    "mistral-7b": ("7.24", "7.24", "checkpoint"),
    "mistral-large-123b": ("123", "123", "model card"),
    "mistral-large-3": ("675", "39", "card: 673B with 39B active, and 2.5B for images"),
    "mistral-medium-3.5-128b": ("128", "125", "model card"),
    "mistral-nemo-12b": ("12.2", "12.2", "checkpoint"),
    "mistral-small-4-119b": ("119", "6.5", "model card"),
    "mistral-small-24b": ("23.6", "23.6", "checkpoint"),
    "mistral-small-3.2-24b": ("24.0", "23.6", "checkpoint"),
    "mixtral-8x22b": ("141", "39", "publisher's announcement"),
    "mixtral-8x7b": ("46.7", "12.9", "arXiv 2401.04088"),
    "nemotron-3-nano-30b-a3b": ("31.6", "3.2", "report, without tables"),
    "nemotron-3-super-120b-a12b": ("120.6", "12.7", "model card"),
    "nemotron-3-ultra-550b-a55b": ("550", "55", "model card"),
    "nemotron-h-56b": ("56.3", "56.3", "arXiv 2504.03624"),
    "nemotron-nano-12b-v2": ("12.31", "12.31", "arXiv 2508.14444"),
    "nemotron-nano-9b-v2": ("8.89", "8.89", "arXiv 2508.14444"),
    "phi-4": ("14.7", "14.7", "checkpoint"),
    "phi-4-mini": ("3.84", "3.84", "checkpoint"),
    "qwen2.5-0.5b": ("0.494", "0.494", "checkpoint"),
    "qwen2.5-1.5b": ("1.54", "1.54", "model card"),
    "qwen2.5-14b": ("14.8", "14.8", "checkpoint"),
    "qwen2.5-32b": ("32.8", "32.8", "checkpoint"),
    "qwen2.5-3b": ("3.09", "3.09", "model card"),
    "qwen2.5-72b": ("72.7", "72.7", "model card"),
    "qwen2.5-7b": ("7.62", "7.62", "checkpoint"),
    "qwen2.5-vl-3b": ("3.755", "3.086", "checkpoint"),
    "qwen2.5-vl-7b": ("8.292", "7.616", "checkpoint"),
    "qwen2.5-vl-32b": ("33.453", "32.764", "checkpoint"),
    "qwen2.5-vl-72b": ("73.411", "72.706", "checkpoint"),
    "qwen3-0.6b": ("0.6", "0.6", "arXiv 2505.09388"),
    "qwen3-1.7b": ("1.7", "1.7", "arXiv 2505.09388"),
    "qwen3-14b": ("14.8", "14.8", "model card"),
    "qwen3-235b-a22b": ("235", "22", "arXiv 2505.09388"),
    "qwen3-30b-a3b": ("30.5", "3.3", "model card"),
    "qwen3-32b": ("32.8", "32.8", "model card"),
    "qwen3-4b": ("4.0", "4.0", "model card"),
    "qwen3-8b": ("8.2", "8.2", "model card"),
    "qwen3-coder-480b-a35b": ("480", "35", "model card"),
    "qwen3-next-80b-a3b": ("80", "3.9", "model card, with tables"),
    "qwen3-omni-30b-a3b": ("31.7", "3.3", "arXiv 2509.17765: thinker 30B, images 540M, sound 650M"),
    "qwen3-vl-2b": ("2.13", "1.7", "checkpoint"),
    "qwen3-vl-4b": ("4.44", "4.0", "checkpoint"),
    "qwen3-vl-8b": ("8.77", "8.2", "checkpoint"),
    "qwen3-vl-32b": ("33.4", "32.8", "checkpoint"),
    "qwen3-vl-30b-a3b": ("31.1", "3.3", "checkpoint"),
    "qwen3-vl-235b-a22b": ("236", "22", "checkpoint"),
    "qwen3.5-0.8b": ("0.87", "0.75", "checkpoint with the prediction layer"),
    "qwen3.5-2b": ("2.27", "1.88", "checkpoint with the prediction layer"),
    "qwen3.5-4b": ("4.67", "4.2", "checkpoint of 9.34 GB with the prediction layer"),
    "qwen3.5-9b": ("9.41", "8.95", "checkpoint without the prediction layer"),
    "qwen3.5-27b": ("27", "27", "model card"),
    "qwen3.5-35b-a3b": ("35", "3", "model card"),
    "qwen3.5-122b-a10b": ("122", "10", "model card"),
    "qwen3.5-397b-a17b": ("397", "17", "model card"),
    "qwen3.8-2.4t-a95b": ("2446", "95", "card and checkpoint with the prediction layer"),
    "seed-oss-36b": ("36.2", "36.2", "checkpoint"),
    "smollm3-3b": ("3.08", "3.08", "checkpoint"),
    "step-3.5-flash": ("196.8", "11", "model card"),
}


def near(count: float, printed: str, relative: float) -> bool:
    """Whether billions meet what is printed, within a share or half of the last digit."""
    half = 0.5 * 10.0 ** -len(printed.partition(".")[2])
    return abs(count - float(printed)) <= max(relative * float(printed), half)


@pytest.mark.parametrize(("name", "published"), PUBLISHED.items())
def test_a_served_model_has_its_published_parameters(name, published):
    model = CATALOG.model(name)
    total, active, _ = published
    used, table = model.active_parameters() / 1e9, model.vocab * model.hidden / 1e9
    counts = (used, used - table, used - table - model.head_parameters() / 1e9)
    whole = model.parameters() / 1e9
    assert near(whole, total, 0.0175) or near(whole + model.mtp_parameters() / 1e9, total, 0.0175)
    # MiniMax-M3 prints 23 of 23.5; all others are within 2 %.
    assert any(near(count, active, 0.0225) for count in counts), counts


# As benchmarks, recipes and downloads write them.
WRITTEN = {
    "Qwen3.5-397B": "qwen3.5-397b-a17b",
    "qwen/qwen3.5-397b-a17b": "qwen3.5-397b-a17b",
    "nvidia/Qwen3.5-397B-A17B-NVFP4": "qwen3.5-397b-a17b",
    "Qwen/Qwen3-VL-235B-A22B-Instruct-FP8": "qwen3-vl-235b-a22b",
    "Qwen/Qwen3-VL-32B-Thinking": "qwen3-vl-32b",
    "Qwen/Qwen3-Omni-30B-A3B-Instruct": "qwen3-omni-30b-a3b",
    "Qwen/Qwen3-235B-A22B-Thinking-2507-FP8": "qwen3-235b-a22b",
    "Qwen/Qwen3-32B-FP8-Static-PerTensor": "qwen3-32b",
    "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16": "llama-3-8b",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "llama-3-8b",
    "amd/Llama-3.3-70B-Instruct-FP8-KV": "llama-3-70b",
    "amd/DeepSeek-R1-0528-MXFP4-Preview": "deepseek-v3",
    "nvidia/DeepSeek-V3.1-NVFP4": "deepseek-v3",
    "nvidia/Kimi-K2.5-NVFP4": "kimi-k2.5",
    "moonshotai/Kimi-K2-Thinking": "kimi-k2",
    "Kimi-K3 2.8T": "kimi-k3",
    "nvidia/NVIDIA-Nemotron-Nano-9B-v2": "nemotron-nano-9b-v2",
    "nvidia/NVIDIA-Nemotron-Nano-12B-v2-Base": "nemotron-nano-12b-v2",
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8": "nemotron-3-super-120b-a12b",
    "zai-org/GLM-5.2-FP8": "glm-5.2",
    "zai-org/GLM-4.7": "glm-4.6",
    "MiniMaxAI/MiniMax-M2.5": "minimax-m2",
    "google/gemma-3-27b-it": "gemma-3-27b",
    "nvidia/Gemma-4-31B-IT-NVFP4": "gemma-4-31b",
    "unsloth/gpt-oss-120b-BF16": "gpt-oss-120b",
    "DeepSeek-V3/R1 671B": "deepseek-v3",
}


@pytest.mark.parametrize(("said", "meant"), WRITTEN.items())
def test_published_names_lead_to_the_architecture(said, meant):
    assert CATALOG.resolve("models", said) == meant


@pytest.mark.parametrize(
    ("typed", "nearest"),
    [
        ("Qwen3.5-397B-A71B", "Qwen3.5-397B-A17B"),
        ("moonshotai/Kimi-K25", "Kimi-K2.5"),
        ("nvidia/NVIDIA-Nemotron-Nano-9B-v3", "NVIDIA-Nemotron-Nano-9B-v2"),
        ("nvidia/NVIDIA-Nemotron-Nano-12B-v2-VL-BF16", "NVIDIA-Nemotron-Nano-12B-v2"),
        ("unsloth/Qwen3-8B", "Qwen/Qwen3-8B"),
    ],
)
def test_a_name_that_is_not_known_is_not_guessed(typed, nearest):
    """Another size, an image tower, a publisher without a precision: the nearest name is proposed, never taken."""
    with pytest.raises(InputError) as caught:
        CATALOG.model(typed)
    hint = caught.value.problems[0].hint or ""
    assert nearest.lower() in hint.lower()


def test_indices_are_counted_where_layers_have_them():
    """GLM-5.2: 21 of 78 layers have an index of 32 heads of 128; the others read an earlier layer's.

    One index: queries from rank 2048, a key and its norm from the residual of 6144, a weight for each head.
    """
    shared, own = CATALOG.model("glm-5.2"), CATALOG.model("glm-5")
    kinds = [kind.index for kind in shared.layer_kinds]
    assert (kinds.count("own"), kinds.count("shared")) == (21, 57)
    index = 2048 * 32 * 128 + 6144 * 128 + 2 * 128 + 6144 * 32
    assert own.parameters() - shared.parameters() == 57 * index
    m3 = CATALOG.model("minimax-m3")
    assert [kind.index for kind in m3.layer_kinds[:4]] == ["none", "none", "none", "own"]


def test_shapes_of_hybrids_are_as_published():
    """Layers by mixer, and what one sequence keeps: keys and values of the attentions, states of the others."""
    nano = CATALOG.model("nemotron-nano-9b-v2")
    assert [sum(k.mixer == mixer for k in nano.layer_kinds) for mixer in ("recurrent", "attention")] == [27, 4]
    assert nano.recurrent.state_elements == 128 * 80 * 128
    qwen = CATALOG.model("qwen3-next-80b-a3b")
    assert [kind.mixer for kind in qwen.layer_kinds[:4]] == ["recurrent"] * 3 + ["attention"]
    assert sum(kind.kv_elements for kind in qwen.layer_kinds) == 12 * 2 * 2 * 256
    k3 = CATALOG.model("kimi-k3")
    assert sum(kind.kv_elements for kind in k3.layer_kinds) == 24 * (512 + 64)


def test_exaone_sees_4096_tokens_in_three_layers_of_four_and_all_in_the_fourth():
    model = CATALOG.model("exaone-4.0-32b")
    assert [model.window(layer) for layer in range(61, 64)] == [4096, 4096, None]
    assert sum(model.window(layer) is None for layer in range(64)) == 16
