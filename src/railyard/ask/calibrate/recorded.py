"""Recorded runs of a serving engine: its settings, and when each request came, got its first token and its last.

A folder of a run has `requests.jsonl` (one request a line) and `meta.json` (the engine's settings), as
casys-kaist/LLMServingSim records vLLM (`bench/`, MIT). Times of arrival are the client's clock, those of tokens the
engine's; the least of (queued - arrival) is taken as the offset between both, so that a request which found the engine
idle reached it at once.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.engine.serving import Deployment, Pool, Router, simulate
from railyard.kit.errors import InputError, Problem
from railyard.kit.files import read_text
from railyard.model.machine import Machine
from railyard.work.serving.cost import iteration_cost
from railyard.work.serving.costing import copy_cost
from railyard.work.serving.layout import Deployments, ServingLayout
from railyard.work.serving.memory import CacheRoom, cache_tokens, divide

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.catalog import Accelerator, Catalog, Model
    from railyard.work.serving.software import ServingSoftware

    F = NDArray[np.float64]


_TIMES = ("arrival_time", "queued_ts", "first_token_ts", "last_token_ts")
_COUNTS = ("input_toks", "output_toks")
_BITS = {"auto": 16, "bfloat16": 16, "float16": 16, "fp8": 8, "fp8_e4m3": 8, "fp8_e5m2": 8}
_PRECISIONS = {"auto": "bf16", "bfloat16": "bf16", "float16": "fp16", "half": "fp16"}
# vLLM's own defaults of settings that a record leaves out.
_SHARE, _BLOCK = 0.9, 16
# The first release that schedules asynchronously by default.
_ASYNC_SINCE = (0, 14)


@dataclass(frozen=True, eq=False)
class RecordedRun:
    """One recorded run.

    Attributes:
        name: Its folder below the one that was read.
        tp, dp: Tensor-parallel ranks; copies that share no weights but the experts'.
        memory_share: Of a device's memory that the engine takes.
        block_tokens, blocks: Of the cache; `blocks` of one copy as the engine counted them, 0 where it is not said.
        prefix_cache: Whether blocks are kept for later, if only for a request that was preempted.
        arrival_s: f64[n], ascending from 0.
        input_tokens, output_tokens: i32[n].
        ttft_s: f64[n], from arrival to first token.
        tpot_s: f64[n], (last - first) / (output tokens - 1); not a number where there is one token.
    """

    name: str
    model: str
    device: str
    engine: str
    tp: int
    dp: int
    expert_parallel: bool
    precision: str
    kv_bits: int
    max_sequences: int
    max_batched_tokens: int
    memory_share: float
    block_tokens: int
    blocks: int
    prefix_cache: bool
    ahead: bool
    arrival_s: F
    input_tokens: NDArray[np.int32]
    output_tokens: NDArray[np.int32]
    ttft_s: F
    tpot_s: F


def read_runs(folder: Path) -> tuple[RecordedRun, ...]:
    """Every run below a folder, in order of their names.

    Raises:
        InputError: There is none, or a record lacks what it must tell; all wrong lines are named.
    """
    if not folder.is_dir():
        raise InputError("there is no such folder", file=folder, key="runs")
    found = sorted(path.parent for path in folder.rglob("requests.jsonl"))
    if not found:
        raise InputError("the folder holds no recorded run (requests.jsonl with meta.json)", file=folder, key="runs")
    return tuple(_run(path, path.relative_to(folder).as_posix()) for path in found)


def _run(folder: Path, name: str) -> RecordedRun:
    path = folder / "meta.json"
    meta = _object(path)
    resolved = _part(meta, "resolved_config")
    settings = {
        **_part(resolved, "scheduler_config"),
        **_part(resolved, "cache_config"),
        **_part(meta, "engine_kwargs"),
    }
    settings = {key: value for key, value in settings.items() if value is not None}
    cache = _part(meta, "kv_cache")
    version = str(meta.get("vllm_version", ""))
    for key in ("model", "max_num_seqs", "max_num_batched_tokens"):
        if key not in settings:
            raise InputError(f"the record does not tell `{key}`", file=path, key=f"engine_kwargs.{key}")
    dtype, kv = str(settings.get("dtype", "auto")).removeprefix("torch."), str(settings.get("kv_cache_dtype", "auto"))
    if dtype not in _PRECISIONS or kv not in _BITS:
        found = dtype if dtype not in _PRECISIONS else kv
        allowed = ", ".join({**_PRECISIONS, **_BITS})
        raise InputError("the record has an unknown width", file=path, found=found, allowed=allowed)
    return RecordedRun(
        name=name,
        model=str(settings["model"]),
        device=_device(folder, meta, name),
        engine=f"vllm {version}".strip(),
        tp=_integer(settings, "tensor_parallel_size", 1, path),
        dp=_integer(settings, "data_parallel_size", 1, path),
        expert_parallel=bool(settings.get("enable_expert_parallel", False)),
        precision=_PRECISIONS[dtype],
        kv_bits=_BITS[kv],
        max_sequences=_integer(settings, "max_num_seqs", 0, path),
        max_batched_tokens=_integer(settings, "max_num_batched_tokens", 0, path),
        memory_share=float(cache.get("gpu_memory_utilization", settings.get("gpu_memory_utilization", _SHARE))),
        block_tokens=_integer({**settings, **cache}, "block_size", _BLOCK, path),
        blocks=int(cache.get("num_gpu_blocks") or 0),
        prefix_cache=bool(settings.get("enable_prefix_caching", True)),
        ahead=bool(settings.get("async_scheduling", _version(version) >= _ASYNC_SINCE)),
        **_columns(folder / "requests.jsonl"),
    )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2] if part.isdigit())


def _part(content: dict[str, Any], key: str) -> dict[str, Any]:
    value = content.get(key)
    return value if isinstance(value, dict) else {}


def _integer(settings: dict[str, Any], key: str, default: int, path: Path) -> int:
    value = settings.get(key, default)
    if not isinstance(value, int) or value < 1:
        raise InputError("expected an integer of at least 1", file=path, key=key, found=value)
    return value


def _device(folder: Path, meta: dict[str, Any], name: str) -> str:
    """The device's name: as the engine saw it, as the run's cluster file says, or the first folder's."""
    seen = _part(meta, "hardware").get("device_name")
    if seen:
        return str(seen)
    cluster = folder.parent / "config.json"
    if cluster.is_file():
        for node in _object(cluster).get("nodes", ()):
            for instance in node.get("instances", ()):
                if instance.get("hardware"):
                    return str(instance["hardware"])
    return name.split("/", maxsplit=1)[0]


def _object(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_text(path))
    except ValueError as error:
        raise InputError(f"the file cannot be read as JSON: {error}", file=path) from error
    if not isinstance(content, dict):
        raise InputError("the file must hold a JSON object", file=path)
    return content


def _columns(path: Path) -> dict[str, Any]:
    """Requests in the order of their arrival, on one clock."""
    rows, problems = [], []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if line.strip():
            row = _row(line)
            if isinstance(row, str):
                problems.append(Problem(row, file=str(path), line=number))
            else:
                rows.append(row)
    if problems:
        raise InputError.many(problems)
    if not rows:
        raise InputError("the record has no request", file=path)
    arrival, queued, first, last, prompt, answer = np.array(sorted(rows)).T
    offset = float(np.min(queued - arrival))
    later = np.maximum(answer - 1.0, 1.0)
    return {
        "arrival_s": arrival - arrival[0],
        "input_tokens": prompt.astype(np.int32),
        "output_tokens": answer.astype(np.int32),
        "ttft_s": first - arrival - offset,
        "tpot_s": np.where(answer > 1, (last - first) / later, np.nan),
    }


def _row(line: str) -> tuple[float, ...] | str:
    try:
        content = json.loads(line)
        row = tuple(float(content[key]) for key in (*_TIMES, *_COUNTS))
    except KeyError as error:
        return f"the request lacks {error}"
    except (TypeError, ValueError) as error:
        return f"the line cannot be read as a request: {error}"
    arrival, queued, first, last, prompt, answer = row
    if not np.isfinite([arrival, queued, first, last]).all() or prompt < 1 or answer < 1:
        return "times must be numbers, and a request has at least one token in and one out"
    return row if queued <= first <= last else "a request is queued, gets its first token and then its last"


_PS = 1e12
# NIC of a server, where a run spans one only: nothing goes over it.
_SCALE_OUT_BPS = 400e9


@dataclass(frozen=True, eq=False)
class ReplaySetting:
    """A run with its model and device found in the catalogue, and its replica laid out."""

    run: RecordedRun
    model: Model
    device: Accelerator
    layout: ServingLayout

    @classmethod
    def of(cls, run: RecordedRun, catalog: Catalog) -> ReplaySetting:
        """Finds the model and the device.

        Copies (`data_parallel_size`) of a model with experts that are spread over all are one replica with copies of
        attention. Raises InputError where the catalogue does not know one of them.
        """
        model, device = _model(run.model, catalog), catalog.accelerator(run.device)
        spread = run.expert_parallel and model.experts > 0
        layout = ServingLayout(
            tp=run.tp,
            dp_attention=run.dp if spread else 1,
            ep=run.tp * run.dp if spread else 1,
            precision=run.precision,
            kv_bits=run.kv_bits,
        )
        return cls(run, model, device, layout)

    @property
    def copies(self) -> int:
        """Schedulers of one replica, each with its own limits."""
        return self.layout.dp_attention

    @property
    def replicas(self) -> int:
        """Replicas that share nothing."""
        return self.run.dp // self.copies

    @property
    def machine(self) -> Machine:
        """One server: all ranks reach each other over what the cards have, NVLink or PCIe."""
        domain = max(self.device.scale_up_domain, self.run.tp * self.run.dp)
        return Machine.of_device(self.device, _SCALE_OUT_BPS, domain)

    def cache_tokens(self) -> int:
        """Tokens that the cache of one replica should hold, by the engine's rule."""
        rows, run = Deployments.of((self.model, self.layout, self.machine)), self.run
        capacity = cache_tokens(
            rows, share=run.memory_share, tokens=float(run.max_batched_tokens), most=float(run.max_sequences)
        )
        return int(capacity[0])

    def room(self, state: float) -> CacheRoom:
        """Cached tokens and sequences of one copy, where states of a sequence take the room of that many tokens."""
        run = self.run
        return divide(
            float(self.cache_tokens() // self.copies),
            state,
            run.input_tokens.astype(np.float64) + run.output_tokens,
            context=float(run.input_tokens.mean() + run.output_tokens.mean() / 2.0),
            most=run.max_sequences,
        )


def _model(name: str, catalog: Catalog) -> Model:
    try:
        return catalog.model(name)
    except InputError:
        short = name.rsplit("/", maxsplit=1)[-1]
        if short == name:
            raise
        return catalog.model(short)


@dataclass(frozen=True, eq=False)
class Replay:
    """Result of a replay, by request in the order of arrival.

    Attributes:
        ttft_s, tpot_s: f64[n], as in `RecordedRun`.
    """

    ttft_s: F
    tpot_s: F
    preemptions: int
    end_s: float


@dataclass(frozen=True, eq=False)
class _RecordedRequests:
    """Requests as the engine reads them, with hashes of blocks that no two requests share.

    A record does not tell which prompts begin alike. Its own blocks serve a request again when it was preempted.
    """

    arrival_ps: NDArray[np.int64]
    input_tokens: NDArray[np.int32]
    output_tokens: NDArray[np.int32]
    block_ptr: NDArray[np.int64]
    block_hash: NDArray[np.uint64]
    block_tokens: int
    session: NDArray[np.int64]

    @classmethod
    def of(cls, run: RecordedRun) -> _RecordedRequests:
        size = run.block_tokens if run.prefix_cache else 0
        tokens = run.input_tokens.astype(np.int64) + run.output_tokens
        blocks = tokens // size if size else np.zeros(len(tokens), np.int64)
        ends = np.concatenate([[0], np.cumsum(blocks)]).astype(np.int64)
        return cls(
            arrival_ps=np.round(run.arrival_s * _PS).astype(np.int64),
            input_tokens=run.input_tokens,
            output_tokens=run.output_tokens,
            block_ptr=ends if size else np.zeros(0, np.int64),
            block_hash=np.arange(1, ends[-1] + 1, dtype=np.uint64),
            block_tokens=size,
            session=np.zeros(0, np.int64),
        )


def replay(setting: ReplaySetting, software: ServingSoftware) -> Replay:
    """Serves the requests of a run.

    The cache has the blocks that the engine counted, where the record has them; else those of the memory rule.

    Raises:
        InputError: Weights do not fit.
    """
    run, copies = setting.run, setting.copies
    cost = (copy_cost if copies > 1 else iteration_cost)(
        setting.model, setting.layout, setting.machine, software, max_batched_tokens=run.max_batched_tokens
    )
    room = setting.room(cost.state_tokens)
    pool = Pool(
        name=run.name,
        cost=cost,
        replicas=run.dp,
        lockstep=copies,
        block_tokens=run.block_tokens,
        kv_blocks=run.blocks or int(room.tokens) // run.block_tokens,
        max_sequences=room.sequences,
        max_batched_tokens=run.max_batched_tokens,
        prefix_cache=run.prefix_cache,
        ahead=run.ahead,
    )
    asked = _RecordedRequests.of(run)
    found = simulate(asked, Deployment((pool,), Router("least-loaded"), stop_on_overload=False))
    later = np.maximum(run.output_tokens - 1, 1)
    first_ps = found.column("first_token_ps")
    answered = (found.end_ps - first_ps) / _PS
    return Replay(
        ttft_s=(first_ps - asked.arrival_ps) / _PS,
        tpot_s=np.where(run.output_tokens > 1, answered / later, np.nan),
        preemptions=int(found.column("preemptions").sum()),
        end_s=float(found.end_ps.max()) / _PS,
    )


def distance(one: F, other: F) -> float:
    """Kolmogorov-Smirnov distance of two samples: the largest gap between their distribution functions."""
    return float(np.abs(gaps).max()) if (gaps := distribution_gaps(one, other)).size else math.nan


def distribution_gaps(one: F, other: F) -> F:
    """Gaps between the distribution functions of two samples at every value of both; none where a sample is empty."""
    first, second = np.sort(one[np.isfinite(one)]), np.sort(other[np.isfinite(other)])
    if not first.size or not second.size:
        return np.zeros(0)
    at = np.concatenate([first, second])
    return np.searchsorted(first, at, "right") / first.size - np.searchsorted(second, at, "right") / second.size
