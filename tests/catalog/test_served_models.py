"""Models that people serve: found by their published names, with the published number of parameters."""

from __future__ import annotations

import pytest

from railyard import catalog
from railyard.kit.errors import InputError

CATALOG = catalog.load()

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
