"""A user's own file: extend, override, and be told exactly what is wrong."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from railyard import catalog
from railyard.catalog.checks import check
from railyard.kit.errors import InputError
from railyard.kit.schema.field import records


def written(folder, text: str):
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_an_entry_can_extend_another(tmp_path):
    mine = catalog.load(
        written(
            tmp_path,
            """
accelerators:
  My GPU:
    extends: H100
    aliases: [the big one]
    memory: 128 GiB
    flops: {bf16: 1200 TFLOP/s}
    price: {low: $20k, typical: $22k, high: $24k, source: our contract, year: 2026, confidence: vendor}
""",
        )
    )
    own, base = mine.accelerator("my-gpu"), catalog.load().accelerator("h100-sxm")
    assert own is mine.accelerator("the big one")
    assert own.memory_bytes == 128 * 2**30
    assert own.flops == {**base.flops, "bf16": 1200e12}
    assert own.price_usd == catalog.Range(20e3, 22e3, 24e3)
    assert own.memory_bps == base.memory_bps
    assert own.provenance["memory_bytes"].confidence == "user"
    assert own.provenance["memory_bytes"].source.endswith("mine.yaml:6")
    assert own.provenance["price_usd"].source == "our contract"
    assert own.provenance["memory_bps"] == base.provenance["memory_bps"]
    assert "my-gpu" in mine.names("accelerators")
    assert "my-gpu" not in catalog.load().names("accelerators")


def test_an_entry_of_the_same_name_overrides(tmp_path):
    mine = catalog.load(
        written(tmp_path, "prices:\n  electricity: {range: $0.03/kWh}\nmodels:\n  GPT-3: {layers: 12}\n")
    )
    assert mine.price("electricity").range == catalog.Range(0.03, 0.03, 0.03)
    assert mine.model("gpt-3-175b").layers == 12
    assert mine.names("models") == catalog.load().names("models")


def test_what_extends_an_overridden_entry_sees_the_override(tmp_path):
    text = "accelerators:\n  h100-sxm: {l2: 99 MiB}\n  mine: {extends: h100-sxm}\n"
    mine = catalog.load(written(tmp_path, text))
    assert mine.accelerator("mine").l2_bytes == 99 * 2**20
    assert mine.accelerator("h200").l2_bytes == 99 * 2**20


def test_a_complete_new_entry_needs_no_base(tmp_path):
    text = """
nics:
  lab-nic:
    {vendor: us, year: 2026, rate: 3.2 Tb/s, ports: 4, send_latency: 1 us, receive_latency: 1 us, out_of_order: any,
     power: {low: 10 W, typical: 20 W, high: 30 W}, price: $1k}
servers:
  lab: {extends: hgx-h100, nic: lab-nic}
"""
    mine = catalog.load(written(tmp_path, text))
    assert mine.nic(mine.server("lab").nic).port_rate_bps == 800e9


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("accelerators:\n  x: {extends: h1000}\n", ["no accelerator `h1000`", "did you mean", "mine.yaml:2"]),
        ("acelerators: {}\n", ["unknown kind `acelerators`", "did you mean `accelerators`", "mine.yaml:1:1"]),
        (
            "accelerators:\n  x: {extends: h100, memry: 1 GB}\n",
            ["unknown key `memry`", "did you mean `memory`", ":2:22"],
        ),
        ("accelerators:\n  x: {extends: h100, memory: 80}\n", ["a size needs a unit", "mine.yaml:2", "x.memory"]),
        ("accelerators:\n  x: {extends: h100, memory: 80 Gb}\n", ["unknown unit `Gb`", "did you mean `GB`"]),
        (
            "accelerators:\n  x: {extends: h100, flops: {bf17: 1 TFLOP/s}}\n",
            ["unknown key `bf17`", "did you mean `bf16`"],
        ),
        ("accelerators:\n  x: {extends: h100, scale_up_kind: mash}\n", ["unknown value `mash`", "did you mean `mesh`"]),
        ("accelerators:\n  x: {extends: h100, nvls: maybe}\n", ["expected true or false"]),
        ("accelerators:\n  x: {extends: h100, sm_count: 1.5}\n", ["expected an integer count"]),
        ("accelerators:\n  x: {extends: h100, gemm_efficiency: 120 %}\n", ["not a share"]),
        ("accelerators:\n  x: {extends: h100, memory: 0 GB}\n", ["memory: must be at least 1 B"]),
        ("accelerators:\n  x: {extends: h100, scale_up_bandwidth: 1 GB/s}\n", ["must not exceed scale_up_bandwidth"]),
        ("accelerators:\n  x: {vendor: a}\n", ["is missing", "x.memory", "x.flops", "x.tdp"]),
        ("accelerators:\n  x: {extends: x}\n", ["dependency cycle", "mine.yaml:2"]),
        ("accelerators:\n  x: {extends: y}\n  y: {extends: x}\n", ["dependency cycle"]),
        ("accelerators:\n  x: 3\n", ["expected a mapping of keys"]),
        ("accelerators: 3\n", ["expected a mapping of entries by name"]),
        ("accelerators:\n  x: {extends: h100}\n  X: {extends: h100}\n", ["appears twice under two spellings"]),
        ("accelerators:\n  '!!': {extends: h100}\n", ["a name needs letters or digits"]),
        ("accelerators:\n  x: {extends: h100, price: {low: $3, high: $4}}\n", ["lacks typical"]),
        ("accelerators:\n  x: {extends: h100, price: {low: $5, typical: $4, high: $9}}\n", ["low <= typical <= high"]),
        ("accelerators:\n  x: {extends: h100, memory: {value: 80 GB, source: s}}\n", ["expected a year"]),
        ("accelerators:\n  x: {extends: h100, memory: {value: 80 GB, from: nowhere}}\n", ["unknown source `nowhere`"]),
        (
            "accelerators:\n  x: {extends: h100, memory: {source: s, year: 2020, confidence: vendor}}\n",
            ["lacks its value"],
        ),
        (
            "accelerators:\n  x: {extends: h100, memory: {value: 8 GB, source: s, year: 2020, confidence: vendr}}\n",
            ["unknown value `vendr`", "did you mean `vendor`"],
        ),
        ("servers:\n  x: {extends: hgx-h100, nic: cx77}\n", ["no nic `cx77`", "did you mean", "x.nic"]),
        ("servers:\n  x: {extends: hgx-h100, accelerators: 4}\n", ["for each of the 4 accelerators"]),
        (
            "servers:\n  x: {extends: hgx-h100, nic_numa: [0, 0, 0, 0, 9, 9, 9, 9]}\n",
            ["not enough for the memory domains"],
        ),
        (
            "servers:\n  x: {extends: hgx-h100, scale_up_domain: 12}\n",
            ["divide the server's accelerators or be a multiple"],
        ),
        ("servers:\n  x: {extends: hgx-h100, nic_numa: 3}\n", ["expected a list of numbers"]),
        ("models:\n  x: {extends: llama-3-8b, kv_heads: 7}\n", ["must divide heads (32)"]),
        ("models:\n  x: {config: 3}\n", ["expected the keys of a config.json"]),
        (
            "models:\n  x:\n    config: {model_type: llama,\n      hidden_size: wide}\n",
            ["x.hidden_size", "expected an integer", "mine.yaml:4", "num_hidden_layers"],
        ),
        ("models:\n  x: {extends: mixtral-8x7b, experts_per_token: 9}\n", ["must not exceed experts (8)"]),
        ("models:\n  x: {extends: deepseek-v3, mla: {q_lora: 1}}\n", ["mla.kv_lora", "is missing"]),
        ("prices:\n  electricity: {range: 0.08}\n", ["needs its currency and unit"]),
        (
            "prices:\n  electricity: {range: {low: 1, typical: $0.08/h, high: $1/kWh}}\n",
            ["electricity.range.low", "typical"],
        ),
        ("a: &x {b: *x}\n", ["has no anchor"]),
        ("accelerators: !!python/object:os.system {}\n", ["tags such as"]),
        ("accelerators: {x: {}, x: {}}\n", ["appears twice"]),
        ("accelerators: {\n", ["this is not valid YAML"]),
        ("- 1\n", ["expected a mapping of keys"]),
        ("", ["the file is empty"]),
        ("accelerators: {[1]: 2}\n", ["a key must be a word"]),
        ("accelerators: {x: {extends: h100, memory: 1e999999999 GB}}\n", ["is not a quantity"]),
        ("accelerators: {x: {extends: h100, memory_bandwidth: 1e99 GB/s}}\n", ["out of range"]),
        ("a: " + "[" * 60 + "]" * 60 + "\n", ["nested more than 40 deep"]),
        ("a: " + "[" * 5000, ["mine.yaml"]),
        ("a: \x00\n", ["this is not valid YAML"]),
    ],
)
def test_what_is_wrong_is_said(tmp_path, text, parts):
    with pytest.raises(InputError) as caught:
        catalog.load(written(tmp_path, text))
    for part in parts:
        assert part in str(caught.value)


def test_a_file_that_cannot_be_read_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        catalog.load(tmp_path / "nothing.yaml")
    with pytest.raises(InputError, match="folder"):
        catalog.load(tmp_path)
    binary = tmp_path / "b.yaml"
    binary.write_bytes(b"a: 1\n\xff\xfe")
    with pytest.raises(InputError, match="UTF-8") as caught:
        catalog.load(binary)
    assert caught.value.problems[0].line == 2


def test_the_catalogues_own_files_must_name_sources_and_ranges():
    """What a user may leave out, an entry of the catalogue may not."""
    from railyard.catalog.parse import Parser
    from railyard.kit.schema.yaml import parse_mapping

    base = catalog.load().accelerator("h100")
    for text, message in (("memory: 80 GB", "does not say where it comes from"), ("price: $30k", "needs a range")):
        with pytest.raises(InputError, match=message):
            Parser(parse_mapping(text, "x.yaml"), base=base).entry(catalog.Accelerator, "x")


WORDS = st.sampled_from(
    [
        *["accelerators", "servers", "models", "prices", "h100-sxm", "hgx-h100", "electricity", "extends", "memory"],
        *[
            "flops",
            "bf16",
            "range",
            "low",
            "typical",
            "high",
            "value",
            "source",
            "year",
            "confidence",
            "from",
            "sources",
        ],
        *["mla", "kv_lora", "nvls", "aliases", "price", "accelerator_numa", "$3k", "2020", "vendor", "true", "null"],
    ]
)
QUANTITIES = st.sampled_from(["80 GB", "-1 GB", "1e400 W", "$1/h", "8 TB/s", "3:1", "95 %", "1e9999999 GB"])
SCALARS = st.one_of(WORDS, QUANTITIES, st.text(max_size=8), st.integers(-9, 9).map(str))
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=4)),
    max_leaves=12,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.dictionaries(WORDS, TREES, max_size=3))
@example({"accelerators": {"h100-sxm": {"extends": "h100-sxm", "memory": "80 GB"}}})
def test_fuzzed_trees_give_a_catalogue_or_an_input_error(tmp_path, tree):
    import yaml

    path = written(tmp_path, yaml.safe_dump(tree))
    with suppress(InputError):
        mine = catalog.load(path)
        for kind in catalog.KINDS:
            assert mine.rows(kind).rows


def test_a_model_may_be_given_by_the_keys_of_its_publishers_file(tmp_path):
    """What stands beside `config` overrides it; each value says where it stands."""
    shape = "hidden_size: 4096, intermediate_size: 14336, num_hidden_layers: 32, num_attention_heads: 32"
    keys = f"model_type: llama, {shape}, num_key_value_heads: 8, vocab_size: 128256"
    model = catalog.load(extra=written(tmp_path, f"models:\n  x:\n    config: {{{keys}}}\n    max_seq: 64\n")).model(
        "x"
    )
    assert (model.parameters(), model.max_seq) == (8_030_261_248, 64)
    known = model.provenance["layers"]
    assert (known.value_text, known.confidence) == ("32", "user")
    assert known.source.endswith("mine.yaml:3")


def test_entries_are_values(tmp_path):
    device = catalog.load().accelerator("h100")
    faster = replace(device, memory_bps=device.memory_bps * 2)
    assert faster != device
    assert {device, faster, replace(device)} == {device, faster}


# What must hold between the fields of an entry: each rule alone, broken in an entry that was sound.

KNOWN = catalog.load()
ENTRIES = {
    "accelerator": KNOWN.accelerator("h100-sxm"),
    "server": KNOWN.server("hgx-h100"),
    "nic": KNOWN.nic("bf3-400g"),
    "switch": KNOWN.switch("jericho3-ai-leaf"),
    "cable": KNOWN.cable("aec-400g"),
    "storage": KNOWN.storage("ddn-ai400x2"),
    "model": KNOWN.model("mixtral-8x7b"),
}
POSITIVE = {
    "accelerator": {
        "memory_bytes": "memory", "memory_bps": "memory_bandwidth", "scale_up_domain": "scale_up_domain",
        "tdp_w": "tdp", "gemm_efficiency": "gemm_efficiency", "memory_efficiency": "memory_efficiency",
        "attention_efficiency": "attention_efficiency", "gemm_efficiency_8bit": "gemm_efficiency_8bit",
    },
    "server": {
        "accelerators": "accelerators", "scale_up_domain": "scale_up_domain", "nics": "nics",
        "pcie_bps": "pcie_bandwidth", "numa_nodes": "numa_nodes", "host_memory_bytes": "host_memory",
    },
    "nic": {"rate_bps": "rate", "ports": "ports"},
    "switch": {"capacity_bps": "capacity", "port_rate_bps": "port_rate", "ports": "ports"},
    "cable": {"rate_bps": "rate", "reach_m": "reach", "delay_s_per_m": "delay"},
    "storage": {"read_bps": "read_bandwidth", "write_bps": "write_bandwidth", "capacity_bytes": "capacity"},
    "model": {
        "layers": "layers", "hidden": "hidden", "heads": "heads", "kv_heads": "kv_heads", "head_dim": "head_dim",
        "vocab": "vocab", "max_seq": "max_seq", "moe_every": "moe_every", "sliding_every": "sliding_every",
        "experts_per_token": "experts_per_token", "moe_ffn": "moe_ffn",
    },
}  # fmt: skip


@pytest.mark.parametrize("entry", list(ENTRIES.values()), ids=list(ENTRIES))
def test_what_is_committed_is_sound(entry):
    assert check(entry) == []


@pytest.mark.parametrize(
    ("kind", "attribute", "key"), [(kind, *pair) for kind, pairs in POSITIVE.items() for pair in pairs.items()]
)
def test_what_must_be_more_than_zero(kind, attribute, key):
    """By the range of its record, which the reader checks first, or by a rule, and not by both."""
    entry = ENTRIES[kind]
    ruled = (key, "must be more than zero") in check(replace(entry, **{attribute: 0}))
    limits = records(type(entry))[attribute].bounds
    assert ruled == (limits is None or limits.holds(0))


@pytest.mark.parametrize(
    ("kind", "changes", "finding"),
    [
        ("accelerator", {"flops": {"fp8": 1e15}}, ("flops", "must hold bf16 or fp16")),
        (
            "accelerator",
            {"scale_up_collective_bps": 3.7e12},
            ("scale_up_collective_bandwidth", "must not exceed scale_up_bandwidth"),
        ),
        (
            "accelerator",
            {"scale_up_bps": 0.0, "scale_up_collective_bps": 0.0},
            ("scale_up_bandwidth", "must be more than zero in a scale-up domain of more than one accelerator"),
        ),
        ("server", {"nic_numa": (0, 1)}, ("nic_numa", "must name a memory domain for each of the 8 NICs")),
        ("server", {"numa_nodes": 1}, ("numa_nodes", "is not enough for the memory domains named")),
        (
            "server",
            {"scale_up_domain": 3},
            ("scale_up_domain", "must divide the server's accelerators or be a multiple of them"),
        ),
        ("model", {"kv_heads": 5}, ("kv_heads", "must divide heads (32)")),
        ("model", {"experts_per_token": 9}, ("experts_per_token", "must not exceed experts (8)")),
        ("model", {"moe_every": 2, "ffn": 0}, ("ffn", "must be more than zero where a layer has no experts")),
    ],
)
def test_what_must_hold_between_fields(kind, changes, finding):
    assert finding in check(replace(ENTRIES[kind], **changes))


def test_a_domain_may_be_a_multiple_of_a_server():
    """Racks of 72 by servers of 4: 72 = 18 x 4, and 24 = 3 x 8 of an eight-way server."""
    assert check(replace(ENTRIES["server"], scale_up_domain=24)) == []


def test_ports_of_a_switch_carry_no_more_than_it_switches():
    switch = replace(ENTRIES["switch"], ports=64, max_ports=64, port_rate_bps=8e11, capacity_bps=51.2e12)
    assert check(switch) == []
    assert ("ports", "times port_rate must not exceed capacity") in check(replace(switch, capacity_bps=51.1e12))
    assert ("max_ports", "must be at least ports") in check(replace(switch, max_ports=63))
