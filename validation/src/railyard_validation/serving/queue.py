"""Measured serving rows, request by request: each row's load through the serving engine, as its benchmark sends it.

A closed loop of C users is what InferenceX's and aiconfigurator's clients do (`--max-concurrency C --request-rate inf
--num-prompts 10 C`): all users start at once, and each sends its next request when the last is answered, so that one
tenth of the requests stand in the first wave. An open loop is a Poisson stream of as many requests as the run had.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.engine.serving import Deployment, Links, Pool, Router, Speculative, simulate
from railyard.work.serving.cost import Prompting, crowded_s, iteration_costs, with_prompts
from railyard.work.serving.iteration import launches_s
from railyard.work.serving.memory import cache_tokens
from railyard_validation.serving.cases import drawn
from railyard_validation.serving.model import take
from railyard_validation.serving.schedulers import Scheduler, scheduler_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.graph import Record
    from railyard.work.serving.cost import IterationCost, Role
    from railyard.work.serving.layout import Deployments
    from railyard.work.serving.software import ServingSoftwareColumns
    from railyard_validation.serving.cases import Case
    from railyard_validation.serving.layout import Pool as PoolOf
    from railyard_validation.serving.model import Table

    F = NDArray[np.float64]

# Requests of a run over its users (InferenceX, `--num-prompts $(( $CONC * 10 ))`; aiconfigurator's rows agree with it).
_WAVES = 10
# Of large runs fewer waves are simulated, and each of those behind the first counts for several.
_ENOUGH = 1000
_FEWEST = 2
# The shortest length over the longest, drawn evenly between (InferenceX, `RANDOM_RANGE_RATIO=0.8`).
_RATIO = 0.8
_PS = 1e12
# A client's next request reaches the scheduler so long after the answer: after the next iteration has begun.
_TURN_PS = 10**9
_SEED = 1
_BLOCK = 16
# Rate of the NIC of one accelerator, and of its scale-up ports where the pools share one domain.
_NIC_BPS = 400e9
_WAY_PS = 12_000_000


def runs(case: Case) -> bool:
    """Whether a row says what is sent when, and to how many workers, by its label or by the recipe behind it.

    Of a batch only the mean is known; an offline engine is full, and nothing arrives.
    """
    return case.kind in ("closed", "split", "open") and not case.vague


@dataclass(frozen=True)
class Queued:
    """What came of each row's run; NaN where there was none.

    Attributes:
        ttft_mean_s, ttft_median_s: From reaching the scheduler to the first token.
        tpot_s: Median over requests of (end - first token) / (tokens - 1).
        rate_per_s: Requests served by the whole deployment over the time of the run.
        batch: Mean sequences of a replica that decode, while any does.
        busy: Share of the time in which a replica has an iteration under way.
        iteration_s: An iteration of the decodes of all users.
        held: Iterations that requests are held back beside the queue.
    """

    ttft_mean_s: F
    ttft_median_s: F
    tpot_s: F
    rate_per_s: F
    batch: F
    busy: F
    iteration_s: F
    held: F


def served(whole: Table, software: ServingSoftwareColumns, rows: NDArray[np.int64]) -> Queued:
    """Runs the load of rows of a table through the engine.

    Args:
        whole: Cases as columns.
        software: Constants of every case.
        rows: Numbers of the cases to run.
    """
    schedulers = [scheduler_of(case) for case in whole.cases]
    sides = whole.behind, whole.ahead
    copies = whole.behind.layout.dp, whole.ahead.layout.dp
    budget = np.array([float(scheduler.budget) for scheduler in schedulers])
    behind = iteration_costs(whole.behind, software, budget * copies[0])
    ahead = iteration_costs(whole.ahead, software, budget * copies[1])
    room = cache_tokens(whole.behind), cache_tokens(whole.ahead)
    found = {name: np.full(len(schedulers), np.nan) for name in Queued.__dataclass_fields__}
    launches = launches_s(whole.behind, software), launches_s(whole.ahead, software)

    def _costs(case: Case, row: int) -> tuple[IterationCost, IterationCost]:
        share = float(software.prompt_share[row])
        crowds = [_crowd(side, software, row, cost, case) for side, cost in zip(sides, (behind, ahead), strict=True)]
        one = Prompting(case.engine, share, float(launches[0][row]), case.decode.dp, crowds[0])
        other = Prompting(case.engine, share, float(launches[1][row]), _copies(case.prefill), crowds[1])
        role: Role = "decode" if case.prefill else "both"
        return with_prompts(behind[row], role, one), with_prompts(ahead[row], "prefill", other)

    for row in rows.tolist():
        case, scheduler = whole.cases[row], schedulers[row]
        iteration = _decode_s(case, behind[row], float(whole.most[row]))
        rooms = float(room[0][row]), float(room[1][row])
        others = float(software.acceptance[row]), float(software.handover_s[row])
        plan = _Plan(case, scheduler, *_costs(case, row), rooms, *others)
        for name, value in _either(plan).items():
            found[name][row] = value
        found["iteration_s"][row], found["held"][row] = iteration, scheduler.held
    return Queued(**found)


def _crowd(
    side: Deployments, software: ServingSoftwareColumns, row: int, costs: Sequence[IterationCost], case: Case
) -> F | float:
    if side.layout.dp[row] <= 1.0:
        return 0.0
    index = np.array([row])
    return crowded_s(take(side, index), take(software, index), costs[row].tokens, case.prompt)


def _copies(pool: PoolOf | None) -> int:
    return pool.dp if pool else 1


@dataclass(frozen=True)
class _Plan:
    case: Case
    scheduler: Scheduler
    behind: IterationCost
    ahead: IterationCost
    rooms: tuple[float, float]
    acceptance: float
    handover_s: float


def _decode_s(case: Case, cost: IterationCost, most: float) -> float:
    users = np.array([min(max(case.users, 1.0) / case.decode.workers, most)])
    context = case.prompt + case.output / 2.0
    return float(cost.seconds(users * (1 + case.drafts), users, users * context, np.zeros(1))[0])


def _either(plan: _Plan) -> dict[str, float]:
    """One run; where the label leaves open whether tokens are drafted, one each way, and what stands between both."""
    share, drafted = plan.case.drafting, _run(plan)
    if share >= 1.0:
        return drafted
    plain = _run(replace(plan, case=replace(plan.case, drafts=0)))
    return {name: drafted[name] ** share * plain[name] ** (1.0 - share) for name in drafted}


def _run(plan: _Plan) -> dict[str, float]:
    case = plan.case
    asked, users = _requests(case)
    run = simulate(asked, _deployment(plan), users=users, think_ps=_TURN_PS)
    return _statistics(run, asked, case.decode.workers, users)


def _statistics(run: Record, asked: Any, behind: int, wave: int) -> dict[str, float]:
    """What the benchmark would have printed; `wave`: users of a closed loop who start at once, 0 without."""
    # A first token is seen where its sequence goes on: behind the transfer of its cache.
    seen = np.maximum(run.column("first_token_ps"), run.column("transfer_end_ps"))
    first = (seen - run.start_ps) / _PS
    steps = np.maximum(asked.output_tokens - 1, 1)
    each = np.maximum(run.end_ps - seen, 0) / _PS / steps
    count, lasts = len(first), run.meta["end_ps"] / _PS
    mean, wanted = float(first.mean()), count
    middle = slice(wave, max(count - wave, wave + 1)) if wave else slice(None)
    if wave:
        mean = float(first[:wave].mean() + (_WAVES - 1) * first[wave:].mean()) / _WAVES
        wanted = _WAVES * wave
        turns = (run.start_ps[-1] - run.start_ps[wave]) / _PS / max(count - 1 - wave, 1)
        lasts += (wanted - count) * turns
    return {
        "ttft_mean_s": mean,
        "ttft_median_s": float(np.median(first[middle])),
        "tpot_s": float(np.median(each[middle])),
        "rate_per_s": wanted / lasts,
        "batch": float(np.sum(each * steps)) * _PS / run.meta["end_ps"] / behind,
        "busy": float(run.table("replicas")["busy_ps"][-behind:].mean()) / run.meta["end_ps"],
    }


def _requests(case: Case) -> tuple[Any, int]:
    """The requests of a row's run, and its users; 0 of an open loop."""
    random = np.random.Generator(np.random.Philox(_SEED))
    users = max(round(case.users), 1)
    if case.kind == "open":
        count = int(case.count)
        arrival = np.cumsum(random.exponential(_PS / case.rate_per_s, count)).astype(np.int64)
        return _columns(case, random, arrival), 0
    waves = min(max(_ENOUGH // users, _FEWEST), _WAVES)
    return _columns(case, random, np.zeros(waves * users, np.int64)), users


def _columns(case: Case, random: np.random.Generator, arrival: NDArray[np.int64]) -> Any:
    nothing = np.zeros(0, np.int64)
    return SimpleNamespace(
        arrival_ps=arrival,
        input_tokens=_lengths(case.prompt, case, random, len(arrival)),
        output_tokens=_lengths(case.output, case, random, len(arrival)),
        block_ptr=nothing,
        block_hash=nothing.astype(np.uint64),
        block_tokens=0,
        session=nothing,
    )


def _lengths(mean: float, case: Case, random: np.random.Generator, count: int) -> NDArray[np.int32]:
    """Lengths of that mean: drawn evenly by InferenceX, alike elsewhere."""
    if not drawn(case.row):
        return np.full(count, max(round(mean), 1), np.int32)
    most = 2.0 * mean / (1.0 + _RATIO)
    return np.maximum(random.integers(round(_RATIO * most), round(most) + 1, count, dtype=np.int32), 1)


def _deployment(plan: _Plan) -> Deployment:
    case, scheduler = plan.case, plan.scheduler
    speculative = Speculative(case.drafts, plan.acceptance) if case.drafts else None
    longest = 1.2 * (case.prompt + case.output)

    def pool(role: Any, cost: IterationCost, copies: int, workers: int, room: float) -> Pool:
        # A replica that is known to run although its weights leave no room here: nothing is known but the scheduler.
        known = room >= longest
        return Pool(
            role,
            cost,
            replicas=workers,
            role=role,
            block_tokens=_BLOCK,
            kv_blocks=int(min(room, 2**34) / _BLOCK) if known else 2**30,
            max_sequences=scheduler.most * copies,
            max_batched_tokens=scheduler.budget * copies,
            chunked=scheduler.chunked,
            ahead=scheduler.ahead and role != "prefill",
            policy="prefill-first" if scheduler.prompts_first and role == "both" else "decode-first",
            kv_bytes_per_token=cost.kv_bytes_per_token,
            speculative=None if role == "prefill" else speculative,
        )

    if case.prefill is None:
        pools = (pool("both", plan.behind, case.decode.dp, case.decode.workers, plan.rooms[0]),)
        return Deployment(pools, Router("least-loaded"), stop_on_overload=False)
    ahead = pool("prefill", plan.ahead, case.prefill.dp, case.prefill.workers, plan.rooms[1])
    behind = pool("decode", plan.behind, case.decode.dp, case.decode.workers, plan.rooms[0])
    way_ps = _WAY_PS + round(plan.handover_s * _PS)
    links = _links(case.prefill.workers, case.decode.workers, (case.prefill.ranks, case.decode.ranks), way_ps)
    return Deployment((ahead, behind), Router("least-loaded"), links=links, stop_on_overload=False)


def _links(ahead: int, behind: int, ranks: tuple[int, int], way_ps: int) -> Links:
    """All NICs of a prefill replica out, all of a decoding one in, over a fabric that does not block."""
    rate = np.concatenate([np.full(ahead, ranks[0] * _NIC_BPS), np.full(behind, ranks[1] * _NIC_BPS)])
    out, into = np.divmod(np.arange(ahead * behind), behind)
    return Links(
        rate_bps=rate,
        from_replica=out.astype(np.int32),
        to_replica=(ahead + into).astype(np.int32),
        ptr=2 * np.arange(ahead * behind + 1),
        link=np.stack([out, ahead + into], axis=1).ravel().astype(np.int32),
        share=np.ones(2 * ahead * behind),
        latency_ps=np.full(ahead * behind, way_ps),
    )
