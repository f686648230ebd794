"""Recipes behind published runs: facts that a table of results leaves out, from the files that were run.

`data/bridge_recipes.csv` has NVIDIA's performance recipes for Megatron-Bridge, release by release;
`data/mlperf_v5.1_configs.csv` the configuration files of MLPerf Training v5.1's Llama 3.1 submissions; `_NEMO` what
all submissions to v6.0 with NVIDIA NeMo share. A row of results is completed from the recipe that is nearest to it;
what the row says itself stands.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railyard_validation.training.table import Row

_DATA = Path(__file__).parents[1] / "data"
# Names of models on results pages, and in the recipes.
_MODELS = (
    (r"deepseek.*v3", "deepseek-v3"),
    (r"deepseek.*v4.*flash", "deepseek-v4-flash"),
    (r"deepseek.*v4.*pro", "deepseek-v4-pro"),
    (r"gpt.?oss.*120", "gpt-oss-120b"),
    (r"gpt.?oss.*20", "gpt-oss-20b"),
    (r"kimi", "kimi-k2"),
    (r"qwen.?3.*235", "qwen3-235b-a22b"),
    (r"qwen.?3.*next", "qwen3-next-80b-a3b"),
    (r"qwen.?3.*30b", "qwen3-30b-a3b"),
    (r"llama-2.*70", "llama-2-70b"),
    (r"llama.*405", "llama-3.1-405b"),
    (r"llama.*70", "llama-3-70b"),
    (r"llama.*8b", "llama-3-8b"),
)
# Widths of a precision on the pages, most telling first.
_PRECISIONS = (
    (r"nvfp4|fp4", ("nvfp4",)),
    (r"fp8-?cs|fp8.*current", ("fp8-cs",)),
    (r"mxfp8|fp8-?mx", ("fp8-mx",)),
    (r"fp8", ("fp8-cs", "fp8-mx", "fp8-ds", "fp8-sc")),
    (r"bf16", ("bf16",)),
)
# What a difference in each size counts when the nearest recipe is sought; other stages mean another memory plan.
_WEIGHTS = {"pp": 4.0, "ep": 3.0, "tp": 4.0, "vp": 2.0, "cp": 2.0, "micro_batch": 2.0, "gpus": 0.5}
_WEIGHTS |= {"global_batch": 0.25}
_CELLS = {"gpus": "n_gpu", "global_batch": "global_batch_seqs"}


@dataclass(frozen=True)
class Recipe:
    """What a recipe says of a run.

    Attributes:
        name: Of the recipe, with its release.
        precision: Of the products: `bf16`, `fp8` or `nvfp4`; "" where the recipe does not say.
        sizes: `tp`, `pp`, `vp`, `cp`, `ep`, `micro_batch`.
        dispatcher: `alltoall`, `deepep` or `hybridep`; "" without experts.
        graphs: Scopes recorded as CUDA graphs.
        recompute: Modules that the backward pass computes again.
        overlap_expert: The all-to-all runs under another micro-batch.
        sharded: Parameters are sharded (Megatron-FSDP).
        fused_experts: Grouped products, activation and casts are one kernel.
        fused_loss: One kernel for the loss.
        eight_bit_attention: Products of the attention core are in 8 bits.
        bucket_parameters: Parameters whose gradients one reduction carries; 0 where the recipe does not say.
        unbalanced: No loss and no bias balances the router.
        offload_layers: Layers whose activations wait in the host's memory.
        differs: Sizes in which the row differs from the recipe.
    """

    name: str
    precision: str
    sizes: dict[str, int]
    dispatcher: str = ""
    graphs: tuple[str, ...] = ()
    recompute: tuple[str, ...] = ()
    overlap_expert: bool = False
    sharded: bool = False
    fused_experts: bool = False
    fused_loss: bool = False
    eight_bit_attention: bool = False
    bucket_parameters: int = 0
    unbalanced: bool = False
    offload_layers: int = 0
    differs: tuple[str, ...] = ()

    def line(self) -> str:
        """What was taken from it, to be named among the defaults of a row."""
        parts = [f"recipe {self.name}"]
        if self.differs:
            parts.append("which differs in " + ", ".join(self.differs))
        facts = [f"dispatcher {self.dispatcher}"] if self.dispatcher else []
        facts += [f"graphs of {'+'.join(self.graphs)}"] if self.graphs else []
        facts += [f"recomputes {'+'.join(self.recompute)}"] if self.recompute else []
        facts += ["experts' exchange overlapped"] if self.overlap_expert else []
        facts += ["8-bit attention"] if self.eight_bit_attention else []
        facts += [f"buckets of {self.bucket_parameters:,} parameters"] if self.bucket_parameters else []
        facts += ["router not balanced"] if self.unbalanced else []
        facts += [f"activations of {self.offload_layers} layers in host memory"] if self.offload_layers else []
        return ", ".join(parts) + (": " + ", ".join(facts) if facts else "")


# What the configurations of all systems of one benchmark say: NVIDIA's MLPerf Training v5.0 `config_common.sh` of
# llama2_70b_lora (`FP8_DPA=1`), v6.0's of gpt_oss_20b (`BUCKET_SIZE=768000000`), its `conf/gpt_oss.yaml`
# (`moe_router_load_balancing_type: none`, `hybridep`) and each system's `NVTE_CUTEDSL_FUSED_GROUPED_MLP=1`.
_NEMO = {
    "llama-2-70b": Recipe("MLPerf's llama2_70b_lora", "", {}, eight_bit_attention=True),
    "gpt-oss-20b": Recipe(
        "MLPerf's gpt_oss_20b",
        "",
        {},
        dispatcher="hybridep",
        fused_experts=True,
        bucket_parameters=768_000_000,
        unbalanced=True,
    ),
}


def recipe_of(row: Row) -> Recipe | None:
    """The recipe behind a row of a Megatron-Bridge page or of MLPerf Training, or None where there is none."""
    source = row.get("source_doc")
    if "MLPerf Training v5.1" in source:
        return _mlperf(row, source)
    if "MLPerf Training v6.0" in source and "NVIDIA NeMo" in row.get("framework"):
        return _NEMO.get(_model(row))
    if "Megatron-Bridge performance" in source or re.search(r"Megatron-Bridge \d\d\.\d\d", row.get("framework")):
        return _bridge(row)
    return None


def _bridge(row: Row) -> Recipe | None:
    model, gpu = _model(row), _gpu(row.get("gpu"))
    widths = next((found for pattern, found in _PRECISIONS if re.search(pattern, row.get("precision").lower())), ())
    near = [
        known
        for known in _table("bridge_recipes.csv")
        if known["model"] == model and known["gpu"] == gpu and known["precision"] in widths
    ]
    if not near:
        return None
    release = re.search(r"\b(2\d\.\d\d(?:\.\d\d)?)\b", f"{row.get('framework')} {row.get('source_doc')}")
    wanted = release.group(1) if release else ""
    # Software first, then sizes: those are in the row itself.
    chosen = min(near, key=lambda known: (_apart(known["release"], wanted), _distance(row, known)))
    differs = _differs(row, chosen)
    graphs = {"none": (), "full_iteration": ("full",), "local": ("layer",)}.get(chosen["graphs"])
    return Recipe(
        name=f"{chosen['name']} of Megatron-Bridge {chosen['release'].split(';')[0]}",
        precision=chosen["precision"].split("-")[0],
        sizes=_sizes(chosen),
        dispatcher=chosen["dispatcher"],
        graphs=tuple(_words(chosen["graph_scope"])) if graphs is None else graphs,
        recompute=tuple(_words(chosen["recompute"])),
        overlap_expert=chosen["ep_overlap"] == "1",
        sharded=chosen["fsdp"] == "1",
        fused_experts=chosen["fused_grouped_mlp"] == "1",
        fused_loss=True,
        eight_bit_attention=chosen["fp8_attention"] == "1",
        offload_layers=int(chosen["offload_layers"] or 0),
        differs=differs,
    )


def _mlperf(row: Row, source: str) -> Recipe | None:
    named = re.search(r"\(([^,]+),\s*([^)]+)\)", source)
    size = "8b" if _model(row) == "llama-3-8b" else "405b" if _model(row) == "llama-3.1-405b" else ""
    if not named or not size:
        return None
    submitter, system = named.group(1).strip(), named.group(2).strip()
    gpu = _gpu(row.get("gpu"))
    near = [
        known
        for known in _table("mlperf_v5.1_configs.csv")
        if known["benchmark"] == f"llama31_{size}"
        and known["submitter"] == submitter
        and int(known["gpus"]) == row.integers.get("n_gpu")
        and known["gpu"] in ("", gpu)
    ]
    cited = row.get("source_loc")
    short = re.sub(r"^\d+x|-.*$", "", system)
    ranked = sorted(
        near,
        key=lambda known: (
            system not in known["file"],
            short not in known["file"],
            Path(known["file"]).name not in cited,
        ),
    )
    if not ranked:
        return None
    best = ranked[0]
    told = any(part in best["file"] for part in (system, short)) or Path(best["file"]).name in cited or len(near) == 1
    if not told:
        return None
    graphs = {"none": ()}.get(best["graphs"], (best["graphs"],))
    return Recipe(
        name=best["file"],
        precision=best["precision"],
        sizes=_sizes(best),
        graphs=graphs,
        fused_loss=best["fused_loss"] == "1",
        eight_bit_attention=best["fp8_attention"] == "1",
        differs=tuple(name for name in _differs(row, best) if name not in ("gpus", "global_batch")),
    )


@cache
def _table(name: str) -> list[dict[str, str]]:
    with (_DATA / name).open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def _words(text: str) -> list[str]:
    return text.split("+") if text else []


def _model(row: Row) -> str:
    name = row.get("model").lower()
    return next((known for pattern, known in _MODELS if re.search(pattern, name)), "")


def _gpu(name: str) -> str:
    found = re.search(r"gb300|gb200|vr200|b300|b200|h200|h100", name.lower())
    if found:
        # MLPerf writes "NVIDIA Blackwell Ultra GPU (GB300)"; the bracket tells the board.
        return found.group(0)
    return ""


def _sizes(known: dict[str, str]) -> dict[str, int]:
    names = ("tp", "pp", "vp", "cp", "ep", "micro_batch")
    return {name: int(known[name]) for name in names if known.get(name, "").isdigit()}


def _said(row: Row, name: str) -> int | None:
    if name == "vp":
        text = row.get("vpp")
        return int(text) if text.isdigit() else None
    return row.integers.get(_CELLS.get(name, name))


def _differs(row: Row, known: dict[str, str]) -> tuple[str, ...]:
    told = {name: _said(row, name) for name in _WEIGHTS}
    return tuple(
        name
        for name, value in told.items()
        if value is not None and known.get(name, "").isdigit() and value != int(known[name])
    )


def _distance(row: Row, known: dict[str, str]) -> float:
    return sum(_WEIGHTS[name] for name in _differs(row, known))


def _apart(releases: str, wanted: str) -> float:
    """How far the nearest of a recipe's releases lies from that of the row, in years."""
    if not wanted:
        return 0.0
    return min(abs(_date(release) - _date(wanted)) for release in releases.split(";"))


def _date(release: str) -> float:
    year, month, *rest = (int(part) for part in release.split("."))
    return year + month / 12.0 + (0.02 * rest[0] if rest else 0.0)
