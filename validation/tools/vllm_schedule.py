#!/usr/bin/env python3
"""What vLLM's own scheduler does on random traces, iteration by iteration: the live reference of our serving engine.

Runs `vllm.v1.core.sched` and the steps of `vllm.v1.engine.core.EngineCore` of vLLM 0.33.0 (Apache-2.0) with an executor
that computes nothing: the time of an iteration is the case's law, and the tokens are those of the trace. No GPU, no
weights. In an environment of its own, outside the project:

    python3 -m venv vllmenv
    vllmenv/bin/pip install torch==2.13.0        # a build for CPUs
    vllmenv/bin/pip install transformers==5.20.0 aiohttp cachetools cbor2 cloudpickle einops fastapi llguidance \
        msgspec openai openai-harmony opentelemetry-api partial-json-parser pillow prometheus_client psutil py-cpuinfo \
        pybase64 pydantic pyzmq regex requests uvloop
    vllmenv/bin/pip install --no-deps vllm==0.33.0 xgrammar apache-tvm-ffi

    vllmenv/bin/python validation/tools/vllm_schedule.py seeds > validation/tests/serving/data/vllm_schedules.json
    vllmenv/bin/python validation/tools/vllm_schedule.py fresh > validation/tests/serving/data/vllm_schedules_fresh.json

The first line says what answered; then one line of JSON a case. `iterations`: each is a text of `request:tokens` for a
request that ran before, `request:tokens@computed` for one that is admitted with so many tokens already computed, and
`request!` for one that was preempted since the iteration before; `text*n` stands for n equal ones. `done_ps`: when each
answer is complete.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import queue
import sys
import tempfile
from collections import deque
from pathlib import Path
from typing import Any

import torch
import vllm
from vllm import SamplingParams, config
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1, SupportsHMA
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1 import kv_cache_interface as kv
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.engine.core import EngineCore
from vllm.v1.outputs import DraftTokenIds, KVConnectorOutput, ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

VERSION = "0.33.0"
_MODEL_LENGTH = 65536
_CASES = Path(__file__).parents[1] / "src/railyard_validation/serving/schedule_cases.py"


def _cases() -> Any:
    """The generator, by its path: this environment has no Railyard."""
    spec = importlib.util.spec_from_file_location("schedule_cases", _CASES)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    sys.modules["schedule_cases"] = module
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module


class Later:
    """A future whose result is computed when somebody waits for it."""

    def __init__(self, compute: Any) -> None:
        self.compute = compute

    def result(self) -> Any:
        """What was promised."""
        return self.compute()


class Executor:
    """Computes nothing: iterations take the case's time one after another, answers are those of the trace."""

    def __init__(self, case: Any) -> None:
        self.case, self.now, self.free, self.rows = case, 0, 0, []
        self.scheduler: Any = None
        self.last: Any = None
        self.preempted: set[str] = set()
        self.loading: set[str] = set()
        self.done: dict[int, int] = {}
        self.drafted: list[str] = []

    def execute_model(self, scheduled: Any, non_block: bool = False) -> Later:
        """Starts an iteration."""
        del non_block
        self.preempted |= scheduled.preempted_req_ids or set()
        if scheduled.total_num_scheduled_tokens == 0:
            loaded, self.loading = self.loading, set()
            return Later(lambda: self.output([], [], loaded))
        self.rows.append(self.row(scheduled))
        self.preempted = set()
        start = max(self.now, self.free)
        self.free = start + self.case.base_ps + self.case.token_ps * scheduled.total_num_scheduled_tokens
        emits = {one: not self.scheduler.requests[one].is_prefill_chunk for one in scheduled.num_scheduled_tokens}
        loaded, self.loading = self.loading, set()
        self.last = (scheduled, emits, self.free, loaded)
        return Later(lambda: None)

    def sample_tokens(self, grammar: Any, non_block: bool = False) -> Any:
        """The tokens of the iteration started last."""
        del grammar
        started = self.last
        return Later(lambda: self.finish(*started)) if non_block else self.finish(*started)

    def take_draft_token_ids(self) -> Any:
        """Guesses for every sequence that decodes."""
        guesses = [[1] * self.case.draft_tokens for _ in self.drafted]
        return DraftTokenIds(self.drafted, guesses)

    def row(self, scheduled: Any) -> str:
        """An iteration in words."""
        admitted = {one.req_id: one.num_computed_tokens for one in scheduled.scheduled_new_reqs}
        cached = scheduled.scheduled_cached_reqs
        computed = dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        admitted |= {one: computed[one] for one in cached.resumed_req_ids}
        words = [(int(one), f"{one}!") for one in self.preempted]
        for one, tokens in scheduled.num_scheduled_tokens.items():
            words.append((int(one), f"{one}:{tokens}" + (f"@{admitted[one]}" if one in admitted else "")))
        return " ".join(word for _, word in sorted(words))

    def finish(self, scheduled: Any, emits: dict[str, bool], end: int, loaded: set[str]) -> Any:
        """Waits for the end of an iteration and gives what came out."""
        self.now = max(self.now, end)
        names, tokens = list(scheduled.num_scheduled_tokens), []
        for name in names:
            request = self.scheduler.requests.get(name)
            alive = request is not None and not request.is_finished()
            tokens.append(self.sampled(scheduled, request) if alive and emits[name] else [])
        self.drafted = [name for name in names if emits[name]]
        return self.output(names, tokens, loaded)

    def sampled(self, scheduled: Any, request: Any) -> list[int]:
        """The next tokens of a request: one, and the guesses that are accepted."""
        index, have = int(request.request_id), request.num_output_tokens
        drafts = scheduled.scheduled_spec_decode_tokens.get(request.request_id, [])
        guessed = 0 if drafts and have == 0 else len(drafts)
        count = 1 + (self.case.accepted(index, have, guessed) if guessed else 0)
        answer = self.case.answer_of(index)
        if self.case.role == "decode":
            answer = answer[1:]
        if have + count >= request.max_tokens:
            self.done[index] = self.now
        answer += [1] * count
        return answer[have : have + count]

    def output(self, names: list[str], tokens: list[list[int]], loaded: set[str]) -> Any:
        """In vLLM's own record."""
        found = KVConnectorOutput(finished_recving=loaded) if loaded else None
        places = {name: place for place, name in enumerate(names)}
        return ModelRunnerOutput(
            req_ids=names, req_id_to_index=places, sampled_token_ids=tokens, kv_connector_output=found
        )


class Remote(KVConnectorBase_V1, SupportsHMA):
    """A connector from whose other side the cache of every prompt comes, at once."""

    executor: Executor

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int, bool]:
        """What was sent once is computed anew after a preemption."""
        count = 0 if request.num_preemptions else request.num_prompt_tokens - num_computed_tokens
        return count, count > 0

    def update_state_after_alloc(self, request: Any, _blocks: Any, num_external_tokens: int) -> None:
        """The load begins."""
        if num_external_tokens:
            self.executor.loading.add(request.request_id)

    def build_connector_meta(self, _scheduled: Any) -> None:
        """Nothing to tell a worker."""

    def request_finished_all_groups(self, _request: Any, _blocks: Any) -> tuple[bool, None]:
        """The blocks are free at once."""
        return False, None

    def start_load_kv(self, *_args: Any, **_named: Any) -> None:
        """Of workers, as the rest."""

    wait_for_layer_load = save_kv_layer = wait_for_save = start_load_kv


def settings(case: Any, folder: str) -> tuple[Any, Any]:
    """The configuration of a case, and of its KV cache."""
    model = config.ModelConfig(model=folder, skip_tokenizer_init=True, dtype="float16", max_model_len=_MODEL_LENGTH)
    length = case.max_batched_tokens if not case.chunked else _MODEL_LENGTH
    model.max_model_len = length
    guesses = None
    if case.draft_tokens:
        guesses = config.SpeculativeConfig(
            method="ngram_gpu",
            num_speculative_tokens=case.draft_tokens,
            prompt_lookup_max=4,
            target_model_config=model,
            target_parallel_config=config.ParallelConfig(),
        )
    made = config.VllmConfig(
        model_config=model,
        scheduler_config=config.SchedulerConfig(
            max_num_seqs=case.max_sequences,
            max_num_batched_tokens=case.max_batched_tokens,
            max_model_len=length,
            is_encoder_decoder=False,
            enable_chunked_prefill=case.chunked,
            long_prefill_token_threshold=case.threshold,
            policy="priority" if case.priority else "fcfs",
            async_scheduling=case.ahead,
        ),
        cache_config=config.CacheConfig(
            block_size=case.block_tokens, enable_prefix_caching=case.prefix_cache, prefix_caching_hash_algo="sha256"
        ),
        device_config=config.DeviceConfig("cpu"),
        speculative_config=guesses,
        kv_transfer_config=config.KVTransferConfig(kv_connector="ExampleConnector", kv_role="kv_consumer")
        if case.role == "decode"
        else None,
    )
    made.cache_config.num_gpu_blocks = case.kv_blocks + 1
    spec = kv.FullAttentionSpec(block_size=case.block_tokens, num_kv_heads=1, head_size=1, dtype=torch.float16)
    cache = kv.KVCacheConfig(case.kv_blocks + 1, [], [kv.KVCacheGroupSpec(["layer"], spec)])
    return made, cache


def engine(case: Any, executor: Executor, folder: str) -> Any:
    """An engine core of vLLM with its scheduler, without what starts workers."""
    made, cache = settings(case, folder)
    if case.role == "decode":
        Remote.executor = executor
        KVConnectorFactory.get_connector_class = lambda _given: Remote  # type: ignore[method-assign, assignment]
    core: Any = object.__new__(EngineCore)
    core.vllm_config, core.log_stats, core.model_executor = made, False, executor
    core.scheduler = made.scheduler_config.get_scheduler_cls()(
        vllm_config=made,
        kv_cache_config=cache,
        structured_output_manager=StructuredOutputManager(made),
        block_size=case.block_tokens,
        hash_block_size=case.block_tokens,
    )
    executor.scheduler = core.scheduler
    core.batch_queue_size = made.max_concurrent_batches
    core.batch_queue = deque(maxlen=core.batch_queue_size) if core.batch_queue_size > 1 else None
    core.step_fn = core.step if core.batch_queue is None else core.step_with_batch_queue
    core.async_scheduling = made.scheduler_config.async_scheduling
    core.is_mm_encoder_only = core.is_pooling_model = False
    core.check_for_draft_tokens = made.speculative_config is not None
    core.aborts_queue, core._weight_version = queue.Queue(), "default"
    return core


def requests_of(case: Any) -> list[Any]:
    """The requests of a case in vLLM's own record."""
    hashes = get_hash_fn_by_name("sha256")
    init_none_hash(hashes)
    found = []
    for index, asked in enumerate(case.requests):
        prompt, output = case.tokens_of(asked), asked.output
        if case.role == "prefill":
            output = 1
        if case.role == "decode":
            prompt, output = prompt + case.answer_of(index)[:1], output - 1  # the other side gave the first token
        found.append(
            Request(
                request_id=str(index),
                prompt_token_ids=prompt,
                sampling_params=SamplingParams(max_tokens=output, ignore_eos=True),
                pooling_params=None,
                arrival_time=asked.arrival_ps / 1e12,
                priority=asked.priority if case.priority else 0,
                block_hasher=get_request_block_hasher(case.block_tokens, hashes) if case.prefix_cache else None,
            )
        )
    return found


def play(case: Any, folder: str) -> dict[str, Any]:
    """The busy loop of vLLM on a case: take what has arrived, step."""
    executor = Executor(case)
    core = engine(case, executor, folder)
    coming = deque(zip(case.requests, requests_of(case), strict=True))
    while coming or core.scheduler.has_requests() or core.batch_queue:
        if not core.scheduler.has_requests() and not core.batch_queue:
            executor.now = max(executor.now, coming[0][0].arrival_ps)
        while coming and coming[0][0].arrival_ps <= executor.now:
            core.scheduler.add_request(coming.popleft()[1])
        core.post_step(core.step_fn()[1])
    done = [executor.done.get(index, -1) for index in range(len(case.requests))]
    runs = [(row, len(list(equal))) for row, equal in itertools.groupby(executor.rows)]
    rows = [f"{row}*{count}" if count > 1 else row for row, count in runs]
    return {"seed": case.seed, "iterations": rows, "done_ps": done}


def main() -> None:
    """Prints what vLLM did."""
    if vllm.__version__ != VERSION:
        sys.exit(f"vLLM {vllm.__version__} is installed, the reference is {VERSION}")
    cases = _cases()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("series", choices=("seeds", "fresh"))
    series = cases.SEEDS if parser.parse_args().series == "seeds" else cases.FRESH
    print(json.dumps({"by": f"vLLM {VERSION}", "licence": "Apache-2.0", "tool": "validation/tools/vllm_schedule.py"}))
    with tempfile.TemporaryDirectory() as folder:
        shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 4}
        named = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 32000}
        length = {"max_position_embeddings": _MODEL_LENGTH, "torch_dtype": "float16"}
        (Path(folder) / "config.json").write_text(json.dumps(shape | named | length))
        for seed in series:
            print(json.dumps(play(cases.draw(seed), folder), separators=(",", ":")), flush=True)


if __name__ == "__main__":
    main()
