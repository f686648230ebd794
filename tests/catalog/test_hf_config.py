"""The importer against what the publishers count, and against files that are wrong."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railyard import catalog
from railyard.catalog.hugging_face import hf_config
from railyard.catalog.hugging_face.families import families
from railyard.catalog.hugging_face.recurrent import weighted_keys
from railyard.kit.errors import InputError
from railyard.kit.schema.field import records
from railyard.work.study.provenance import estimates

DATA = Path(__file__).parent / "data"

# Totals of the tensors in the published checkpoints (Hugging Face's safetensors index), shared embeddings once, without
# multi-token prediction; towers for images where the file here has them.
PUBLISHED = {
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3-405b": 405_853_388_800,
    "llama-3.2-1b": 1_235_814_400,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "qwen2.5-72b": 72_706_203_648,
    "qwen1.5-moe-a2.7b": 14_315_784_192,
    "qwen3-8b": 8_190_735_360,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "deepseek-v2": 235_741_434_880,
    "deepseek-v2-lite": 15_706_484_224,
    "deepseek-v3": 671_026_419_200,
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "gpt-neox-20b": 20_554_567_680,
    "pythia-6.9b": 6_857_302_016,
    "falcon-7b": 6_921_720_704,
    "mpt-7b": 6_649_286_656,
    "gemma-7b": 8_537_680_896,
    "gemma-2-9b": 9_241_705_984,
    "gemma-2-27b": 27_227_128_320,
    "gemma-3-1b": 999_885_952,
    "phi-2": 2_779_683_840,
    "phi-3-mini": 3_821_079_552,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    "yi-34b": 34_388_917_248,
    "llama-nemotron-super-49b": 49_867_145_216,
    "bloom": 176_247_271_424,
    "bloom-560m": 559_214_592,
    "chatglm2-6b": 6_243_584_000,
    "ernie-4.5-0.3b": 360_748_032,
    "exaone-3-7.8b": 7_818_448_896,
    "granite-3-1b-a400m": 1_334_628_352,
    "granite-3.1-2b": 2_533_531_648,
    "internlm2-7b": 7_737_708_544,
    "mamba-130m": 129_135_360,
    "olmoe-1b-7b": 6_919_161_856,
    "starcoder": 15_517_456_384,
    "qwen3-vl-2b": 2_127_532_032,
    "qwen3-vl-30b": 31_070_754_032,
}
# Rounded figures of papers and model cards, in billions: total, and active with a token's share of the experts.
NAMED = {
    "mixtral-8x22b": (140.6, 39.0),
    "qwen2-57b-a14b": (57.4, 14.2),
    "kimi-k2": (1026.4, 32.6),
    "moonlight-16b-a3b": (15.96, 2.9),
    "llama-4-scout": (107.8, 17.2),
    "glm-4.5": (353.0, 33.6),
    "gemma-3-27b": (27.43, 27.01),
    "falcon-40b": (41.3, 41.3),
    "mpt-30b": (30.0, 30.0),
    "deepseek-v3": (671.0, 37.6),
    "qwen3-235b-a22b": (235.1, 22.2),
}
# As cards and papers print them, in billions, total and active: met to half of the last digit.
ROUNDED = {
    "dbrx": ("132", "36", "model card"),
    "falcon-mamba-7b": ("7.27", "7.27", "arXiv 2410.05355"),
    "jamba-1.5-mini": ("52", "12", "model card"),
    "minicpm3-4b": ("4", "4", "model card"),
    "opt-6.7b": ("6.7", "6.7", "arXiv 2205.01068"),
    "phi-3.5-moe": ("42", "6.6", "model card and arXiv 2404.14219"),
    "starcoder2-3b": ("3", "3", "model card"),
}
# Counted here from the files, not published to that precision: the cards say 7B of both, which is no check.
OURS = {"baichuan2-7b": 7_505_973_248, "hunyuan-mt-7b": 7_504_932_864}
# Hybrids, sparse attention, layers of different shape. The figures are counted here; the words have the publisher's,
# to which `test_served_models.py` compares the same models of the catalogue.
UNLIKE = {
    "deepseek-v3.2": (671.0, 38.4, "model card, 671B; active with the index, 37B without it and the input table"),
    "deepseek-v4-flash": (284.0, 13.8, "model card, 284B, 13B active without the input table's 0.5"),
    "gemma-4-26b-a4b": (25.79, 3.8, "model card, 25.2B, 3.8B active, and 0.55B for images"),
    "glm-5": (744.0, 41.8, "model card, 744B, 40B active without the input table's 0.95 and the index"),
    "kimi-k2.5": (1026.9, 32.9, "Kimi K2 report, 1.04T and 32.6B active; 0.4B for images"),
    "minimax-m2.5": (228.7, 11.0, "model card, 230B (228.7B in the checkpoint), 10B active without tables"),
    "mimo-7b": (7.62, 7.62, "model card, 7B; 7.83B in the checkpoint with the prediction layer"),
    "nemotron-3-nano": (31.6, 3.6, "model card, 31.6B, 3.6B active (3.2B without tables)"),
    "nemotron-3-super": (120.6, 12.7, "model card, 120.6B, 12.7B active"),
    "nemotron-h-56b": (56.3, 56.3, "report arXiv 2504.03624, 56B"),
    "qwen3.5-27b": (27.4, 26.9, "model card, 27B; with the tower for images"),
    "qwen3.5-35b": (35.1, 3.45, "model card, 35B, 3B active"),
    "qwen3.5-122b": (122.6, 9.8, "model card, 122B, 10B active"),
    "qwen3.5-397b": (397.0, 17.3, "model card, 397B, 17B active"),
}


@pytest.mark.parametrize(("name", "printed"), ROUNDED.items())
def test_the_count_rounds_to_what_is_printed(name, printed):
    model = hf_config.read(DATA / name)
    for count, text in ((model.parameters(), printed[0]), (model.active_parameters(), printed[1])):
        digits = len(text.partition(".")[2])
        assert f"{count / 1e9:.{digits}f}" == text


@pytest.mark.parametrize(("name", "total"), OURS.items())
def test_counts_of_our_own_stay(name, total):
    assert hf_config.read(DATA / name).parameters() == total


@pytest.mark.parametrize(
    ("old", "changes", "like"),
    [
        ("falcon-7b", {"model_type": "RefinedWebModel", "new_decoder_architecture": "gone"}, "falcon-7b"),
        ("falcon-40b", {"model_type": "RefinedWeb", "new_decoder_architecture": "gone"}, "falcon-40b"),
    ],
)
def test_falcons_of_2023_are_read_under_their_first_names(tmp_path, old, changes, like):
    read = hf_config.read(written(tmp_path, given_config(old, **changes)))
    assert read.parameters() == hf_config.read(DATA / like).parameters()
    assert read.kv_heads == hf_config.read(DATA / like).kv_heads


def test_a_file_that_names_no_longest_sequence_gets_no_short_one(tmp_path):
    keys = {"model_type": "qwen2", "hidden_size": 5120, "num_hidden_layers": 64, "num_attention_heads": 40}
    keys |= {"num_key_value_heads": 8, "intermediate_size": 27648, "vocab_size": 152064}
    assert hf_config.read(written(tmp_path, keys)).max_seq == 1_048_576
    assert hf_config.read(written(tmp_path, {**keys, "max_position_embeddings": 32768})).max_seq == 32768


def test_a_file_in_the_working_folder_is_called_by_its_type(tmp_path, monkeypatch):
    written(tmp_path, {**given_config("llama-3-8b"), "_name_or_path": None})
    monkeypatch.chdir(tmp_path)
    assert hf_config.read(Path("config.json")).name == "llama"
    assert hf_config.read(tmp_path / "config.json").name == tmp_path.name


def test_phi_moe_has_biases_where_its_file_says():
    """LayerNorms have biases whatever it says; attention and the head as their keys do."""
    model = hf_config.read(DATA / "phi-3.5-moe")
    biases = 32 * (4096 + 1024 + 1024 + 4096) + 32_064 + 65 * 4096
    assert model.parameters() == 41_872_527_360 + biases


def test_the_first_states_of_mamba_and_jamba():
    """Twice the width in channels, 16 states each, three of four taps kept."""
    mamba, jamba = (hf_config.read(DATA / name) for name in ("mamba-130m", "jamba-1.5-mini"))
    assert (mamba.recurrent.state_elements, mamba.recurrent.conv) == (1536 * 16, 3 * 1536)
    assert (jamba.recurrent.state_elements, jamba.recurrent.conv) == (8192 * 16, 3 * 8192)
    kinds = [(kind.mixer, kind.feed, kind.layers) for kind in jamba.kinds]
    assert sum(layers for mixer, _, layers in kinds if mixer == "attention") == 4
    assert sum(layers for _, feed, layers in kinds if feed == "experts") == 16


def test_the_first_rwkv_by_hand():
    """Three states a channel, the last token of both mixes; receptance, key, value, output and the vectors."""
    one = weighted_keys(8, width=16)
    assert (one.state_elements, one.conv, one.weights, one.parameters) == (3 * 16, 16, 4 * 8 * 16, 512 + 2 * 16 + 3 * 8)


@pytest.mark.parametrize(("name", "figures"), UNLIKE.items())
def test_the_count_of_unlike_layers_meets_the_published_figures(name, figures):
    model = hf_config.read(DATA / name)
    assert model.parameters() / 1e9 == pytest.approx(figures[0], rel=3e-3)
    assert model.active_parameters() / 1e9 == pytest.approx(figures[1], rel=1e-2)


def test_a_rounded_card_is_two_per_cent_off():
    """DeepSeek-V4-Pro is published as 1.6T with 49B active; the checkpoint's sum is not."""
    model = hf_config.read(DATA / "deepseek-v4-pro")
    assert model.parameters() / 1e12 == pytest.approx(1.573, rel=1e-3)
    assert model.active_parameters() / 1e9 == pytest.approx(49.8, rel=2e-3)


def test_kinds_of_layers_are_counted_as_published():
    """Nemotron 3 Nano: 23 Mamba-2, 23 experts, 6 attention. Qwen 3.5 397B: 45 delta nets, 15 full."""
    nano = {(kind.mixer, kind.feed): kind.layers for kind in hf_config.read(DATA / "nemotron-3-nano").kinds}
    assert nano == {("recurrent", "none"): 23, ("none", "experts"): 23, ("attention", "none"): 6}
    qwen = {kind.mixer: kind.layers for kind in hf_config.read(DATA / "qwen3.5-397b").kinds}
    assert qwen == {"recurrent": 45, "attention": 15}
    nas = hf_config.read(DATA / "llama-nemotron-super-49b")
    assert sum(kind.layers for kind in nas.kinds if kind.mixer == "attention") == 49
    gemma = {kind.window: (kind.layers, kind.kv_elements) for kind in hf_config.read(DATA / "gemma-4-26b-a4b").kinds}
    assert gemma == {1024: (25, 2 * 8 * 256), None: (5, 2 * 2 * 512)}


def test_a_state_does_not_grow_and_a_cache_does():
    """Qwen 3.5 397B: 64 heads of 128 x 128, and three of the convolution's four taps over all channels."""
    made = hf_config.read(DATA / "qwen3.5-397b").recurrent
    assert (made.state_elements, made.conv) == (64 * 128 * 128, 3 * (2 * 2048 + 8192))
    mamba = hf_config.read(DATA / "nemotron-h-56b").recurrent
    assert mamba.state_elements == 256 * 64 * 256
    inner, mixed = 256 * 64, 256 * 64 + 2 * 8 * 256
    assert mamba.weights == 8192 * (inner + mixed + 256) + inner * 8192


@pytest.mark.parametrize(("name", "total"), PUBLISHED.items())
def test_the_count_meets_the_published_checkpoint_exactly(name, total):
    assert hf_config.read(DATA / name).parameters() == total


@pytest.mark.parametrize(("name", "billions"), NAMED.items())
def test_the_count_meets_the_published_round_figures(name, billions):
    model = hf_config.read(DATA / name / "config.json")
    assert model.parameters() / 1e9 == pytest.approx(billions[0], rel=2e-3)
    assert model.active_parameters() / 1e9 == pytest.approx(billions[1], rel=1e-2)


@pytest.mark.parametrize(
    "name",
    sorted(
        {folder.name for folder in DATA.iterdir() if folder.is_dir()}.intersection(catalog.load().names("models"))
        - {"mpt-7b", "mpt-30b"}  # the catalogue holds those of the throughput tables, with another vocabulary
    ),
)
def test_file_and_catalogue_agree_on_every_field(name):
    """Two writings of one model: the catalogue's entry and the publisher's file."""
    read, known = hf_config.read(DATA / name), catalog.load().model(name)
    for field in fields(catalog.Model):
        if field.name in records(catalog.Model) and field.name not in (
            "aliases",
            "summary",
            "max_seq",
            "ffn",
            "side_parameters",
        ):
            assert getattr(read, field.name) == getattr(known, field.name), field.name


def test_gpt_3_has_its_published_size():
    assert catalog.load().model("gpt-3-175b").parameters() == pytest.approx(174.6e9, rel=1e-3)


@pytest.mark.parametrize("billions", [1.7, 3.6, 7.5, 18.4, 39.1, 76.1, 145.6, 310.1, 529.6, 1008.0])
def test_megatron_sizes_have_the_size_in_their_name(billions):
    text = f"{billions:g}b"
    assert catalog.load().model(f"megatron-{text}").parameters() / 1e9 == pytest.approx(billions, abs=0.06)


@pytest.mark.parametrize("billions", [1.7, 7.1, 16, 32, 70, 119, 177, 314, 462])
def test_megatron_h100_sizes_have_the_size_in_their_name(billions):
    count = catalog.load().model(f"megatron-h100-{billions:g}b").parameters() / 1e9
    assert count == pytest.approx(billions, rel=0.035)


@pytest.mark.parametrize("name", catalog.load().names("models"))
def test_a_models_parts_add_up(name):
    model = catalog.load().model(name)
    layers = sum(model.layer_parameters(layer) for layer in range(model.layers))
    rest = model.embedding_parameters() + model.head_parameters() + model.norm_parameters()
    used = layers + rest
    assert model.parameters() == used + model.side_parameters
    assert 0 < model.active_parameters() <= used
    assert (model.active_parameters() == used) == (model.experts == 0)
    assert model.moe_layers <= model.layers


def test_windows_alternate_as_published():
    gemma2, gemma3 = hf_config.read(DATA / "gemma-2-9b"), hf_config.read(DATA / "gemma-3-27b")
    assert [gemma2.window(layer) for layer in range(4)] == [4096, None, 4096, None]
    assert [gemma3.window(layer) for layer in range(7)] == [1024] * 5 + [None, 1024]
    oss = hf_config.read(DATA / "gpt-oss-20b")
    assert [oss.window(layer) for layer in range(3)] == [128, None, 128]
    assert hf_config.read(DATA / "mistral-7b").window(31) == 4096
    assert hf_config.read(DATA / "qwen2.5-72b").window(0) is None, "switched off by use_sliding_window"


def test_layers_with_experts_are_where_they_are():
    deepseek = hf_config.read(DATA / "deepseek-v3")
    assert [deepseek.has_experts(layer) for layer in range(5)] == [False, False, False, True, True]
    assert deepseek.moe_layers == 58
    maverick = catalog.load().model("llama-4-maverick")
    assert [maverick.has_experts(layer) for layer in range(4)] == [False, True, False, True]
    assert maverick.parameters() / 1e9 == pytest.approx(400.7, rel=1e-3)


def test_an_unknown_type_is_read_by_its_keys_or_as_another_when_asked(tmp_path):
    path = written(tmp_path, given_config("yi-34b", model_type="yee"))
    model = hf_config.read(path)
    assert model.parameters() == 34_388_917_248
    assert "`yee` was read by its keys" in model.summary
    assert "by its keys" in model.provenance["layers"].source
    model = hf_config.read(path, like="llama")
    assert model.parameters() == 34_388_917_248
    assert "`yee` was read as `llama`, as asked" in model.summary
    assert "was read" not in hf_config.read(DATA / "llama-3-8b").summary
    with pytest.raises(InputError, match="did you mean `llama`"):
        hf_config.read(path, like="lama")


# What a file of our data may have to be asked for without its type, and the field of the model that answers.
ANSWERS = {
    "gated_mlp": lambda known: known.gated_mlp,
    "tie_word_embeddings": lambda known: known.tied_embeddings,
    "intermediate_size": lambda known: known.ffn,
    "v_head_dim": lambda known: known.mla.v_dim,
}


def unnamed(value):
    """The same without types; files here are cut to their dimensions, so that some lack what real ones say."""
    if not isinstance(value, dict):
        return value
    return {key: unnamed(item) for key, item in value.items() if key not in ("model_type", "architectures")}


@pytest.mark.parametrize("name", sorted(path.parent.name for path in DATA.glob("*/config.json")))
def test_a_family_is_known_by_its_keys_without_its_name(tmp_path, name):
    """Within 1 % at once or with the keys that the refusal names; biases and norms that a type implies have no key.

    Of the active ones 2 %: a table that is assumed to be shared weighs more there (Phi 3.5 MoE, 132 M of 6.6 B).
    """
    config, known = {**unnamed(given_config(name)), "model_type": "brand_new"}, hf_config.read(DATA / name)
    try:
        model = hf_config.read(written(tmp_path, config))
    except InputError as refused:
        asked = [problem.key for problem in refused.problems[1:]]
        assert asked
        inner = config.get("text_config", config)
        inner.update({key: ANSWERS[key](known) for key in asked})
        model = hf_config.read(written(tmp_path, config))
    assert model.parameters() == pytest.approx(known.parameters(), rel=0.01)
    assert model.active_parameters() == pytest.approx(known.active_parameters(), rel=0.02)
    assert model.layers == known.layers
    cached = sum(kind.kv_elements * kind.layers for kind in model.kinds)
    assert cached == sum(kind.kv_elements * kind.layers for kind in known.kinds)
    windows = [model.window(layer) for layer in range(model.layers)]
    assert windows == [known.window(layer) for layer in range(known.layers)] or "a window of" in model.assumed


# Real files of these families with all keys but the type (shapes of their published `config.json`): gate, heads of keys
# and values and shared tables follow from activation, norm, and what `save_pretrained` leaves out.
FULL = {
    "gemma-7b": {"hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "transformers_version": "4.38.1"},
    "gemma-2-9b": {"hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "transformers_version": "4.42.0"},
    "pythia-6.9b": {"hidden_act": "gelu", "layer_norm_eps": 1e-5, "transformers_version": "4.24.0"},
    "starcoder2-3b": {"hidden_act": "gelu_pytorch_tanh", "norm_epsilon": 1e-5, "transformers_version": "4.37.0"},
    "llama-3.2-1b": {"hidden_act": "silu", "rms_norm_eps": 1e-5, "transformers_version": "4.45.0"},
    "granite-3.1-2b": {"hidden_act": "silu", "rms_norm_eps": 1e-5, "transformers_version": "4.47.0"},
    "gpt2": {"layer_norm_epsilon": 1e-5, "transformers_version": "4.40.0"},
}


@pytest.mark.parametrize("name", FULL)
def test_full_files_are_read_without_a_question(tmp_path, name):
    config = {**unnamed(given_config(name)), **FULL[name], "model_type": "brand_new"}
    model = hf_config.read(written(tmp_path, config))
    assert model.parameters() == pytest.approx(hf_config.read(DATA / name).parameters(), rel=0.01)
    tied = "tied embeddings (no `tie_word_embeddings`)"
    assert model.assumed == "" or any(model.assumed in warning for warning in estimates(model))
    assert (tied in model.summary) == (tied in model.assumed) == ("tie_word_embeddings" not in config)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"hidden_act": "relu2", "rms_norm_eps": 1e-6}, "gated_mlp"),  # with a gate in BitNet, without in Arcee
        ({"mamba_d_state": 16}, "mamba_d_state"),
        ({"hidden_size_per_layer_input": 256}, "hidden_size_per_layer_input"),
        ({"moe_expert_count": 64}, "moe_expert_count"),
        ({"num_mem_blocks": 2}, "num_mem_blocks"),
        ({"tie_word_embeddings": "gone"}, "tie_word_embeddings"),
    ],
)
def test_what_would_be_another_model_is_refused(tmp_path, changes, key):
    """Llama 3 8B: 128,256 x 4096 of 8.03 billion are 6.5 %, more than may rest on a guess."""
    path = written(tmp_path, given_config("llama-3-8b", model_type="brand_new", **changes))
    with pytest.raises(InputError) as refused:
        hf_config.read(path)
    assert key in [problem.key for problem in refused.value.problems]


# `inference/configs/config_671B.json` of github.com/deepseek-ai/DeepSeek-V3 (MIT): the same model in other words.
DEEPSEEK_REFERENCE = {
    **{"vocab_size": 129280, "dim": 7168, "inter_dim": 18432, "moe_inter_dim": 2048, "n_layers": 61, "n_heads": 128},
    **{"n_dense_layers": 3, "n_routed_experts": 256, "n_shared_experts": 1, "n_activated_experts": 8},
    **{"n_expert_groups": 8, "n_limited_groups": 4, "q_lora_rank": 1536, "kv_lora_rank": 512, "v_head_dim": 128},
    **{"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "score_func": "sigmoid", "dtype": "fp8"},
}
# Dimensions of MiniMax-M3's `text_config`: flags in place of counts, widths of three kinds.
MINIMAX_M3 = {
    "model_type": "minimax_m3_vl",
    "text_config": {
        **{"hidden_size": 6144, "num_hidden_layers": 60, "num_attention_heads": 64, "num_key_value_heads": 4},
        **{"head_dim": 128, "vocab_size": 200064, "intermediate_size": 3072, "dense_intermediate_size": 12288},
        **{"shared_intermediate_size": 3072, "num_local_experts": 128, "num_experts_per_tok": 4, "n_shared_experts": 1},
        **{"moe_layer_freq": [0] * 3 + [1] * 57, "use_qk_norm": True, "use_routing_bias": True},
        **{"tie_word_embeddings": False, "rms_norm_eps": 1e-6, "max_position_embeddings": 1048576},
        "sparse_attention_config": {
            **{"sparse_index_dim": 128, "sparse_num_index_heads": 4, "sparse_topk_blocks": 16, "sparse_block_size": 128}
        },
    },
}


_TRINITY = {
    **{"model_type": "afmoe", "hidden_size": 1024, "intermediate_size": 3072, "moe_intermediate_size": 256},
    **{"num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 128, "num_hidden_layers": 56},
    **{"num_dense_layers": 2, "num_experts": 128, "num_experts_per_tok": 8, "num_shared_experts": 1},
    **{"sliding_window": 2048, "global_attn_every_n_layers": 4, "vocab_size": 200192, "tie_word_embeddings": False},
}
# Dimensions of files of types that no function here knows, and what their model cards name: billions in all and active.
RECENT = {
    "trinity-nano": (_TRINITY, 6.1, 1.0),
    "trinity-mini": (
        {
            **{**_TRINITY, "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 1024},
            **{"num_attention_heads": 32, "num_key_value_heads": 4, "num_hidden_layers": 32},
        },
        *(26.0, 3.2),
    ),
    "solar-open-100b": (
        {
            **{"model_type": "solar_open", "hidden_size": 4096, "num_hidden_layers": 48, "num_attention_heads": 64},
            **{"num_key_value_heads": 8, "head_dim": 128, "vocab_size": 196608, "intermediate_size": 10240},
            **{"moe_intermediate_size": 1280, "n_routed_experts": 128, "n_shared_experts": 1},
            **{"num_experts_per_tok": 8, "first_k_dense_replace": 0, "tie_word_embeddings": False},
        },
        *(102.6, 12.0),
    ),
    "k-exaone-236b": (
        {
            **{"model_type": "exaone_moe", "hidden_size": 6144, "num_hidden_layers": 48, "num_attention_heads": 64},
            **{"num_key_value_heads": 8, "head_dim": 128, "vocab_size": 153600, "intermediate_size": 18432},
            **{"moe_intermediate_size": 2048, "num_experts": 128, "num_experts_per_tok": 8, "num_shared_experts": 1},
            **{"is_moe_layer": [False] + [True] * 47, "sliding_window": 128, "sliding_window_pattern": "LLLG"},
            "tie_word_embeddings": False,
        },
        *(236.0, 23.0),
    ),
}


@pytest.mark.parametrize("name", RECENT)
def test_recent_families_are_read_by_their_keys(tmp_path, name):
    config, total, active = RECENT[name]
    model = hf_config.read(written(tmp_path, config))
    assert model.parameters() / 1e9 == pytest.approx(total, rel=0.01)
    assert model.active_parameters() / 1e9 == pytest.approx(active, rel=0.05)


def test_the_words_of_a_reference_implementation_are_read(tmp_path):
    model = hf_config.read(written(tmp_path, DEEPSEEK_REFERENCE))
    assert model.parameters() == pytest.approx(671_026_419_200, rel=1e-4)
    assert model.mla == hf_config.read(DATA / "deepseek-v3").mla
    assert [model.has_experts(layer) for layer in (0, 2, 3, 60)] == [False, False, True, True]


def test_widths_of_experts_and_of_dense_layers_are_told_apart(tmp_path):
    model = hf_config.read(written(tmp_path, MINIMAX_M3))
    assert (model.moe_ffn, model.ffn, model.shared_ffn, model.sparse_keys) == (3072, 12288, 3072, 2048)
    assert model.moe_layers == 57
    # By hand: three matrices an expert, 128 routed and one shared in 57 layers, three dense layers, attention of 64
    # heads and 4 of keys and values in 60, two tables; the index and norms are below 1 %.
    experts, dense = 57 * 129 * 3 * 6144 * 3072, 3 * 3 * 6144 * 12288
    attention, tables = 60 * 6144 * 128 * (2 * 64 + 2 * 4), 2 * 200064 * 6144
    assert model.parameters() == pytest.approx(experts + dense + attention + tables, rel=0.01)


def test_layers_may_be_written_as_a_list_in_place_of_their_number(tmp_path):
    config = given_config("qwen3-8b", model_type="new", num_hidden_layers="gone", layer_types=["full_attention"] * 36)
    assert hf_config.read(written(tmp_path, config)).layers == 36
    config = given_config("qwen3-8b", model_type="new", layer_types=["full_attention"] * 35 + ["retention"])
    with pytest.raises(InputError, match="`retention` is not a known kind of layer"):
        hf_config.read(written(tmp_path, config))


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"hidden_size": "gone"}, "hidden_size: is missing"),
        (
            {"head_dim": "gone", "hidden_size": 4095},
            "head_dim: is missing; 32 heads do not divide the hidden size",
        ),
        ({"num_experts": 64, "moe_intermediate_size": 512}, "num_experts_per_tok: is missing"),
        ({"kv_lora_rank": 512}, "qk_rope_head_dim: is missing"),
        ({"sliding_window": "gone", "layer_types": ["sliding_attention"] * 36}, "sliding_window: is missing"),
    ],
)
def test_a_key_that_is_due_is_asked_for_by_name(tmp_path, changes, part):
    with pytest.raises(InputError) as caught:
        hf_config.read(written(tmp_path, given_config("qwen3-8b", model_type="brand_new", **changes)))
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_hidden_layers", 1_000_000_000),
        ("num_hidden_layers", 0),
        ("hidden_size", 0),
        ("vocab_size", 10**12),
        ("vocab_size", 0),
        ("num_attention_heads", 0),
    ],
)
def test_absurd_sizes_are_refused_at_once_with_their_key(tmp_path, key, value):
    for name in ("llama-3-8b", "qwen3.5-397b", "nemotron-3-nano", "gemma-4-26b-a4b", "deepseek-v4-flash"):
        with pytest.raises(InputError) as caught:
            hf_config.read(written(tmp_path, nested(name, key, value)))
        assert key in str(caught.value), name


def nested(name: str, key: str, value: object) -> dict[str, object]:
    config = given_config(name)
    inner = config.get("text_config", config)
    return {**config, "text_config": {**inner, key: value}} if "text_config" in config else {**config, key: value}


def test_every_field_says_which_file_it_comes_from():
    model = hf_config.read(DATA / "deepseek-v3")
    assert model.name == "deepseek-v3"
    assert model.source.endswith("deepseek-v3/config.json")
    assert model.provenance["mla"].confidence == "user"


def written(folder: Path, value: object) -> Path:
    path = folder / "config.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=1), encoding="utf-8")
    return path


def given_config(name: str, **changes: object) -> dict[str, object]:
    value = json.loads((DATA / name / "config.json").read_text("utf-8"))
    return {key: item for key, item in {**value, **changes}.items() if item != "gone"}


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        (given_config("llama-3-8b", hidden_size="gone"), ["hidden_size: is missing", "config.json"]),
        (
            given_config("llama-3-8b", hidden_size="4096"),
            ["hidden_size: expected an integer", "found: 4096", "config.json:"],
        ),
        (given_config("llama-3-8b", hidden_size=-1), ["expected an integer", "0 to"]),
        (given_config("llama-3-8b", hidden_size=1.5), ["expected an integer"]),
        (given_config("llama-3-8b", hidden_size=True), ["expected an integer"]),
        (given_config("llama-3-8b", hidden_size=4095), ["multiple of num_attention_heads (32)"]),
        (given_config("llama-3-8b", num_attention_heads=0), ["heads: must be more than zero"]),
        (given_config("llama-3-8b", num_key_value_heads=5), ["must divide heads (32)"]),
        (given_config("llama-3-8b", tie_word_embeddings="yes"), ["must be true or false"]),
        (given_config("mixtral-8x7b", num_experts_per_tok=9), ["must not exceed experts (8)"]),
        (given_config("mixtral-8x7b", num_local_experts="gone"), ["num_local_experts: is missing"]),
        (given_config("qwen3-30b-a3b", mlp_only_layers=["a"]), ["mlp_only_layers", "list of integers"]),
        (given_config("deepseek-v3", kv_lora_rank=None), ["kv_lora_rank: is missing"]),
        (given_config("mpt-7b", expansion_ratio=2.5), ["expansion_ratio: expected an integer"]),
        (given_config("mpt-7b", attn_config=3), ["attn_config: must be an object"]),
        (given_config("gpt-oss-20b", layer_types=[1]), ["layer_types: must be a list of texts"]),
        (
            {"model_type": "lama", "hidden_size": 8},
            ["`lama` is not known", "did you mean `llama`"],
        ),
        ({"hidden_siz": 8, "model_type": "llama"}, ["hidden_size: is missing", "did you mean `hidden_siz`"]),
        ({"model_type": ["llama"]}, ["model_type: must be a text"]),
        ({"model_type": "bert", "hidden_size": 768}, ["an encoder", "not read"]),
        (given_config("llama-3-8b", is_encoder_decoder=True), ["encoder-decoder"]),
        ({"model_type": "zamba2"}, ["share or join attention and state space"]),
        (given_config("nemotron-3-nano", hybrid_override_pattern="M*Q"), ["hybrid_override_pattern", "has `Q`"]),
        ({}, ["model_type: is missing"]),
        ([], ["must hold an object", "found: list"]),
        ("{", ["is not JSON", "config.json:1"]),
        ("", ["is not JSON"]),
        ('{"hidden_size": ' + "1" * 5000 + "}", ["too many digits"]),
        ("[" * 100000, ["config.json"]),
    ],
)
def test_what_is_wrong_is_said(tmp_path, value, parts):
    with pytest.raises(InputError) as caught:
        hf_config.read(written(tmp_path, value))
    for part in parts:
        assert part in str(caught.value)


def test_the_place_of_a_wrong_value_is_shown(tmp_path):
    path = written(tmp_path, given_config("llama-3-8b", num_hidden_layers="many"))
    with pytest.raises(InputError) as caught:
        hf_config.read(path)
    (problem,) = caught.value.problems
    assert problem.line is not None
    assert '"num_hidden_layers": "many"' in path.read_text("utf-8").splitlines()[problem.line - 1]


KEYS = st.sampled_from(
    [
        *["model_type", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim"],
        *["intermediate_size", "vocab_size", "text_config", "n_routed_experts", "q_lora_rank", "moe_layer_freq"],
        *["decoder_sparse_step", "sliding_window_pattern", "interleave_moe_layer_step", "layer_types", "attn_config"],
    ]
)
VALUES = st.one_of(
    st.sampled_from(families.names()),
    st.integers(-3, 2**70),
    st.none(),
    st.booleans(),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.text(max_size=3), max_size=2),
    st.dictionaries(KEYS, st.integers(0, 9), max_size=3),
)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.sampled_from(sorted(folder.name for folder in DATA.iterdir() if folder.is_dir())),
    st.dictionaries(KEYS, VALUES, max_size=4),
)
def test_fuzzed_files_give_a_model_or_an_input_error(tmp_path, name, changes):
    path = written(tmp_path, {**given_config(name), **changes})
    with suppress(InputError):
        assert hf_config.read(path).parameters() > 0
