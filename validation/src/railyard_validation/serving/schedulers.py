"""How the engine behind a measured row schedules: its defaults, and what the measuring party's own recipe sets.

Defaults: vLLM's `max_num_batched_tokens` of an API server is 8192 on devices of 70 GB and more but the A100, 2048
elsewhere, decodes first (vllm/engine/arg_utils.py, v1); from 0.14 on the next iteration is put together while one runs,
as in the other engines. SGLang's `chunked_prefill_size` goes by the device's memory and prompts go first
(sglang/srt/server_args.py, scheduler.py). TensorRT-LLM's `max_num_tokens` is 8192, prompts and decodes share iterations
(in-flight batching), and a prompt is not spread over several (`enable_chunked_prefill: false`).

Recipes: InferenceX, `benchmarks/*.sh` of October 2025; aiconfigurator, `generator/rule_plugin/benchmark/*.rule`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from railyard_validation.serving.cases import drawn
from railyard_validation.serving.settings import batched_tokens, least_tokens

if TYPE_CHECKING:
    from railyard_validation.serving.cases import Case

# Chunk of SGLang by memory of the device, bytes.
_SGLANG = ((35e9, 2048), (60e9, 4096), (160e9, 8192), (float("inf"), 16384))
_GB = 1e9
_LEAST_CHUNK = 1024


@dataclass(frozen=True, slots=True)
class Scheduler:
    """One scheduler.

    Attributes:
        budget: Tokens of an iteration, of one copy of attention.
        most: Sequences that run at once, of one copy of attention.
        prompts_first: Prompts have iterations of their own, before decodes.
        chunked: A prompt may be spread over iterations.
        ahead: The next iteration is put together while one runs.
        held: Iterations that a new request is held back on average, beside the running one.
    """

    budget: int
    most: int
    prompts_first: bool = False
    chunked: bool = True
    ahead: bool = True
    held: float = 0.0


# `max_num_seqs` of its recorded runs (meta.json); all have 2048 tokens in an iteration.
_LLMSERVINGSIM = {"rtx-pro-6000": 128, "rtx-4090": 256}


def scheduler_of(case: Case) -> Scheduler:
    """The scheduler behind a row."""
    found = _default(case)
    if drawn(case.row):
        found = _inferencex(case, found)
    elif "silicon_sample" in case.row.get("source"):
        found = _aiconfigurator(case, found)
    elif "LLMServingSim" in case.row.get("source"):
        found = replace(found, budget=2048, most=_LLMSERVINGSIM.get(case.device.name, found.most))
    if case.engine == "sglang" and case.prefill is not None and case.prefill.dp > 1:
        # With copies of attention each takes its part of the chunk (`server_args.py`: chunked_prefill_size // dp_size).
        found = replace(found, budget=max(found.budget // case.prefill.dp, _LEAST_CHUNK))
    # A run whose prompts do not fit into an iteration was given one into which they do.
    return found if found.chunked else replace(found, budget=max(found.budget, round(1.2 * case.prompt)))


def _default(case: Case) -> Scheduler:
    device = case.device
    small = device.memory_bytes < 70 * _GB or device.architecture == "ampere"
    if case.engine == "vllm":
        return Scheduler(2048 if small else 8192, 256 if small else 1024, ahead=_overlaps(case))
    if case.engine == "sglang":
        chunk = next(tokens for limit, tokens in _SGLANG if device.memory_bytes < limit)
        return Scheduler(chunk, 256 if case.kind == "open" else 2048, prompts_first=True)
    return Scheduler(8192, 4096 if case.engine == "deepseek" else 2048, chunked=False)


def _overlaps(case: Case) -> bool:
    """Asynchronous scheduling: vLLM's default from 0.14 on; InferenceX's recipes asked for it before."""
    version = re.search(r"(\d+)\.(\d+)", case.row.get("framework"))
    return drawn(case.row) or (version is not None and (int(version[1]), int(version[2])) >= (0, 14))


def _aiconfigurator(case: Case, found: Scheduler) -> Scheduler:
    """`max_num_tokens = max_batch_size + isl + 1500`; SGLang: `max_prefill_tokens = isl + 1500`."""
    decodes = 0 if case.engine == "sglang" or case.prefill is not None else case.users / case.decode.workers
    return replace(found, budget=round(decodes + case.prompt + 1500))


def _inferencex(case: Case, found: Scheduler) -> Scheduler:
    if case.prefill is not None:
        return found
    if case.engine == "sglang" and "deepseek" in case.model.name:
        return _sglang_deepseek(case, found)
    if case.engine != "tensorrt-llm":
        return replace(found, budget=batched_tokens(case.row, case.model, case.device) or found.budget)
    if "llama-3-70b" in case.model.name:
        # `batch_wait_timeout_iters: 20`: a prompt waits so long for others that would fill the iteration.
        waits = case.decode.ranks < 8 and _nominal(case.row.real.get("isl"), case.row.real.get("osl")) == (1024, 1024)
        return replace(found, budget=16384, held=20.0 if waits else 0.0)
    if "gpt-oss" in case.model.name:
        return replace(found, budget=20000)
    # `attention_dp_config`: a prompt waits until the other copies have one too, for 60 iterations at most.
    held = 30.0 if case.decode.dp > 1 else 0.0
    # `MAX_NUM_TOKENS=$(( (CONC+ISL+64+63)/64*64 ))`: one prompt and the decodes of all users.
    asked = int(case.users + (case.row.real.get("isl") or case.prompt) + 127) // 64 * 64
    return replace(found, budget=max(asked, least_tokens(case.row)), held=held)


def _sglang_deepseek(case: Case, found: Scheduler) -> Scheduler:
    if case.device.architecture == "hopper":
        return replace(found, budget=32768, most=512 if case.row.real.get("isl") == case.row.real.get("osl") else 256)
    # `--scheduler-recv-interval`: the queue is looked at every so many iterations; a request waits for half of them.
    held = (30.0 if case.users >= 16 else 10.0) / 2.0
    if case.layout.precision == "fp4":
        return replace(found, budget=16384, most=256, held=held)
    return replace(found, budget=32768, most=128, held=held)


def _nominal(prompt: float | None, output: float | None) -> tuple[int, int]:
    return round(prompt or 0.0), round(output or 0.0)
