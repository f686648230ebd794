"""What to know of a run before its figures are believed: requests too long, a cache too small, a long end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.measure.serving.served import DROPPED
from railyard.work.study.deaths import span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from railyard.catalog import Model
    from railyard.engine.serving import Pool
    from railyard.graph import Record
    from railyard.graph.request_table import RequestTable
    from railyard.measure.serving.served import Served
    from railyard.work.serving.deaths import ReplicaDeath
    from railyard.work.serving.placing import PlacedPool

_AGAIN = 0.05
"""Share of computed prompt tokens that had been computed before, from which on a cache is called too small."""
_END = 1.1
"""A run that takes so many times as long as its requests arrive has an end that shows in its rates."""


def too_long(requests: RequestTable, model: Model) -> Iterator[str]:
    """Requests beyond the context of the model.

    Engines refuse them (vLLM, `max_model_len`, which is the model's unless one says otherwise). They are served here,
    for studies send the prompts of one model to the shape of another, as Mooncake's do.

    Args:
        requests: What is asked.
        model: What answers.
    """
    tokens = requests.input_tokens.astype(np.int64) + requests.output_tokens
    over = int((tokens > model.max_seq).sum())
    if over:
        yield (
            f"{over} of {len(requests)} requests are longer than the {model.max_seq} tokens that {model.name} is made"
            f" for, prompt and answer (the longest {int(tokens.max())}): served as if it took them; engines refuse them"
        )


def bounded(model: Model, pools: Sequence[PlacedPool], made: Sequence[Pool]) -> Iterator[str]:
    """Pools in which states of recurrences leave room for fewer sequences than the section allows.

    Args:
        model: What answers.
        pools: As they are written.
        made: As they run.
    """
    if model.recurrent is None:
        return
    for pool, runs in zip(pools, made, strict=True):
        if runs.max_sequences < pool.section.max_sequences:
            yield (
                f"pool {pool.role}: memory holds the states of {runs.max_sequences} of the {pool.section.max_sequences}"
                " sequences that `max_sequences` allows, beside keys and values of requests of this length"
            )
    if len(pools) > 1:
        yield "states of recurrences are not counted in what moves between pools: keys and values are"


def computed_again(requests: RequestTable, run: Record) -> float:
    """Share of the prompt tokens computed that had been computed before, at least: of preempted requests.

    Args:
        requests: What is asked.
        run: What became of them.
    """
    computed = float(run.table("replicas")["input_tokens"].sum())
    begun = run.column("prefill_start_ps") >= 0
    once = (requests.input_tokens - run.column("cached_tokens"))[begun].sum()
    lost = (requests.input_tokens * run.column("requeued").astype(np.int64)).sum()
    return max(computed - float(once) - float(lost), 0.0) / computed if computed > 0 else 0.0


def died(deaths: Sequence[ReplicaDeath], run: Record) -> Iterator[str]:
    """Replicas that died, and the requests that began anew for it.

    Args:
        deaths: Of the scenario.
        run: What became of the requests.
    """
    for one in deaths:
        if not one.replicas:
            yield f"{one.what} at {span(one.begin_s)} takes no replica away"
            continue
        plural = "replica" if len(one.replicas) == 1 else "replicas"
        yield (
            f"{one.what} at {span(one.begin_s)} takes {plural} {', '.join(map(str, one.replicas))} away for"
            f" {span(one.end_s - one.begin_s)} and the loading of weights"
        )
    if any(one.replicas for one in deaths):
        yield f"{begun_anew(run)} requests began anew on other replicas, their keys and values lost"


def begun_anew(run: Record) -> int:
    """Requests of replicas that died, which others began again."""
    return int((run.column("requeued") > 0).sum())


def thrashed(requests: RequestTable, run: Record) -> Iterator[str]:
    """A cache that is too small for what runs at once.

    Args:
        requests: What is asked.
        run: What became of them.
    """
    count, again = int(run.column("preemptions").sum()), computed_again(requests, run)
    if count and (again >= _AGAIN or 2 * count >= len(requests)):
        yield (
            f"{count} preemptions of {len(requests)} requests: the cache is too small for what runs at once, and"
            f" {again:.0%} of the prompt tokens that were computed had been computed before; lower `max_sequences`, or"
            " raise `tp` or `replicas`, or lower `kv_bits`"
        )


def refused(found: Served, by: str) -> Iterator[str]:
    """What to know of requests that were refused.

    Args:
        found: The requests as they were served.
        by: What cannot hold them.
    """
    dropped = int((found.status == DROPPED).sum())
    if dropped:
        which = "1 request is" if dropped == 1 else f"{dropped} requests are"
        yield f"{which} longer than {by}: refused"


def drained(found: Served) -> Iterator[str]:
    """What to know of a run whose last answers came long after its last request: its rates do not count that time.

    The longest answers may be all there is to it; otherwise requests have waited, in a queue or for keys and values.
    """
    arrivals_s = float(found.arrival_s[-1] - found.arrival_s[0])
    late_s = found.span_s - arrivals_s
    if found.span_s <= _END * arrivals_s or arrivals_s <= 0:
        return
    described = (
        f"the last answer came {late_s:.0f} s after the last request, {late_s / found.span_s:.0%} of the run;"
        " rates and prices are of the time before: "
    )
    if late_s > float(np.nanmax(found.e2e_s - found.queue_s - found.transfer_s)):
        yield f"{described}the load is near or beyond what the deployment can serve"
    else:
        yield (
            f"{described}the longest answers take as long; with more requests it"
            " weighs less, or the load shows to be beyond what the deployment can serve"
        )
