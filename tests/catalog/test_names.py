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
