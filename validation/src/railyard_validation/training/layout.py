"""The layout and the software of a row: parallelism, micro-batch, recomputation, overlap, and the profile."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from railyard.ask.calibrate.kinds import training
from railyard.kit.errors import InputError
from railyard.work.training import profiles
from railyard.work.training.layout import auto, check
from railyard.work.training.likely import likely
from railyard.work.training.memory import memory
from railyard.work.training.parameters import supports
from railyard.work.training.spec import DISPATCHERS, GRAPH_SCOPES, RECOMPUTE_MODULES, Layout, Training
from railyard_validation.training.generation import profile_name

if TYPE_CHECKING:
    from railyard.catalog import Accelerator, Model
    from railyard.model.machine import Machine
    from railyard.work.training.spec import Precision, Recompute, Schedule, SoftwareProfile
    from railyard_validation.training.recipes import Recipe
    from railyard_validation.training.table import Row

# Columns that have a grammar of their own here, beside those that are keys of a scenario.
_OWN = frozenset({"tp", "pp", "dp", "cp", "ep", "micro_batch", "recompute"})


def precision_of(row: Row, device: Accelerator, defaults: list[str], recipe: Recipe | None = None) -> Precision:
    """Width of the GEMM operands; 16 bits where the row names one for which its device has no units.

    A recipe's own width counts where the row says that its own is inferred.
    """
    named = _named_precision(row, defaults)
    if recipe and recipe.precision and _guessed(row):
        found: Precision = "fp4" if recipe.precision == "nvfp4" else "fp8" if recipe.precision == "fp8" else "bf16"
        if found != named:
            defaults.append(f"{found} products, as in the recipe; the row's {named} is inferred")
        named = found
    if supports(named, device):
        return named
    defaults.append(f"bf16 products: {device.name} has no units for {named}")
    return "bf16"


def _guessed(row: Row) -> bool:
    return "precision" in row.get("missing_facts") and "inferred" in row.get("missing_facts")


def _named_precision(row: Row, defaults: list[str]) -> Precision:
    text = row.get("precision").lower()
    if not text:
        defaults.append("precision fp16")
        return "fp16"
    if "fp4" in text:
        return "fp4"
    if "fp8" in text or "float8" in text or "e4m3" in text:
        return "fp8"
    if "int8" in text:
        defaults.append("bf16 products (the share of int8 ones is unknown)")
    elif not re.search(r"bf16|bfloat16|fp16|float16|half|mixed|amp", text):
        defaults.append(f"bf16 products: precision `{row.get('precision')}` is not modelled")
    return "fp16" if re.search(r"\b(?:fp16|float16|half)\b", text) else "bf16"


def software_of(
    row: Row, device: Accelerator, recipe: Recipe | None = None, defaults: list[str] | None = None
) -> SoftwareProfile:
    """The profile of the row's software generation on its device, with the switches that its recipe or row names."""
    told = [] if defaults is None else defaults
    found = profiles.profile(profile_name(row, device, told), device)
    if found.architecture and not profiles.read_on(found, device):
        told.append(f"constants of {found.name} as read on {found.architecture}, not on {device.name}")
    changes: dict[str, object] = {}
    # Megatron-Bridge's recipes for the DeepSeek family (DeepSeek-V2 and V3, Kimi K2, Moonlight): precision-aware
    # optimizer, both moments in 16 bits.
    if "Megatron-Bridge" in row.get("framework") and row.get("kv_heads").startswith("MLA"):
        changes["moment_bytes"] = 2
    # Transformer Engine, `is_non_tn_fp8_gemm_supported`: with one scale a tensor, Blackwell needs no transposed copy.
    if device.architecture.startswith("blackwell") and "mx" not in row.get("precision").split("(")[0].lower():
        changes["narrow_parameter_bytes"] = 1.0
    # NVIDIA's containers up to 25.04 came with a Transformer Engine that kept no placeholders of weight gradients.
    release = re.search(r"\b(2\d)\.(\d\d)\b", row.get("framework"))
    if release and (int(release.group(1)), int(release.group(2))) <= (25, 4):
        changes["keeps_placeholders"] = False
    if re.search(r"row-?wise", f"{row.get('precision')} {row.get('framework')} {row.get('notes')}".lower()):
        changes["fp8_scaling"] = "row"
    if recipe:
        changes |= {"graphs": recipe.graphs, "fused_experts": recipe.fused_experts}
        changes |= {"attention_precision": "fp8"} if recipe.eight_bit_attention else {}
        changes |= {"dispatcher": recipe.dispatcher} if recipe.dispatcher else {}
        changes |= {"fused_loss": True} if recipe.fused_loss else {}
    said = f"{row.get('overlap_notes')} {row.get('notes')}".lower()
    named = next((kind for kind in DISPATCHERS if kind in said), "")
    changes |= {"dispatcher": named} if named else {}
    if re.search(r"8-bit attention|fp8attn|fp8_dpa", said):
        changes["attention_precision"] = "fp8"
    scopes = tuple(scope for scope in GRAPH_SCOPES if re.search(rf"\b{scope}\b", said))
    if "graphs" in said and "no cuda graphs" not in said:
        changes["graphs"] = scopes or recipe.graphs if recipe else scopes
    changes |= training.of_software(row.text)
    return dataclasses.replace(found, **changes) if changes else found  # type: ignore[arg-type]


def layout_of(
    row: Row,
    model: Model,
    machine: Machine,
    software: SoftwareProfile,
    defaults: list[str],
    *,
    recipe: Recipe | None = None,
) -> Layout:
    """The layout of a row; a default is named for each fact that the table leaves open.

    What was run had memory for it: virtual stages, micro-batch and recomputation that the row does not state are those
    of the fastest layout that fits, and where a row that was typed off a page does not fit, its recipe counts more.

    Args:
        row: Of the table; columns that are keys of a scenario's `parallelism` count last.
        model: Its architecture.
        machine: Its machine, for the choice of a layout where the table names none.
        software: Its profile, for the same.
        defaults: Receives a line for each fact that had to be assumed.
        recipe: What was run, where its files are known; the row's own cells count more.

    Raises:
        InputError: The parallel sizes are unknown and cannot be guessed, or do not multiply out to the accelerators.
    """
    row = _completed(row, recipe)
    if "tp" not in row.integers and "pp" not in row.integers:
        return _chosen(row, model, machine, software, defaults)
    precision = precision_of(row, machine.accelerator, [])
    told: list[str] = []
    job = Training(
        model=model,
        layout=_written(row, told, recipe),
        seq_len=row.integers["seq_len"],
        software=software,
        precision=precision,
    )
    left_out = _left_out(row, job.layout, recipe)
    found = likely(job, machine, left_out).training.layout
    check(model, found, job.seq_len, row.integers["n_gpu"])
    if recipe is not None and recipe.differs and not memory(job.replace(layout=found), machine.accelerator).fits:
        defaults.append(f"{', '.join(recipe.differs)} of the recipe: the row's do not fit")
        return layout_of(
            _as_recipe(row, recipe), model, machine, software, defaults, recipe=dataclasses.replace(recipe, differs=())
        )
    named = {
        "vp": f"{found.vp} virtual stage{'s' if found.vp > 1 else ''} a rank: near the fastest that fits",
        "micro_batch": f"micro-batch {found.micro_batch}: the fastest that fits",
        "recompute": f"recomputation ({_again(found)}): the least that fits",
    }
    defaults += [*told, *(words for name, words in named.items() if name in left_out)]
    return found


def _again(layout: Layout) -> str:
    return ", ".join(layout.recompute_modules) or layout.recompute


def _left_out(row: Row, layout: Layout, recipe: Recipe | None) -> set[str]:
    """What neither the row nor its recipe says of its layout."""
    silent = {
        "vp": layout.pp > 1 and layout.schedule != "dualpipe" and not row.get("vpp"),
        "micro_batch": "micro_batch" not in row.integers,
        "recompute": recipe is None and not row.get("recompute") and not _hai(row),
    }
    return {name for name, left in silent.items() if left}


def _as_recipe(row: Row, recipe: Recipe) -> Row:
    """The row with the recipe's sizes in place of its own."""
    sizes = {name: size for name, size in recipe.sizes.items() if name != "vp"}
    text = {**row.text, **({"vpp": str(recipe.sizes["vp"])} if "vp" in recipe.sizes else {})}
    integers = {**row.integers, **sizes}
    integers.pop("dp", None)
    return dataclasses.replace(row, text=text, integers=integers)


def _written(row: Row, defaults: list[str], recipe: Recipe | None) -> Layout:
    """The layout as far as the row and its recipe say it."""
    row = _with_both(row, defaults)
    sizes = {name: _size(row, name, defaults) for name in ("tp", "pp", "cp", "ep")}
    ranks = row.integers["n_gpu"]
    rest = sizes["tp"] * sizes["pp"] * sizes["cp"]
    dp = row.integers.get("dp", ranks // rest)
    if rest * dp != ranks:
        if ranks % (rest * dp) or "treat DP as given" not in row.get("notes"):
            text = f"tp x pp x cp x dp = {rest * dp}, not the {ranks} accelerators of the run"
            raise InputError(text, key="dp", found=dp)
        sizes["cp"] *= ranks // (rest * dp)
        defaults.append(f"context parallel {sizes['cp']}, so that the product is the number of accelerators")
    batch = row.integers["global_batch_seqs"]
    if batch < dp or batch % dp:
        raise InputError(
            f"the global batch of {batch} sequences does not divide over {dp} data-parallel replicas",
            key="global_batch_seqs",
        )
    vp = _virtual(row, sizes["pp"], defaults)
    micro = _micro_batch(row, batch // dp, sizes["pp"], defaults)
    zero, shard = _zero(row, defaults)
    sequence = row.get("seq_parallel", "1" if sizes["tp"] > 1 else "0") == "1"
    if "seq_parallel" not in row.text and sizes["tp"] > 1:
        defaults.append("sequence parallel with tensor parallel")
    overlap = row.get("overlap_notes")
    modern = zero > 0
    return Layout(
        global_batch=batch,
        dp=dp,
        vp=vp,
        micro_batch=micro,
        zero=zero,
        fsdp_shard=shard,
        reshard=sizes["pp"] == 1,
        sequence_parallel=sequence,
        schedule=_schedule(row, vp),
        recompute=_recompute(row, defaults),
        recompute_modules=_modules(row, recipe),
        recompute_share=0.5 if _keeps_every_second(row) else 1.0,
        bucket_bytes=_bucket_bytes(row, recipe),
        recompute_by_operator=_keeps_every_second(row),
        offload_layers=recipe.offload_layers if recipe else 0,
        overlap_gradient=modern,
        overlap_parameter=modern,
        overlap_tensor=_overlap_tensor(row, overlap),
        overlap_expert=_overlap_expert(row, overlap, recipe),
        context_heads="CP a2a" in overlap,
        **sizes,
    ).replace(**training.of_layout(row.text, _OWN))


def _bucket_bytes(row: Row, recipe: Recipe | None) -> int:
    if "bucket_mb" in row.real or recipe is None:
        return round(1e6 * row.real.get("bucket_mb", 0.0))
    return recipe.bucket_parameters * _GRADIENT_BYTES


def _completed(row: Row, recipe: Recipe | None) -> Row:
    """The row with the recipe's sizes where its own cells are empty."""
    if recipe is None:
        return row
    sizes = {name: size for name, size in recipe.sizes.items() if name != "vp" and name not in row.integers}
    text = dict(row.text)
    if "vp" in recipe.sizes and not row.get("vpp"):
        text["vpp"] = str(recipe.sizes["vp"])
    if recipe.sharded and "fsdp_zero" not in row.text:
        text["fsdp_zero"] = "FSDP"
    return dataclasses.replace(row, text=text, integers={**row.integers, **sizes})


def _modules(row: Row, recipe: Recipe | None) -> tuple[str, ...]:
    said = row.get("recompute")
    if _hai(row) and not said:
        return ("layernorm", "mla_up_proj")  # DeepSeek-V3 report, section 3.2.3
    if said:
        return tuple(module for module in re.split(r"[,;+ ]+", said) if module in RECOMPUTE_MODULES)
    return recipe.recompute if recipe else ()


def _chosen(row: Row, model: Model, machine: Machine, software: SoftwareProfile, defaults: list[str]) -> Layout:
    """The fastest layout that fits, where the table does not say how the run was laid out."""
    found = auto(
        model,
        machine,
        row.integers["n_gpu"],
        global_batch=row.integers["global_batch_seqs"],
        seq_len=row.integers["seq_len"],
        software=software,
        precision=precision_of(row, machine.accelerator, []),
        fixed={"micro_batch": row.integers["micro_batch"]} if "micro_batch" in row.integers else None,
    )
    defaults.append(f"layout unknown; taken: the fastest that fits ({found})")
    return found


def _with_both(row: Row, defaults: list[str]) -> Row:
    """The row with tensor and pipeline parallelism: a missing one is what the others leave of the accelerators."""
    absent = [name for name in ("tp", "pp") if name not in row.integers]
    if not absent:
        return row
    known = row.integers.get("tp", row.integers.get("pp", 1)) * row.integers.get("cp", 1)
    ranks = row.integers["n_gpu"]
    rest = ranks // (known * row.integers["dp"]) if "dp" in row.integers else 1
    defaults.append(f"{absent[0]} {max(1, rest)}")
    return dataclasses.replace(row, integers={**row.integers, absent[0]: max(1, rest)})


def _size(row: Row, name: str, defaults: list[str]) -> int:
    if name in row.integers:
        return max(1, row.integers[name])
    if name == "cp" or row.integers.get("experts"):
        defaults.append(f"{name} 1")
    return 1


def _hai(row: Row) -> bool:
    return "HAI-LLM" in row.get("framework")


def _schedule(row: Row, vp: int) -> Schedule:
    if "DualPipe" in row.get("overlap_notes") or _hai(row):
        return "dualpipe"
    return "interleaved" if vp > 1 else "1f1b"


def _virtual(row: Row, pp: int, defaults: list[str]) -> int:
    text = row.get("vpp")
    if text == ">1":
        defaults.append("2 virtual stages a rank")  # torchtitan's own number under interleaved schedules
        return 2
    return max(1, int(text)) if text.isdigit() and pp > 1 else 1


def _micro_batch(row: Row, local: int, pp: int, defaults: list[str]) -> int:
    known = row.integers.get("micro_batch")
    if known and "torchtitan" in row.get("framework") and pp > 1:
        # torchtitan's local batch is cut into one micro-batch a stage unless told otherwise.
        defaults.append(f"local batch of {known} cut into {pp} micro-batches")
        return max(1, known // pp)
    if known:
        if local % known:
            raise InputError(
                f"micro-batch {known} does not divide the {local} sequences of a replica", key="micro_batch"
            )
        return known
    return 1


# Of a gradient in a bucket: NeMo reduces them in 16 bits.
_GRADIENT_BYTES = 2
# What tables write for sharding, and its ZeRO stage, the first that matches.
_SHARDING = (
    (r"no reshard|shard_grad_op", 2),
    (r"^none$|no[_ ]shard|\bddp\b|replicated|^0$|zero[- ]?0", 0),
    (r"full[_ ]shard|fsdp|hsdp|hybrid|(?:zero|stage)[- _]?(?:stage[- ]?)?3|^3$", 3),
    (r"(?:zero|stage)[- _]?(?:stage[- ]?)?2|^2$", 2),
)


def _zero(row: Row, defaults: list[str]) -> tuple[int, int]:
    """ZeRO stage, and ranks that share one copy (0: all)."""
    text = row.get("fsdp_zero")
    if not text:
        if row.get("framework", "DeepSpeed").endswith("DeepSpeed") or re.search(
            "PTD-P|Megatron-LM$", row.get("framework")
        ):
            return 0, 0
        defaults.append("distributed optimizer (ZeRO-1)")
        return 1, 0
    stage = next((stage for pattern, stage in _SHARDING if re.search(pattern, text.lower())), 1)
    # Shards inside a server, copies between them: PyTorch's HYBRID_SHARD.
    hybrid = stage == 3 and re.search("hsdp|hybrid", text.lower())
    return stage, row.integers.get("gpus_per_node", 8) if hybrid else 0


def _keeps_every_second(row: Row) -> bool:
    """Torchtitan's selective recomputation, which keeps the result of every second matrix product."""
    return "torchtitan" in row.get("framework") and row.get("recompute") == "selective"


# What tables write for recomputation of every layer, and for none.
_ALL_LAYERS = r"^(?:yes|true|1|on)$|checkpoint|every layer|all layers"
_NOTHING = ("no", "false", "0", "off", "-", "n/a")


def _recompute(row: Row, defaults: list[str]) -> Recompute:
    text = row.get("recompute")
    if text.startswith("full") or _keeps_every_second(row) or re.search(_ALL_LAYERS, text.lower()):
        return "full"
    if text.lower() in _NOTHING:
        return "none"
    if text.startswith("selective attention"):
        return "selective"
    unknown = [part for part in re.split(r"[,;+]\s*", text) if part not in RECOMPUTE_MODULES]
    if text and not text.startswith(("none", "selective")) and unknown:
        defaults.append(f"recomputation of modules ({', '.join(unknown)}) left out")
    # "Selective" alone: with a fused attention kernel there is no score matrix to recompute.
    return "none"


def _overlap_tensor(row: Row, overlap: str) -> bool:
    if "TP_COMM_OVERLAP" in overlap:
        return "TP_COMM_OVERLAP=True" in overlap
    if "Async" in overlap or "tp-comm-overlap" in overlap:
        return True
    return "Megatron-Bridge" in row.get("framework")


def _overlap_expert(row: Row, overlap: str, recipe: Recipe | None) -> bool:
    if _hai(row):
        return True  # DualPipe exists to hide the all-to-all
    if "EP overlap" in overlap:
        return not re.search("EP overlap off|no EP overlap", overlap)
    return recipe is not None and recipe.overlap_expert
