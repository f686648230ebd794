"""Layouts that ran in public: they fit, a refusal says what would fit, and keys that are left out get likely values."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard_validation.trials.layouts import scenario
from railyard_validation.trials.trial import Case, Trial, trials

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from railyard_validation.trials.trial import Output

_DATA = Path(__file__).parents[1] / "data"
SERVERS = {"h100": "hgx-h100", "b200": "hgx-b200", "b300": "hgx-b300", "gb200": "gb200-nvl72", "gb300": "gb300-nvl72"}
MODELS = {"llama-3.1-405b": "llama-3-405b", "llama31_405b": "llama-3-405b", "llama31_8b": "llama-3-8b"}
_CATALOGUED = (
    "deepseek-v3",
    "qwen3-235b-a22b",
    "llama-3.1-405b",
    "llama-3-70b",
    "qwen3-30b-a3b",
    "gpt-oss-120b",
    "kimi-k2",
)
# Sequences of the benchmarks, where the recipe's own file does not say.
_SEQUENCE = {"llama-3.1-405b": 8192, "llama-3-70b": 8192, "llama-3-8b": 8192, "llama31_405b": 8192, "llama31_8b": 8192}
_MOST_ACCELERATORS = 512


def _rows(name: str) -> list[dict[str, str]]:
    with (_DATA / name).open(encoding="utf-8", newline="") as handle:
        return [
            row for row in csv.DictReader(handle) if row["gpu"] in SERVERS and int(row["gpus"]) <= _MOST_ACCELERATORS
        ]


def _bridge(draw: np.random.Generator) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A performance recipe of Megatron-Bridge: its name, its cluster and its job."""
    rows = [row for row in _rows("bridge_recipes.csv") if row["model"] in _CATALOGUED and int(row["gpus"]) >= 8]
    row = rows[int(draw.integers(len(rows)))]
    layout: dict[str, Any] = {key: int(row[key]) for key in ("tp", "pp", "vp", "cp", "ep", "micro_batch")}
    layout |= {"zero": 3} if row["fsdp"] == "1" else {"zero": 1}
    if row["recompute"]:
        layout["recompute_modules"] = row["recompute"].split("+")
    if row["offload_layers"] not in ("", "0"):
        layout["offload_layers"] = int(row["offload_layers"])
    if row["ep_overlap"] == "1":
        layout["overlap_expert"] = True
    release = row["release"].split(";")[0]
    generation = f"megatron-20{release[:2]}"
    return f"{row['name']} of {release}", _cluster(row), _job(row, layout, generation)


def _automodel(draw: np.random.Generator) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A benchmark of NeMo AutoModel."""
    rows = _rows("automodel_recipes.csv")
    row = rows[int(draw.integers(len(rows)))]
    layout: dict[str, Any] = {key: int(row[key]) for key in ("tp", "pp", "vp", "cp", "ep", "micro_batch")}
    layout |= {"zero": 3, "recompute": row["recompute"], "reshard": row["reshard"] == "1"}
    return row["config"], _cluster(row), _job(row, layout, "automodel-2025")


def _mlperf(draw: np.random.Generator) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A configuration of MLPerf Training v5.1."""
    rows = [row for row in _rows("mlperf_v5.1_configs.csv") if row["benchmark"] == "llama31_405b"]
    row = rows[int(draw.integers(len(rows)))]
    layout = {key: int(row[key]) for key in ("tp", "pp", "vp", "cp", "micro_batch")} | {"zero": 1}
    replicas = int(row["gpus"]) // (layout["tp"] * layout["pp"] * layout["cp"])
    batch = {"global_batch": str(replicas * int(row["mini_batch"])), "model": row["benchmark"]}
    return Path(row["file"]).name, _cluster(row), _job({**row, **batch}, layout, "megatron-2025")


def _cluster(row: dict[str, str]) -> dict[str, Any]:
    network = {"topology": {"kind": "rail-optimized"}, "fabric": "infiniband"}
    return {"accelerators": int(row["gpus"]), "server": SERVERS[row["gpu"]], "back_end": network}


def _job(row: dict[str, str], layout: dict[str, Any], software: str) -> dict[str, Any]:
    narrow = row["precision"].split("-")[0]
    return {
        "model": MODELS.get(row["model"], row["model"]),
        "global_batch": int(row["global_batch"]),
        "sequence": int(row.get("sequence") or _SEQUENCE.get(row["model"], 4096)),
        "precision": "fp4" if narrow == "nvfp4" else narrow or "bf16",
        "software": software,
        "parallelism": layout,
    }


# Facts of the papers and their repositories: arXiv 2407.21783 table 4, 2412.19437 section 3, 2205.05198 table 3.
_PAPERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "Llama 3 405B on 8,192 H100": (
        {"accelerators": 8192, "server": "grand-teton-h100"},
        {"model": "llama-3-405b", "global_batch": 2048, "sequence": 8192, "precision": "bf16", "software": "meta-2024"}
        | {"parallelism": {"tp": 8, "pp": 16, "vp": 8, "micro_batch": 1, "zero": 2}},
    ),
    "DeepSeek-V3 on 2,048 H800": (
        {"accelerators": 2048, "server": "hgx-h800"},
        {
            "model": "deepseek-v3",
            "global_batch": 15360,
            "sequence": 4096,
            "precision": "fp8",
            "software": "hai-llm-2024",
        }
        | {
            "parallelism": {"pp": 16, "ep": 64, "micro_batch": 1, "zero": 1, "schedule": "dualpipe"}
            | {"overlap_expert": True, "recompute_modules": ["layernorm", "mla_up_proj"]}
        },
    ),
    "Megatron 530B on 280 A100": (
        {"accelerators": 280, "server": "dgx-a100"},
        {"model": "megatron-529.6b", "global_batch": 280, "sequence": 2048, "precision": "bf16"}
        | {"software": "megatron-2021"}
        | {"parallelism": {"tp": 8, "pp": 35, "vp": 3, "micro_batch": 1, "zero": 0, "recompute": "selective"}},
    ),
}


def _published_fits(draw: np.random.Generator, folder: Path) -> Case:
    cases = [maker(draw) for maker in (_bridge, _bridge, _automodel, _mlperf)]
    name = str(draw.choice(list(_PAPERS)))
    network = {"topology": {"kind": "rail-optimized"}, "fabric": "infiniband"}
    cluster, training = _PAPERS[name]
    # Sixteen steps' worth of the batch fills the pipeline as the whole does.
    small = {**training, "global_batch": min(training["global_batch"], 8 * cluster["accelerators"])}
    cases.append((name, {**cluster, "back_end": network}, small))
    files = [scenario(folder, f"ran-{n}", one[1], one[2], "analytic") for n, one in enumerate(cases)]
    commands = [["run", file, "--json", "-q"] for file in files]

    def judge(outputs: Sequence[Output]) -> list[str]:
        return [
            f"{name}: {output.words[:300]}" for (name, _, _), output in zip(cases, outputs, strict=True) if output.code
        ]

    return Case("; ".join(name for name, _, _ in cases), commands, judge)


def _left_out(draw: np.random.Generator, folder: Path) -> Case:
    """A recipe without its virtual stages, micro-batch or software: chosen and named, or inside a wider band."""
    while True:
        name, cluster, training = (_bridge, _mlperf)[int(draw.integers(2))](draw)
        layout = training["parallelism"]
        if layout["pp"] > 1 and layout["vp"] > 1 and layout["zero"] == 1:
            break
    gone = [str(one) for one in draw.choice(["vp", "micro_batch", "software"], 2, replace=False)]
    left = {key: value for key, value in layout.items() if key not in gone}
    silent = {key: value for key, value in training.items() if key not in gone} | {"parallelism": left}
    files = [
        scenario(folder, "whole", cluster, training, "analytic"),
        scenario(folder, "silent", cluster, silent, "analytic"),
    ]

    def judge(outputs: Sequence[Output]) -> list[str]:
        whole, silent = (one.data for one in outputs)
        band = next(row for row in silent["variants"][0]["model_error"] if row["figure"] == "step_s")
        step = whole["variants"][0]["step"]["seconds"]
        problems = []
        if not band["low"] <= step <= band["high"]:
            problems.append(f"the recipe's step of {step:.4g} s is outside {band['low']:.4g} to {band['high']:.4g} s")
        said = " ".join(silent["provenance"]["defaults"]).lower()
        wanted = {"vp": r"\bvp\b|virtual", "micro_batch": r"micro[-_]batch", "software": "software"}
        problems += [f"{key} is chosen without a warning" for key in gone if not re.search(wanted[key], said)]
        return problems

    return Case(f"{name} without {' and '.join(gone)}", [["run", file, "--json", "-q"] for file in files], judge)


def _refused(draw: np.random.Generator, folder: Path) -> Case:
    """A layout that is too large: the refusal has keys that fit when they are typed."""
    model, ranks, layout = [
        ("llama-3-70b", 64, {"tp": 8, "pp": 1, "zero": 1, "micro_batch": 4}),
        ("llama-3-70b", 32, {"tp": 4, "pp": 4, "vp": 5, "zero": 1, "micro_batch": 2}),
        ("llama-3-8b", 8, {"tp": 1, "zero": 1, "micro_batch": 2}),
        ("mixtral-8x7b", 32, {"pp": 4, "ep": 8, "micro_batch": 4}),
        ("qwen3-30b-a3b", 16, {"ep": 8, "micro_batch": 4, "zero": 1}),
        ("llama-2-13b", 8, {"tp": 2, "micro_batch": 4}),
    ][int(draw.integers(6))]
    cluster = {
        "accelerators": ranks,
        "server": "hgx-h100",
        "back_end": {"topology": "rail-optimized", "fabric": "roce"},
    }
    training = {
        "model": model,
        "global_batch": 8 * ranks,
        "sequence": int(draw.choice([8192, 16384])),
        "parallelism": layout,
    }
    file = scenario(folder, "tight", cluster, training, "analytic")
    run = ["run", file, "--json", "-q"]
    keys = "`(parallelism|recompute|recompute_modules): ([^`]*)`"

    def then(outputs: Sequence[Output]) -> list[list[str]]:
        found = re.search(keys, outputs[0].words)
        if found is None:
            return []
        place = "" if found.group(1) == "parallelism" else f".{found.group(1)}"
        return [[*run, "--set", f"workload.training.parallelism{place}={found.group(2)}"]]

    def judge(outputs: Sequence[Output]) -> list[str]:
        if outputs[0].code == 0:
            return []
        if len(outputs) < 2:
            return [f"no layout to type in: {outputs[0].words[:300]}"]
        return [f"the layout of the refusal: {outputs[1].words[:300]}"] if outputs[1].code else []

    return Case(f"{model} on {ranks} H100, {json.dumps(layout)}", [run], judge, then=then)


trials.add("published-fits", Trial("published-fits", "what ran in public is not refused", _published_fits))
trials.add("published-left-out", Trial("published-left-out", "keys left out: a likely value and a word", _left_out))
trials.add("memory-refusal", Trial("memory-refusal", "a refusal has a layout to type in that fits", _refused))
