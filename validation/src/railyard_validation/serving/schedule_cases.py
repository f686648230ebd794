"""Random request traces on which a serving scheduler is compared with vLLM's own, iteration by iteration.

A case is drawn from its seed by the standard library alone, so that `validation/tools/vllm_schedule.py` draws the same
one in an environment that has vLLM and no Railyard. `SEEDS` were committed before any case was run. `FRESH` are drawn
by the same rule and are run only after the engine's rules were corrected.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

SEEDS = tuple(range(2700, 2740))
FRESH = tuple(range(2740, 2780))
FEATURES = (
    "chunked",
    "whole prompts",
    "long prompt threshold",
    "prefix caching",
    "preemption",
    "priorities",
    "speculative",
    "ahead",
    "prefill only",
    "decode only",
)
"""Switched on in turn by the first 20 seeds of a series, each with even odds by the others."""

_ALONE = 20
_MS = 10**9  # in ps
_MASK = 2**64 - 1
_DRAFT_STREAM = 0x64726166


@dataclass(frozen=True)
class CaseRequest:
    """A request.

    Attributes:
        arrival_ps: When it arrives.
        prompt: Segments `(name, tokens)`; segments of one name begin with the same tokens.
        output: Tokens of the answer, at least 1.
        priority: Lower runs first.
    """

    arrival_ps: int
    prompt: tuple[tuple[int, int], ...]
    output: int
    priority: int

    @property
    def input(self) -> int:
        """Tokens of the prompt."""
        return sum(length for _, length in self.prompt)


@dataclass(frozen=True)
class Case:
    """A trace and the settings of the scheduler, by vLLM's names in brackets.

    Attributes:
        seed: It was drawn from, and speculative decoding draws with.
        features: Of `FEATURES`, those switched on.
        requests: By arrival.
        block_tokens: Tokens of a KV cache block (`block_size`).
        kv_blocks: Blocks that hold keys and values (`num_gpu_blocks` without the null block).
        max_sequences: (`max_num_seqs`).
        max_batched_tokens: (`max_num_batched_tokens`).
        chunked: (`enable_chunked_prefill`).
        threshold: Tokens of a prompt in one iteration; 0: no limit (`long_prefill_token_threshold`).
        prefix_cache: (`enable_prefix_caching`).
        priority: Requests run by priority, not by arrival (`policy`).
        ahead: An iteration is scheduled when the one before it begins (`async_scheduling`).
        draft_tokens: Guessed for each sequence and iteration (`num_speculative_tokens`); 0: none.
        acceptance: Chance of a guessed token, given that those before it were accepted.
        role: `both`, `prefill` (one token, then the cache is sent) or `decode` (the cache of the prompt arrives).
        base_ps: Time of an iteration ...
        token_ps: ... and on top for each token in it.
    """

    seed: int
    features: tuple[str, ...]
    requests: tuple[CaseRequest, ...]
    block_tokens: int
    kv_blocks: int
    max_sequences: int
    max_batched_tokens: int
    chunked: bool
    threshold: int
    prefix_cache: bool
    priority: bool
    ahead: bool
    draft_tokens: int
    acceptance: float
    role: str
    base_ps: int
    token_ps: int

    def tokens_of(self, request: CaseRequest) -> list[int]:
        """Token ids of the prompt."""
        return [segment_token(name, place) for name, length in request.prompt for place in range(length)]

    def answer_of(self, index: int) -> list[int]:
        """Token ids of the answer of the request with that number."""
        return [segment_token(answer_name(index), place) for place in range(self.requests[index].output)]

    def accepted(self, index: int, generated: int, drafts: int) -> int:
        """Of so many guessed tokens, those accepted for a request that has so many output tokens."""
        key = _mix(_mix(self.seed ^ _DRAFT_STREAM) ^ index)
        draw, count, chance = _mix(key ^ generated), 0, 1.0
        while count < drafts:
            chance *= self.acceptance
            if draw >= (_MASK if chance >= 1 else int(chance * 2.0**64)):
                break
            count += 1
        return count


def answer_name(index: int) -> int:
    """Segment that the answer of a request is."""
    return 1000 + index


def segment_token(name: int, place: int) -> int:
    """Token id at a place of a segment."""
    return 1 + name * 4096 + place


def draw(seed: int) -> Case:
    """The case of a seed."""
    rng = random.Random(f"serving schedule {seed}")
    features = _features(rng, (seed - SEEDS[0]) % len(SEEDS))
    has = set(features)
    block_tokens = rng.choice((4, 8, 16, 16, 32))
    budget = rng.choice((32, 64, 128, 256))
    requests = _requests(rng, has, longest=3 * budget)
    longest = max(one.input + one.output for one in requests)
    if "whole prompts" in has:
        budget = max(budget, longest + 1)
    draft_tokens = rng.choice((1, 2, 3, 5)) if "speculative" in has else 0
    needed = -(-(longest + 2 * draft_tokens) // block_tokens)
    ample = sum(-(-(one.input + one.output) // block_tokens) + draft_tokens + 1 for one in requests)
    return Case(
        seed=seed,
        features=features,
        requests=requests,
        block_tokens=block_tokens,
        kv_blocks=needed + rng.randrange(1 + needed) if "preemption" in has else ample,
        max_sequences=rng.choice((2, 4, 8, 16)),
        max_batched_tokens=budget,
        chunked="whole prompts" not in has,
        threshold=rng.randrange(8, budget) if "long prompt threshold" in has else 0,
        prefix_cache="prefix caching" in has,
        priority="priorities" in has,
        ahead="ahead" in has,
        draft_tokens=draft_tokens,
        acceptance=rng.choice((0.3, 0.6, 0.8, 0.95)) if draft_tokens else 0.0,
        role="prefill" if "prefill only" in has else "decode" if "decode only" in has else "both",
        base_ps=2 * _MS,
        token_ps=_MS // 50,
    )


def _features(rng: random.Random, place: int) -> tuple[str, ...]:
    if place < _ALONE:
        return (FEATURES[place % len(FEATURES)],)
    drawn = {name for name in FEATURES[1:] if rng.random() < 0.5}
    if {"prefill only", "decode only"} <= drawn:
        drawn.discard(rng.choice(("prefill only", "decode only")))
    if drawn & {"prefill only", "decode only"}:
        drawn.discard("speculative")  # a half of a split deployment is judged without guesses
    if "whole prompts" not in drawn:
        drawn.add("chunked")
    return tuple(name for name in FEATURES if name in drawn)


def _requests(rng: random.Random, has: set[str], longest: int) -> tuple[CaseRequest, ...]:
    """Bursts and gaps; with prefix caching requests share system prompts and go on with earlier answers."""
    requests: list[CaseRequest] = []
    gap_ms = rng.choice((1.0, 4.0, 12.0))
    now = 0
    for index in range(rng.randrange(12, 25)):
        now += round(rng.expovariate(1 / gap_ms) * _MS)
        prompt: tuple[tuple[int, int], ...] = ((100 + index, rng.randrange(1, longest if rng.random() < 0.4 else 60)),)
        if "prefix caching" in has:
            prompt = _shared(rng, requests) + prompt
        output = rng.randrange(2 if "decode only" in has else 1, 40)  # prefill gives the first token
        requests.append(CaseRequest(now, prompt, output, rng.randrange(3)))
    return tuple(requests)


def _shared(rng: random.Random, before: list[CaseRequest]) -> tuple[tuple[int, int], ...]:
    kind = rng.random()
    if before and kind < 0.4:
        last = rng.randrange(len(before))
        if before[last].input < 400:
            return (*before[last].prompt, (answer_name(last), before[last].output))
    return ((rng.randrange(3), rng.choice((16, 50, 96))),) if kind < 0.8 else ()


def _mix(z: int) -> int:
    """The finalizer of SplitMix64, as in the core."""
    z = (z + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)
