"""Measured serving rows as cases of the model: device, model, layout, software and load, or why there is none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError
from railyard.model.machine import Machine
from railyard.work.serving.layout import Deployments, ServingLayout
from railyard.work.serving.memory import cache_tokens
from railyard_validation.serving.layout import COUNTLESS, DRAFT_SHARE, FEWEST, Found, Pool, layout_of, widened
from railyard_validation.serving.recipes import may_draft
from railyard_validation.serving.settings import cache_bits

if TYPE_CHECKING:
    from railyard.catalog import Accelerator, Catalog, Model
    from railyard_validation.serving.table import Row

ENGINES = ("vllm", "sglang", "tensorrt-llm", "deepseek")
# Prompts of public sets by task, tokens: ML.ENERGY's rows give no input length.
_PROMPTS = {"gpqa": 230.0, "lm-arena-chat": 150.0, "image-chat": 1400.0, "video-chat": 3000.0, "sourcegraph-fim": 800.0}
# DeepSeek's service: its decoding looks at 4,989 keys in the mean, its day has 608 G input and 168 G output tokens, so
# that prompts of P tokens with answers of 168/608 P have P + 168/608 P / 2 = 4,989 (lengths all alike).
_SERVICE_KEYS, _SERVICE_PROMPT = 4989.0, 4989.0 / (1.0 + 168.0 / 608.0 / 2.0)
# How loads are written: kind, pattern with its number.
_LOADS = (
    ("batch", r"(?:avg batch|batch) ([\d.]+)"),
    ("closed", r"conc (\d*)$"),
    ("open", r"Poisson ([\d.]+) req/s"),
    ("batch", r"(\d+) seq/device"),
    ("paced", r"([\d.]+-[\d.]+) tok/s/user"),
    ("offline", r"^offline|infinite"),
)
# Days on which InferenceX ran its new recipes of multi-token prediction in one server, under labels that do not tell
# them from those without (its history: pull requests 392, 632 and 642; a day's runs are of the recipes that changed).
_MTP_DAYS = {"tensorrt-llm": ("2026-01-14", "2026-01-15", "2026-02-05", "2026-02-06")}
# Makers whose checkpoints are in 8 bits as published.
_PUBLISHED_IN_FP8 = ("deepseek-ai", "DeepSeek", "MiniMax")
# Sequences that a replica must hold to be worth its weights.
_BATCH = 32
# InferenceX draws lengths between 0.8 and 1 of the nominal ones.
_DRAWN = 0.9


@dataclass(frozen=True)
class Case:
    """One measured row that the model can be asked about.

    Attributes:
        row: As read.
        model, device: Of the catalogue.
        domain: Accelerators that reach one another without a NIC: of a scale-up domain or, of cards that have none,
            those on the PCIe of one server.
        decode, prefill: Pools and their layouts; `prefill` None where one pool does both.
        engine: Whose software.
        users: Requests in the system, of a closed loop; the batch, where a row gives that.
        rate_per_s: Of an open loop; of a `paced` unit the tokens/s that each user is served; 0 else.
        prompt, output: Mean tokens of a request.
        kind: `closed`, `split`, `open`, `batch`, `decode` (of a unit that only decodes), `paced` (the same, as full as
            a pace for each user lets it be), `offline` or `other`.
        drafts: Tokens drafted in each iteration, 0 without.
        drafting: 1 where that is sure, less where the label leaves open whether the engine drafts.
        count: Requests of an open loop's run.
        defaults: What was assumed.
    """

    row: Row
    model: Model
    device: Accelerator
    domain: int
    decode: Pool
    prefill: Pool | None
    layout: ServingLayout
    prefill_layout: ServingLayout | None
    engine: str
    users: float
    rate_per_s: float
    prompt: float
    output: float
    kind: str
    drafts: int
    drafting: float
    count: float
    defaults: tuple[str, ...]

    @property
    def middle(self) -> bool:
        """Whether the row's time of a token is the middle of all gaps (ML.ENERGY), not (end to end - TTFT) / tokens."""
        return "ITL p99" in self.row.get("notes")

    @property
    def vague(self) -> bool:
        """Whether the label of a split deployment leaves out how many workers there are."""
        return COUNTLESS in self.defaults

    @property
    def incomplete(self) -> bool:
        """Whether the label leaves out some of what was deployed, so that a recipe had to tell it."""
        return any(told.startswith("the label ") for told in self.defaults)


def case_of(row: Row, catalog: Catalog) -> Case | str:
    """The case of a row, or the reason why there is none."""
    parts = _known(row, catalog)
    if isinstance(parts, str):
        return parts
    model, device, engine = parts
    found = layout_of(row, experts=model.experts > 0)
    if isinstance(found, str):
        return found
    kind, users, rate = _load(row)
    if kind == "other" and row.real.get("tpot_ms"):
        return "neither a load nor a batch is given"
    if found.prefill is not None and kind == "closed":
        kind = "split"
    if kind == "batch" and row.get("pd_split").startswith("decode"):
        kind = "decode"
    prompt, output, told = _lengths(row, kind)
    if not users and kind in ("closed", "split", "batch", "decode"):
        users, more = _unknown_users(row, found.decode)
        told += more
    precision, bits, said = _widths(row, model, device, engine)
    if FEWEST in found.defaults:
        found = _fewest(found, model, device, (precision, bits), prompt + output)
    drafts, drafting, more = _drafts(row, model, found)
    try:
        layouts = [_laid(pool, precision, bits) for pool in (found.decode, found.prefill) if pool]
    except InputError as error:
        return f"the layout makes no sense: {error}"
    return Case(
        row=row,
        model=model,
        device=device,
        domain=_domain(device, catalog),
        decode=found.decode,
        prefill=found.prefill,
        layout=layouts[0],
        prefill_layout=layouts[1] if found.prefill else None,
        engine=engine,
        users=users,
        rate_per_s=rate,
        prompt=prompt,
        output=output,
        kind=kind,
        drafts=drafts,
        drafting=drafting,
        count=_requests(row) if kind == "open" else float("inf"),
        defaults=(*found.defaults, *told, *said, *more),
    )


def _domain(device: Accelerator, catalog: Catalog) -> int:
    if device.scale_up_kind != "none" or not device.server:
        return device.scale_up_domain
    return catalog.server(device.server).accelerators


def _known(row: Row, catalog: Catalog) -> tuple[Model, Accelerator, str] | str:
    """Model, device and engine of a row, or which of them is unknown."""
    engine = engine_of(row.get("framework"))
    try:
        model = catalog.model(row.get("model"))
    except InputError:
        return f"the catalogue has no model `{row.get('model')}`"
    try:
        device = catalog.accelerator(row.get("accelerator"))
    except InputError:
        return f"the catalogue has no accelerator `{row.get('accelerator')}`"
    return (model, device, engine) if engine else f"no serving engine is known by `{row.get('framework')}`"


def _fewest(found: Found, model: Model, device: Accelerator, widths: tuple[str, int], context: float) -> Found:
    """Replicas of the fewest accelerators that hold the weights and `_BATCH` sequences."""
    for tp in (1, 2, 4, 8, 16, 32):
        layout = ServingLayout(tp=tp, precision=widths[0], kv_bits=widths[1])
        rows = Deployments.of((model, layout, Machine.of_device(device, 1.0)))
        if cache_tokens(rows)[0] >= _BATCH * context or tp >= found.decode.workers:
            return widened(found, tp)
    return found


def _laid(pool: Pool, precision: str, kv_bits: int) -> ServingLayout:
    return ServingLayout(tp=pool.tp, pp=pool.pp, dp_attention=pool.dp, ep=pool.ep, precision=precision, kv_bits=kv_bits)


def _drafts(row: Row, model: Model, found: Found) -> tuple[int, float, tuple[str, ...]]:
    """Tokens drafted in each iteration, and how sure that is.

    A row says it, or the published deployment with as many users, or the day of InferenceX's recipes with MTP. Of split
    deployments InferenceX ran recipes with and without drafts under one label: two rows of one label then differ
    twofold, and no estimate can be near to both.
    """
    split, vague = found.prefill is not None, COUNTLESS in found.defaults
    said = re.search(r"MTP\D?(\d)", row.get("parallelism") + row.get("precision"))
    if said:
        return int(said.group(1)), 1.0, ()
    if "MTP" in row.get("precision"):
        return 1, 1.0, ("one drafted token",)
    if not model.mtp_layers or not drawn(row):
        return 0, 1.0, ()
    framework, date = row.get("framework"), row.get("date")
    if not split and date in _MTP_DAYS.get(engine_of(framework), ()):
        return 3, 1.0, ("three drafted tokens, as InferenceX's recipes that changed that day",)
    number, share = found.drafts or (0, 1.0)
    if vague and model.name.startswith("deepseek-v3") and may_draft(framework, row.get("accelerator"), date):
        number, share = 3, DRAFT_SHARE
    told = ("the label leaves open whether tokens are drafted: between both",) if share < 1.0 else ()
    return number, share, told


def engine_of(framework: str) -> str:
    """The engine behind a name and version, "" for unknown ones."""
    name = framework.lower()
    if "vllm" in name:
        return "vllm"
    if "sglang" in name:
        return "sglang"
    if "deepseek" in name:
        return "deepseek"
    return "tensorrt-llm" if "trt" in name or "tensorrt" in name else ""


def _load(row: Row) -> tuple[str, float, float]:
    """Kind of load, users or batch, requests/s."""
    text = row.get("load")
    for kind, pattern in _LOADS:
        found = re.search(pattern, text, re.IGNORECASE)
        if found is None:
            continue
        if kind == "paced":
            slow, fast = (float(text) for text in found.group(1).split("-"))
            return kind, 0.0, (slow + fast) / 2.0
        number = float(found.group(1) or 0) if found.groups() else 0.0
        if "device" in pattern:
            number *= row.real.get("n_accel", 1.0)
        return (kind, 0.0, number) if kind == "open" else (kind, number, 0.0)
    return "other", 0.0, 0.0


def _lengths(row: Row, kind: str) -> tuple[float, float, tuple[str, ...]]:
    task = row.get("load").split(",")[0]
    prompt, output = row.real.get("isl", 0.0), row.real.get("osl", 0.0)
    told: tuple[str, ...] = ()
    if not prompt and "open-infra-index" in row.get("source"):
        prompt, told = (
            _SERVICE_PROMPT,
            (f"prompts of {_SERVICE_PROMPT:.0f} tokens, from the service's keys and its day",),
        )
        output = 2.0 * (_SERVICE_KEYS - prompt)
    if not prompt:
        prompt = _PROMPTS.get(task, 300.0 if "MLPerf" in row.get("source") else 1024.0)
        told = (f"prompts of {prompt:g} tokens",)
    if not output:
        output, told = 1024.0, (*told, "answers of 1024 tokens")
    if kind in ("closed", "split") and drawn(row):
        prompt, output = prompt * _DRAWN, output * _DRAWN
    return prompt, output, told


def drawn(row: Row) -> bool:
    """Whether the row is of InferenceX, whose lengths are drawn and whose users start all at once."""
    return bool(re.search(r"silicon_sample.csv (20\d\d_|dsr1_|minimax|gptoss|glm|llama70)", row.get("source")))


def _requests(row: Row) -> float:
    """Requests of an open loop's run: said in the load, else 500, which vllm-cost-meter's overloads agree with."""
    said = re.search(r"(\d+) (?:\w+ )?requests", row.get("load"))
    return float(said.group(1)) if said else 500.0


def _unknown_users(row: Row, pool: Pool) -> tuple[float, tuple[str, ...]]:
    named = re.search(r"D \d+x\(.* bs(\d+)\)", row.get("parallelism"))
    if named:
        return float(named.group(1)) * pool.workers * pool.dp, ()
    return 32.0 * pool.workers, ("32 users of each replica",)


def _widths(row: Row, model: Model, device: Accelerator, engine: str) -> tuple[str, int, tuple[str, ...]]:
    """Precision of the weights and bits of the cache."""
    text = (row.get("precision") or row.get("model")).lower()
    told: tuple[str, ...] = ()
    if "gpt-oss" in model.name:
        precision = "mxfp4"
    elif "fp4" in text or "uint4" in text:
        precision = "fp4"
    elif "fp8" in text or (row.get("model").startswith(_PUBLISHED_IN_FP8) and "16" not in text):
        precision = "fp8"
    else:
        precision = "bf16"
        if not row.get("precision"):
            told = ("weights in bf16",)
    narrow = precision in ("fp8", "fp4") and engine in ("tensorrt-llm", "sglang")
    known = cache_bits(row, model, device, engine) if drawn(row) else None
    return precision, known or (8 if narrow else 16), told
