"""The diagnosis of a record with its task graph: what computes by its peers, then the network by replay.

Nothing of the record is read but what happened and what ran: not what its `meta` says of faults.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.observe.diagnosis import compute, network
from railyard.ask.observe.diagnosis.peers import routed
from railyard.ask.observe.diagnosis.verdict import UNPRICED, Diagnosis, suspect
from railyard.cluster.names import node_name
from railyard.kit.quantities import ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.graph import Record, TaskGraph
    from railyard.measure.result.answers import SuspectRow

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    from collections.abc import Iterable

    from railyard.ask.observe.diagnosis.compute import Paces, Slow
    from railyard.ask.observe.diagnosis.network import Guess, Weighed
    from railyard.ask.observe.diagnosis.peers import Routed
    from railyard.ask.observe.diagnosis.verdict import HourlyPrice
    from railyard.cluster import Cluster


MOST = 0.9
"""Largest share of its speed that a computation loses: a kernel is never starved."""


def slowed_ps(record: Record) -> Ints:
    """int64[tasks], how much longer computations took because of communications at the same time; 0 for all others."""
    graph, took = record.graph, record.end_ps - record.start_ps
    if graph.loss_index is None or graph.loss is None:
        return np.zeros(len(graph), np.int64)
    computes = np.flatnonzero(graph.on_accelerator & record.ended & (graph.loss_index >= 0) & (took > 0))
    lost = np.zeros(len(computes))
    talks = np.flatnonzero(~graph.on_accelerator & record.ended & (graph.loss_index >= 0) & (took > 0))
    for column in range(graph.loss.shape[1]):
        rank, task = _on_ranks(graph, talks[graph.loss_index[talks] == column])
        together = _together(record, rank, task, graph.rank[computes], computes)
        lost += graph.loss[graph.loss_index[computes], column] * together
    found = np.zeros(len(graph), np.int64)
    found[computes] = np.minimum(lost, MOST * took[computes]).astype(np.int64)
    return found


def _on_ranks(graph: TaskGraph, talks: Ints) -> tuple[Ints, Ints]:
    """Rank and task of every communication on every rank that its kernels run on."""
    several = graph.peer[talks] < 0
    single, groups = talks[~several], talks[several]
    ptr, members = graph.communicators.ptr, graph.communicators.ranks
    group = graph.rank[groups].astype(np.int64)
    size = np.diff(ptr)[group] if len(groups) else np.empty(0, np.int64)
    inside = members[ranges(ptr[group], size)] if len(groups) else size
    return (
        np.concatenate([graph.rank[single].astype(np.int64), inside.astype(np.int64)]),
        np.concatenate([single, np.repeat(groups, size)]),
    )


def _together(record: Record, rank: Ints, talk: Ints, of: NDArray[np.int32], computes: Ints) -> Floats:
    """float64[computations], ps that communications of their rank ran at the same time, summed over these."""
    found = np.zeros(len(computes))
    for one in np.unique(of).tolist():
        mine = np.flatnonzero(of == one)
        those = talk[rank == one]
        starts, ends = np.sort(record.start_ps[those]), np.sort(record.end_ps[those])
        upto = [
            _passed(starts, at) - _passed(ends, at)
            for at in (record.end_ps[computes[mine]], record.start_ps[computes[mine]])
        ]
        found[mine] = upto[0] - upto[1]
    return found


def _passed(moments: Ints, at: Ints) -> Floats:
    """float64[len(at)], sum over all moments before `at` of the time since."""
    before = np.searchsorted(moments, at)
    total = np.concatenate([[0.0], np.cumsum(moments, dtype=np.float64)])
    return np.asarray(before * at.astype(np.float64) - total[before], np.float64)


NEGLIGIBLE = 1e-4
"""Delays of communications that are less of the step than this name nothing."""

NOTICED = 0.01
"""Share of the step that communications must have lost together to be worth an "I do not know"."""

ODDS = 8.0
"""Log of the odds against none, beyond those of so many guesses, at which a part may be named."""

MILDEST = 0.94
"""Share of its rate above which a part is as good as whole: engines and clusters differ by as much."""

_ONCE = "in the one step that was recorded"
"""That nothing tells a lasting fault from one that passes."""

SURE = 0.75
"""Least confidence, against all other parts, at which one is named."""

EXPLAINED, POINTED = (0.6, 0.3), 0.5
"""Share of the time lost by communications over a part that it must explain to be named. The second applies where
counters point at it by `POINTED` or more: engines agree on which part it is better than on how much it costs."""

TEMPERATURE = 2.0
"""Divisor of differences of likelihood: communications of one step are not independent."""


def diagnose(
    record: Record, cluster: Cluster | None, price: HourlyPrice = UNPRICED, seeds: Iterable[int] = ()
) -> Diagnosis:
    """Finds the guilty part.

    Args:
        record: Of tasks, with their graph.
        cluster: On which they ran; None: only accelerators and stages can be named.
        price: What the cluster costs.
        seeds: By how much the seed of the switches' hashes may have been moved on.
    """
    answer = Diagnosis()
    measured = record.has("slowed_ps")
    record = record if measured else _with_slowed(record, slowed_ps(record))
    groups = compute.stages(record.graph)
    per_host = 0 if cluster is None else cluster.ranks_per_server
    found = compute.relative(compute.paces(record), groups, per_host)
    if cluster is None:
        slow = compute.slow_parts(found, groups, per_host)
        answer.verdict = [_computing(one, found, None) for one in slow]
        answer.notes.append("without --cluster no link, NIC or host can be named")
        answer.unknown = not answer.verdict
        return answer
    paths = routed(measured_graph(record), cluster, record, seeds)
    healthy = paths.replay()
    if not measured and healthy.has("slowed_ps"):
        usual = _with_slowed(record, healthy.column("slowed_ps"))
        found = compute.agreed(found, compute.relative(compute.paces(usual), groups, per_host))
    slow = compute.slow_parts(found, groups, per_host)
    healed = _healed(found, slow, paths)
    share = 1 - healed / max(healthy.makespan_ps, 1)
    answer.verdict = [_computing(one, found, price.of(share)) for one in slow]
    answer.what_if = {
        "S": record.makespan_ps / max(healed, 1),
        "S_communication": record.makespan_ps / max(healthy.makespan_ps, 1),
        "S_computation": healthy.makespan_ps / max(healed, 1),
    }
    _networking(network.weigh(record, paths, healthy), paths, record, price, answer)
    return answer


def _with_slowed(record: Record, slowed: NDArray[np.int64]) -> Record:
    return replace(record, optional={**record.optional, "slowed_ps": slowed})


def measured_graph(record: Record) -> TaskGraph:
    """The tasks with computations as long as they were measured."""
    graph = record.graph
    return replace(graph, duration_ps=np.where(graph.on_accelerator, compute.computed_ps(record), graph.duration_ps))


def _healed(found: Paces, slow: list[Slow], paths: Routed) -> int:
    """The step without slow parts, on a healthy network, ps."""
    graph = paths.merged.graph
    factor = np.ones(graph.ranks)
    for one in slow:
        factor[list(one.ranks)] = 1 / found.relative[list(one.ranks)]
    mine = graph.on_accelerator
    faster = np.where(mine, graph.duration_ps * factor[np.where(mine, graph.rank, 0)], graph.duration_ps)
    merged = replace(paths.merged, graph=replace(graph, duration_ps=np.rint(faster).astype(np.int64)))
    return replace(paths, merged=merged).replay().makespan_ps


def _computing(one: Slow, found: Paces, usd: float | None) -> SuspectRow:
    count = f"its {len(one.ranks)} accelerators compute" if len(one.ranks) > 1 else "it computes"
    words = f"{count} {one.ratio:.3f} times as long as the others, whose spread is {found.sigma:.2%}, {_ONCE}"
    return suspect(one.name, one.kind, round(float(min(0.99, 1 - 0.5 * np.exp(-one.spreads / 2))), 3), words, usd)


NAMED = 2
"""Pairs of switches that are named."""


def _unused(paths: Routed) -> str:
    """Links of the paths without a byte, by their ends."""
    cluster, links = paths.cluster, paths.cluster.links
    pairs = Counter((int(links.source[one]), int(links.target[one])) for one in paths.unused)
    words = [
        f"{node_name(cluster, a)} -> {node_name(cluster, b)} ({count})" for (a, b), count in pairs.most_common(NAMED)
    ]
    more = "" if len(pairs) <= NAMED else f" and {len(pairs) - NAMED} more pairs of switches"
    return f"links without a byte are {', '.join(words)}{more}; " if words else ""


def _networking(found: Weighed, paths: Routed, record: Record, price: HourlyPrice, answer: Diagnosis) -> None:
    if not paths.known:
        answer.notes.append(
            f"switches counted {paths.astray:.0%} of the bytes on other cables than the file's paths: {_unused(paths)}"
            "cables are down and traffic goes round them, or counters have the names of other cables; `railyard audit`"
            " compares the cables"
        )
        answer.unknown = True
    if found.lost_ps < NEGLIGIBLE * record.makespan_ps or not found.guesses:
        return
    best = found.guesses[0]
    odds = best.likelihood - found.nothing - np.log(max(found.tried, 1))
    if odds < ODDS or best.factor > MILDEST:
        return
    against = network.rivals(found.guesses)
    confidence = 1 / (1 + sum(float(np.exp((one.weight - best.weight) / TEMPERATURE)) for one in against))
    if confidence < SURE or best.explained < _enough(best) or not _sure_of_path(best, paths):
        _not_known(found, best, record, answer)
        return
    slower = answer.what_if["S_communication"]
    answer.verdict.append(_suspect(best, min(confidence, 1 - 0.5 * float(np.exp(-odds / ODDS))), slower, price))


def _sure_of_path(best: Guess, paths: Routed) -> bool:
    """A cable is named if its paths are known; if packets are rerouted around it, only if counters point at it too."""
    return best.part.kind != "cable" or (paths.known and (paths.fixed or best.pointed_at >= POINTED))


def _enough(best: Guess) -> float:
    return EXPLAINED[best.pointed_at >= POINTED]


def _suspect(best: Guess, confidence: float, slower: float, price: HourlyPrice) -> SuspectRow:
    words = (
        f"it behaves like a link at {100 * best.factor:.0f} % speed and explains {100 * best.explained:.0f} % of the"
        f" slowdown, {_ONCE}"
    )
    sure = round(min(0.99, confidence), 3)
    return suspect(best.part.name, best.part.kind, sure, words, price.of(1 - 1 / slower))


def _not_known(found: Weighed, best: Guess, record: Record, answer: Diagnosis) -> None:
    if found.lost_ps < NOTICED * record.makespan_ps and best.explained < _enough(best):
        return
    answer.unknown = True
    near = [one.part.name for one in found.guesses if best.weight - one.weight < 2 * TEMPERATURE]
    if best.explained < _enough(best):
        answer.notes.append(
            f"communications take longer than they should, and no part explains that; nearest: {near[0]}"
        )
    else:
        answer.notes.append(f"several parts explain the delays about equally well: {', '.join(near[:5])}")
        answer.notes.append("a transfer between two hosts over each of them alone would settle which it is")
