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
from railyard.errors import InputError
from railyard.schema.field import records

DATA = Path(__file__).parent / "data"

# Totals of the tensors in the published checkpoints (Hugging Face's safetensors index), language part only, shared
# embeddings once, without multi-token prediction.
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
    "yi-34b-unknown-type": 34_388_917_248,
}
# Rounded figures of papers and model cards, in billions: total, and active with a token's share of the experts.
NAMED = {
    "mixtral-8x22b": (140.6, 39.0),
    "qwen2-57b-a14b": (57.4, 14.2),
    "kimi-k2": (1026.4, 32.6),
    "moonlight-16b-a3b": (15.96, 2.9),
    "llama-4-scout": (107.8, 17.2),
    "glm-4.5": (353.0, 33.6),
    "gemma-3-27b": (27.0, 27.0),
    "falcon-40b": (41.3, 41.3),
    "mpt-30b": (30.0, 30.0),
    "deepseek-v3": (671.0, 37.6),
    "qwen3-235b-a22b": (235.1, 22.2),
}


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
        if field.name in records(catalog.Model) and field.name not in ("aliases", "summary", "max_seq", "ffn"):
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
    assert model.parameters() == layers + rest
    assert 0 < model.active_parameters() <= model.parameters()
    assert (model.active_parameters() == model.parameters()) == (model.experts == 0)
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


def test_an_unknown_type_is_read_as_a_llama_and_says_so():
    model = hf_config.read(DATA / "yi-34b-unknown-type")
    assert "`Yi` is not known" in model.summary
    assert "read as `llama`" in model.provenance["layers"].source
    assert "not known" not in hf_config.read(DATA / "llama-3-8b").summary


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("deepseek-v3", "deepseek_v3"),
        ("glm-4.5", "glm4_moe"),
        ("mixtral-8x22b", "mixtral"),
        ("qwen2-57b-a14b", "qwen2_moe"),
        ("qwen3-235b-a22b", "qwen3_moe"),
        ("llama-3-70b", "llama"),
    ],
)
def test_an_unknown_type_is_read_as_the_family_whose_keys_it_uses(tmp_path, name, like):
    model = hf_config.read(written(tmp_path, given_config(name, model_type="brand_new")))
    assert f"read as `{like}`" in model.summary
    assert model.parameters() == hf_config.read(DATA / name).parameters()


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
        (given_config("qwen3-30b-a3b", mlp_only_layers=[0, 1]), ["mlp_only_layers", "lists dense layers"]),
        (given_config("deepseek-v3", kv_lora_rank=None), ["kv_lora_rank: is missing"]),
        (given_config("mpt-7b", expansion_ratio=2.5), ["expansion_ratio: expected an integer"]),
        (given_config("mpt-7b", attn_config=3), ["attn_config: must be an object"]),
        (given_config("gpt-oss-20b", layer_types=[1]), ["layer_types: must be a list of texts"]),
        (
            {"model_type": "lama", "hidden_size": 8},
            ["`lama` is not known", "did you mean `llama`", "num_hidden_layers"],
        ),
        (given_config("llama-3-8b", model_type="new", ffn_experts=8), ["ffn_experts", "experts of an unknown kind"]),
        ({"hidden_siz": 8, "model_type": "llama"}, ["hidden_size: is missing", "did you mean `hidden_siz`"]),
        ({"model_type": ["llama"]}, ["model_type: must be a text"]),
        ({"model_type": "bert", "hidden_size": 768}, ["encoder family", "decoder-only"]),
        (given_config("llama-3-8b", is_encoder_decoder=True), ["encoder-decoder"]),
        ({"model_type": "mamba"}, ["state-space or hybrid"]),
        (given_config("llama-3-8b", hybrid_override_pattern="M*M"), ["hybrid of attention and state-space"]),
        ({}, ["is missing"]),
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


def test_a_missing_file_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        hf_config.read(tmp_path / "nothing.json")
    with pytest.raises(InputError, match="no such file"):
        hf_config.read(tmp_path)
    (tmp_path / "config.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(InputError, match="UTF-8"):
        hf_config.read(tmp_path)


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


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(alphabet='{}[]":,0e9-.ntfa \n\\', max_size=40))
def test_fuzzed_text_gives_a_model_or_an_input_error(tmp_path, text):
    path = written(tmp_path, text)
    with suppress(InputError):
        hf_config.read(path)
