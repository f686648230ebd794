"""The page that says how far our serving engine's iterations are vLLM's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard_validation.serving.schedule_cases import FEATURES, FRESH, SEEDS, draw
from railyard_validation.serving.schedules import ours, recorded

if TYPE_CHECKING:
    from pathlib import Path

DATA = ("vllm_schedules.json", "vllm_schedules_fresh.json")
# What was equal in the first run: cases, iterations up to the first difference of their case, and which cases. That of
# the committed seeds was before any correction, that of the fresh ones before any of them had been looked at.
_FIRST = {
    "committed": (13, 1096, {2700, 2701, 2707, 2708, 2710, 2711, 2717, 2718, 2720, 2724, 2725, 2734, 2737}),
    "fresh": (38, 4201, set(FRESH) - {2774, 2775}),
}
HEAD = """# Serving: what is equal to vLLM's scheduler

vLLM's own scheduler and engine core (`vllm.v1.core.sched`, `vllm.v1.engine.core`, version 0.33.0, Apache-2.0) run
random traces with an executor that computes nothing: the time of an iteration follows one law in both, tokens and
acceptances are given. Every iteration is compared: which requests it has, how many tokens of each, how many were cached
or had been sent when a request was admitted, and which were preempted; then when each answer is complete.
`validation/tools/vllm_schedule.py` is the live reference, and `test_schedules` keeps what it answered. The seeds of the
first 40 cases were committed before any comparison. The fresh ones are drawn by the same rule and were run only after
the engine had been corrected. Nothing is fitted. `validation/tools/serving_schedules_page.py` writes this page.

"""
RULES = """
## Rules that were wrong or missing

- **Admission.** A request is admitted when its whole prompt fits, not only its first chunk
  (`KVCacheManager.allocate_slots`, `full_sequence_must_fit`; `scheduler_reserve_full_isl` is the default, in 0.19 too).
  With little memory the engine admitted a prompt and preempted it again, iteration after iteration.
- **Prefix caching.** Full blocks of an answer are shared as soon as their tokens are known
  (`KVCacheManager.allocate_slots`), not once the answer is complete.
- **Speculative decoding.** As many tokens are guessed as the drafter makes, however few are left of the answer
  (`Scheduler.schedule`). A request with one token left to compute joins an iteration of decodes with as many guesses as
  they have, none of which is accepted (`pad_spec_decode`). After a chunk of a prompt nothing is guessed.
- **Speculative decoding with asynchronous scheduling.** A request has blocks as if all guesses were accepted, and one
  that accepted guesses ended early is computed once more (`num_output_placeholders`).
- **`long_prefill_token_threshold`** limits the tokens of a request in an iteration, unless it is the only one. New.
- **Priorities.** The queue goes by priority and arrival, and the last in that order gives way
  (`SchedulingPolicy.PRIORITY`). New in the engine; scenarios and traces do not have priorities yet.
- **Decode pools.** A request whose cache comes from a prefill gets its blocks in one schedule and runs from the next
  on, with asynchronous scheduling from the one after that (`WAITING_FOR_REMOTE_KVS`); blocks of a prefix that the
  replica has are shared; with asynchronous scheduling a request in the iteration under way does not give way
  (`_request_blocks_can_be_freed`). The engine ran it in the first iteration that had room.
- **Without chunked prefill** a request that is computed again waits until it fits the budget; the engine split it.

## What still differs

- `max_model_len` cuts guesses at the end of the context (`Scheduler.schedule`). The engine has no longest context: this
  is the fresh case that differs.
- A pulled transfer begins when the decode side has blocks (`update_state_after_alloc`). In the engine it begins when
  the prefill ends, and the blocks are taken when it has arrived. In these cases transfers take no time.
- A decode side computes the last token of the prompt again and gives the first token itself. In the engine the prefill
  gives it; vLLM is asked for the prompt and that token.
- Of two copies of one block that are computed at once both are kept (`BlockHashToBlockMap`); in the engine one.
- EAGLE and MTP reserve `num_lookahead_tokens` and drop the last block of a prefix; the engine guesses as n-grams do.
- Sliding windows, hybrid models, LoRA, encoders and structured output are not compared: the engine has one group of
  full attention.
- A stop token, which an asynchronous schedule does not foresee: answers have the length that the trace says.

SGLang's scheduler has not been driven.
"""


def text(folder: Path) -> str:
    """The page, from what vLLM answered and what the engine does now."""
    lines = [
        HEAD + "| cases | at first | now | iterations at first | now |\n|---|---|---|---|---|",
    ]
    now: dict[int, bool] = {}
    for (name, (cases, iterations, _)), file in zip(_FIRST.items(), DATA, strict=True):
        theirs = recorded(folder / file)
        mine = {seed: ours(draw(seed)) for seed in theirs}
        now |= {seed: mine[seed].equals(theirs[seed]) for seed in theirs}
        same = sum(mine[seed].same(theirs[seed]) for seed in theirs)
        total = sum(len(one.iterations) for one in theirs.values())
        equal = sum(now[seed] for seed in theirs)
        row = f"| {name}, {len(theirs)} | {cases} equal | {equal} equal |"
        lines.append(f"{row} {iterations:,} of {total:,} | {same:,} of {total:,} |")
    lines.append("\nIterations count as equal up to the first difference of their case.\n\n" + _by_feature(now) + RULES)
    return "\n".join(lines)


def _by_feature(now: dict[int, bool]) -> str:
    first = _FIRST["committed"][2] | _FIRST["fresh"][2]
    rows = ["| feature | cases | equal at first, committed | fresh | equal now |\n|---|---|---|---|---|"]
    for feature in FEATURES:
        have = [seed for seed in now if feature in draw(seed).features]
        early, late = [seed for seed in have if seed in SEEDS], [seed for seed in have if seed in FRESH]
        counts = [f"{sum(seed in first for seed in some)} of {len(some)}" for some in (early, late)]
        rows.append(f"| {feature} | {len(have)} | {counts[0]} | {counts[1]} | {sum(now[seed] for seed in have)} |")
    return "\n".join(rows) + "\n"
