"""Recorded runs of a serving engine: its settings, and when each request came, got its first token and its last.

A folder of a run has `requests.jsonl` (one request a line) and `meta.json` (the engine's settings), as
casys-kaist/LLMServingSim records vLLM (`bench/`, MIT). Times of arrival are the client's clock, those of tokens the
engine's; the least of (queued - arrival) is taken as the offset between both, so that a request which found the engine
idle reached it at once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.errors import InputError, Problem
from railyard.kit.files import read_text

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

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
        model, device: As the record names them.
        engine: Name and version.
        tp, dp: Tensor-parallel ranks; copies that share no weights but the experts'.
        expert_parallel: Whether experts are spread over all ranks.
        precision, kv_bits: Of weights and cache.
        max_sequences, max_batched_tokens: Of one copy.
        memory_share: Of a device's memory that the engine takes.
        block_tokens, blocks: Of the cache; `blocks` of one copy as the engine counted them, 0 where it is not said.
        prefix_cache: Whether blocks are kept for later, if only for a request that was preempted.
        ahead: Whether it schedules asynchronously.
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
        raise InputError("the record has a width that is not known", file=path, found=found, allowed=allowed)
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
