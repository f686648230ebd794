"""The serving engine's iterations on the cases that vLLM's own scheduler has answered, compared one by one."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.serving import Cost, Deployment, Pool, Speculative, simulate

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard_validation.serving.schedule_cases import Case

_CLOSE_PS = 1000  # between two sums of the same times, of which ours are kept in parts of a picosecond


@dataclass(frozen=True)
class Answer:
    """What a scheduler did with a case.

    Attributes:
        iterations: As `validation/tools/vllm_schedule.py` writes them, each by itself.
        done_ps: When each answer is complete; -1: never.
    """

    iterations: list[str]
    done_ps: list[int]

    def same(self, other: Answer) -> int:
        """Iterations that are equal in order from the first on."""
        count = 0
        for ours, theirs in zip(self.iterations, other.iterations, strict=False):
            if ours != theirs:
                break
            count += 1
        return count

    def equals(self, other: Answer) -> bool:
        """Whether all iterations are equal and all answers are complete at the same time."""
        times = zip(self.done_ps, other.done_ps, strict=True)
        return self.iterations == other.iterations and all(abs(a - b) <= _CLOSE_PS for a, b in times)


def recorded(path: Path) -> dict[int, Answer]:
    """Answers of vLLM by seed."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.startswith('{"seed"')]
    return {row["seed"]: Answer(_each(row["iterations"]), row["done_ps"]) for row in rows}


def _each(rows: list[str]) -> list[str]:
    """Equal iterations, written as `text*n`, one by one."""
    parts = (row.partition("*") for row in rows)
    return [text for text, _, count in parts for _ in range(int(count or 1))]


@dataclass(frozen=True, eq=False)
class _Requests:
    arrival_ps: NDArray[np.int64]
    input_tokens: NDArray[np.int32]
    output_tokens: NDArray[np.int32]
    block_ptr: NDArray[np.int64]
    block_hash: NDArray[np.uint64]
    block_tokens: int
    session: NDArray[np.int64]
    priority: NDArray[np.int32]


def ours(case: Case) -> Answer:
    """What the serving engine does with a case."""
    made, logged = _deployment(case)
    run = simulate(_requests(case), made, seed=case.seed, log_replicas=(logged,), skip_runs=False)
    batches = run.table("batches")
    rows: list[list[tuple[int, str]]] = [[] for _ in run.table("iterations")["replica"]]
    columns = (batches[name].tolist() for name in ("iteration", "request", "tokens", "admitted"))
    for row, request, tokens, admitted in zip(*columns, strict=True):
        word = f"{request}:{tokens}" if tokens else f"{request}!"
        rows[row].append((request, word + (f"@{admitted}" if admitted >= 0 else "")))
    done = run.column("first_token_ps" if case.role == "prefill" else "end_ps")
    return Answer([" ".join(word for _, word in sorted(row)) for row in rows], done.tolist())


def _deployment(case: Case) -> tuple[Deployment, int]:
    """The replica that is compared, and its number; the other half of a split deployment takes no time."""
    tokens = np.array([0, case.max_batched_tokens])
    seconds = (case.base_ps + case.token_ps * tokens) * 1e-12
    judged = Pool(
        "judged",
        Cost(tokens, seconds, np.zeros(2)),
        role=case.role,  # type: ignore[arg-type]
        block_tokens=case.block_tokens,
        kv_blocks=case.kv_blocks,
        max_sequences=case.max_sequences,
        max_batched_tokens=case.max_batched_tokens,
        prompt_tokens=case.threshold,
        chunked=case.chunked,
        by_priority=case.priority,
        ahead=case.ahead,
        prefix_cache=case.prefix_cache,
        speculative=Speculative(case.draft_tokens, case.acceptance) if case.draft_tokens else None,
    )
    free = Pool("other half", Cost.constant(0.0), role="decode", max_sequences=2**20, max_batched_tokens=2**20)
    if case.role == "both":
        return Deployment((judged,), stop_on_overload=False), 0
    if case.role == "prefill":
        return Deployment((judged, free), stop_on_overload=False), 0
    return Deployment((replace(free, role="prefill"), judged), stop_on_overload=False), 1


def _requests(case: Case) -> _Requests:
    chains = [_chain(case, index) for index in range(len(case.requests))] if case.prefix_cache else []
    ptr = np.cumsum([0] + [len(chain) for chain in chains]) if chains else np.zeros(0)
    return _Requests(
        np.array([one.arrival_ps for one in case.requests], np.int64),
        np.array([one.input for one in case.requests], np.int32),
        np.array([one.output for one in case.requests], np.int32),
        ptr.astype(np.int64),
        np.array([one for chain in chains for one in chain], np.uint64),
        case.block_tokens if chains else 0,
        np.zeros(0, np.int64),
        np.array([one.priority for one in case.requests], np.int32),
    )


def _chain(case: Case, index: int) -> list[int]:
    """A hash of each whole block of the prompt and the answer, and of all before it."""
    tokens, block = case.tokens_of(case.requests[index]) + case.answer_of(index), case.block_tokens
    hashes, before = [], b""
    for end in range(block, len(tokens) + 1, block):
        before = hashlib.sha256(before + np.array(tokens[end - block : end], np.int64).tobytes()).digest()
        hashes.append(int.from_bytes(before[:8], "little"))
    return hashes
